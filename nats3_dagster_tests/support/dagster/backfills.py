"""Backfills as the UI and the command line launch them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from nats3_dagster_tests.support.dagster.processes import ROOT, Dagster
from nats3_dagster_tests.support.waiting import eventually

_LAUNCH = """mutation ($how: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $how) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_CANCEL = """mutation ($id: String!) { cancelPartitionBackfill(backfillId: $id) {
  __typename ... on PythonError { message } } }"""
_STATUS = "query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"


class Webserver(Protocol):
    """Whatever answers as Dagster's webserver does."""

    def ask(self, query: str, **variables: Any) -> Any: ...


def launched(dagster: Webserver, asset: str, hours: Sequence[str]) -> str:
    """Have the daemon materialize these hours of an asset, as the button "Launch backfill" does; the backfill."""
    how = {"assetSelection": [{"path": asset.split("/")}], "partitionNames": [*hours]}
    said = dagster.ask(_LAUNCH, how=how)["launchPartitionBackfill"]
    assert said["__typename"] == "LaunchBackfillSuccess", said
    return said["backfillId"]


def cancelled(dagster: Dagster, backfill: str) -> None:
    """Cancel it, as the UI does, and wait until it has ended."""
    said = dagster.ask(_CANCEL, id=backfill)["cancelPartitionBackfill"]
    assert said["__typename"] == "CancelBackfillSuccess", said
    eventually(lambda: status(dagster, backfill) == "CANCELED", "the backfill is cancelled", 120)


def status(dagster: Webserver, backfill: str) -> str:
    return dagster.ask(_STATUS, id=backfill)["partitionBackfillOrError"]["status"]


def runs_of(dagster: Dagster, backfill: str) -> list[str]:
    """The runs that it launched, the newest first."""
    return [run["id"] for run in dagster.runs() if run["tags"].get("dagster/backfill") == backfill]


def by_command(dagster: Dagster, job: str, first: str, last: str) -> list[str]:
    """`dagster job backfill` of the hours between two, as a person beside the daemon runs it; its runs."""
    before = {run["id"] for run in dagster.runs()}
    command = [Path(sys.executable).with_name("dagster"), "job", "backfill", "-w", dagster.home / "workspace.yaml"]
    environment = {**os.environ, "DAGSTER_HOME": str(dagster.home), "PYTHONWARNINGS": "ignore"}
    said = subprocess.run(
        [*command, "-j", job, "--from", first, "--to", last, "--noprompt"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert said.returncode == 0, said.stderr
    return [run["id"] for run in dagster.runs() if run["id"] not in before and run["jobName"] == job]
