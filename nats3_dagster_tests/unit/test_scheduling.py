"""A run of tests in which a process dies ends, and has run all the other tests."""

import subprocess
import sys
from pathlib import Path

import pytest

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
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(text)
    plugin = "nats3_dagster_tests.support.scheduling"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        plugin,
        "--dist=loadfile",
        "-n",
        str(processes),
        "--rootdir=.",
        ".",
    ]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert f"1 failed, {passed} passed" in ran.stdout
