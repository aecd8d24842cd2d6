"""Runs as the button "Launch run" of the UI asks for them."""

from typing import Any

from nats3_dagster_tests.support.dagster.processes import LOCATION, Dagster

_LAUNCH = """mutation ($how: ExecutionParams!) { launchRun(executionParams: $how) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""


def launch_job(dagster: Dagster, job: str, first: str, last: str, run_config: dict[str, Any]) -> str:
    """Have the daemon run a job for these hours; the run."""
    asked = ask_for(dagster, job, first, last, run_config)
    assert asked["__typename"] == "LaunchRunSuccess", asked
    return asked["run"]["runId"]


def ask_for(dagster: Dagster, job: str, first: str, last: str, run_config: dict[str, Any]) -> dict[str, Any]:
    """The answer of the webserver."""
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return dagster.ask(
        _LAUNCH,
        how={
            "selector": {"repositoryName": "__repository__", "repositoryLocationName": LOCATION, "jobName": job},
            "runConfigData": run_config,
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        },
    )["launchRun"]


def status(dagster: Dagster, run_id: str) -> str:
    return next(run["status"] for run in dagster.runs() if run["id"] == run_id)
