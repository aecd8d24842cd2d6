"""Seconds of tests by folder, with a budget for each: what pytest prints at the end of a run."""

from pathlib import PurePosixPath

import pytest
from _pytest.terminal import TerminalReporter

ROOT = "nats3_dagster_tests"
# Seconds of a run of the whole suite on 2 cores, added up over the processes that share it: an eighth more than in a
# run that had the machine to itself (4,980 tests in 28 minutes, 5,020 s). What exceeds one becomes cheaper, or is
# raised here with a reason: contract/ from 100, because each store test is run against Azurite, and where it is built
# against fake-gcs-server.
BUDGETS = {
    "acceptance": 1150,
    "browser": 320,
    "contract": 190,
    "deploy": 130,
    "faults": 570,
    "http": 230,
    "integration": 1900,
    "orchestration": 1060,
    "unit": 200,
    "year": 10,
}


def seconds_by_folder(reporter: TerminalReporter) -> list[str]:
    """A line for each folder: tests, seconds and budget; then one for each folder that is over its budget."""
    reports = [r for found in reporter.stats.values() for r in found if isinstance(r, pytest.TestReport)]
    seconds: dict[str, float] = dict.fromkeys(map(_folder, reports), 0.0)
    tests = {folder: set[str]() for folder in seconds}
    for report in reports:
        seconds[_folder(report)] += report.duration
        tests[_folder(report)].add(report.nodeid)
    table = [
        f"{folder:<14}{len(tests[folder]):>6} tests {seconds[folder]:>7.0f} s of {BUDGETS.get(folder, 0):>5}"
        for folder in sorted(seconds)
    ]
    over = {f: s - BUDGETS.get(f, 0) for f, s in sorted(seconds.items()) if s > BUDGETS.get(f, 0)}
    return [*table, *(f"over its budget: {folder}, by {more:.0f} s" for folder, more in over.items())]


def _folder(report: pytest.TestReport) -> str:
    """The folder below the root of the tests."""
    parts = PurePosixPath(report.nodeid.partition("::")[0]).parts
    return parts[1] if len(parts) > 2 and parts[0] == ROOT else "."
