"""The job `drill`: its result on the page of each rule, and a run that fails where an archive would not come back."""

from typing import Any

import pytest
from dagster import DagsterInstance

from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.orchestration.test_checks import load
from nats3_dagster_tests.support.accounts import capture_all, make_rule
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def run(instance: DagsterInstance, **config: Any) -> Any:
    job = load().resolve_job_def("drill")
    run_config = {"ops": {"drill_archives": {"config": config}}}
    return job.execute_in_process(instance=instance, run_config=run_config, raise_on_error=False)


def shown(instance: DagsterInstance) -> dict[str, Any]:
    """The newest result on the rule's page."""
    observed = instance.fetch_observations(PROJECT.account_key("all"), limit=1).records[0].asset_observation
    assert observed
    return {key: value.value for key, value in observed.metadata.items()}


def test_a_run_says_whether_each_archive_would_come_back(
    workspace: Workspace, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    for name in ("EV", "OTHER"):
        wire.create_stream(name, f"{name.lower()}.>")
        wire.publish([(f"{name.lower()}.1", b"", b"%d" % n) for n in range(10)])
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    assert run(instance).success
    found = shown(instance)
    assert (found["messages"], found["archives"], found["failed"]) == (20, 2, 0)
    archive = workspace.catalog.archives.get("EV")
    (chunk,) = workspace.catalog.chunks.select(archive)
    workspace.bucket(bucket).delete(chunk.meta.key)
    assert not run(instance, rules=["all"], whole=True).success
    found = shown(instance)
    assert (found["messages"], found["failed"]) == (10, 1)
    assert "EV" in found["failures"]
    drills = workspace.catalog.account_restores.drills([archive.id])
    assert drills[archive.id].error
    assert drills[archive.id].proven_at
