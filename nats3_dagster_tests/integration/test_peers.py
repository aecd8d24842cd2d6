"""`make peers` as a whole, with 2,000 messages and the tools that are on the search path: in CI, nats3 alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nats3_dagster_tests.peers.__main__ import TOOLS

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.needs_nats("2.15")]


def test_every_tool_is_measured_or_named_as_left_out(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "nats3_dagster_tests.peers", "--messages", "2000", "--rounds", "1", "--sizes", "256"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / ".nats3" / "peers.json").read_text())
    trials = {trial["tool"]: trial for trial in report["trials"]}
    assert sorted({*trials, *report["left_out"]}) == sorted(tool.name for tool in TOOLS)
    for name, program in report["left_out"].items():
        assert f"{name} is left out: there is no {program} on the search path" in done.stdout
    for name in ("nats3-dagster", "nats3-dagster-restore"):
        trial = trials[name]
        differences = {key: value for key, value in trial["comparison"].items() if key not in ("published", "returned")}
        assert trial["comparison"]["published"] == trial["comparison"]["returned"] == 2000, name
        assert not any(differences.values()), name
        for phase in ("archive", "replay"):
            assert trial[phase]["seconds"] > 0
            assert trial[phase]["tool_s"] > 0.5, "Python and its libraries alone take that"
            assert trial[phase]["peak_mb"] > 50
        assert 2000 < trial["stored_bytes"] < 2000 * 256
    assert "…" not in done.stdout
    assert (tmp_path / ".nats3" / "peers.svg").read_text().startswith("<?xml")
