"""A run of tests in which a process dies ends, and has run all the other tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from nats3_dagster_tests.support import thorough

_PASSES = "def test_first(): pass\ndef test_second(): pass\n"
_DIES = "import os\ndef test_dies(): os._exit(1)\ndef test_after(): pass\n"


@pytest.mark.parametrize(
    ("files", "processes", "passed"),
    [
        pytest.param([_PASSES, _DIES], 1, 3, id="the-last-file"),
        pytest.param([_DIES, "def test_alone(): pass\n"], 1, 2, id="before-one-test"),
        pytest.param([_PASSES, _DIES, _PASSES, _PASSES], 2, 7, id="two-processes"),
    ],
)
def test_a_run_ends_though_a_process_dies(tmp_path: Path, files: list[str], processes: int, passed: int) -> None:
    assert f"1 failed, {passed} passed" in _run(tmp_path, files, processes)


def test_what_ci_leaves_out_is_there() -> None:
    """A file that got another name would be back in CI, and nobody would notice."""
    root = Path(__file__).parents[1]
    assert [name for name in thorough.files() if not (root / f"{name}.py").is_file()] == []
    assert thorough.is_thorough("http/test_fuzz::test_a[b]")
    assert not thorough.is_thorough("acceptance/test_readme::test_every_command_does_what_it_says")
    assert thorough.is_thorough("acceptance/test_readme::test_another_demo_touches_nothing_of_what_was_made_before")


def test_a_failure_with_bytes_that_are_not_utf8_is_shown(tmp_path: Path) -> None:
    files = ['def test_text(): assert False, "a" + chr(0xDC80)\n', _PASSES]
    shown = _run(tmp_path, files, 2)
    assert "1 failed, 2 passed" in shown
    assert r"a\udc80" in shown


def _run(folder: Path, files: list[str], processes: int) -> str:
    """What pytest prints of these files, of which one fails."""
    for number, text in enumerate(files):
        (folder / f"test_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "nats3_dagster_tests.support.scheduling", "--dist=loadfile"]
    command += ["-n", str(processes), "--rootdir=.", "."]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout
