"""Compaction in Dagster: a tick asks for a run where a policy has hours due, and the run compacts them."""

from typing import Any

import pytest
from dagster import DagsterInstance, RunRequest, SensorResult, SkipReason, build_sensor_context

from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.stored import folder
from nats3_dagster.defs.jobs.compactions import COMPACT_TAG
from nats3_dagster.defs.project.project import load
from nats3_dagster.pipeline import compact_run
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.repairs import damage
from nats3_dagster_tests.support.small_chunks import bounds, live, small
from nats3_dagster_tests.support.stored import made


def tick(instance: DagsterInstance) -> list[RunRequest] | str:
    """The runs that it asks for, or why there is none."""
    repository = load().get_repository_def()
    context = build_sensor_context(instance=instance, repository_def=repository)
    said = repository.get_sensor_def("compact_sensor")(context)
    if isinstance(said, SkipReason):
        return str(said.skip_message)
    assert isinstance(said, SensorResult)
    return list(said.run_requests or ()) or str(said.skip_reason and said.skip_reason.skip_message)


def execute(instance: DagsterInstance, request: RunRequest) -> bool:
    job: Any = load().resolve_job_def("compact")
    return job.execute_in_process(
        run_config=request.run_config, tags=request.tags, instance=instance, raise_on_error=False
    ).success


@pytest.mark.parametrize("from_hours", [200, 1])
def test_hours_that_are_due_are_compacted(
    instance: DagsterInstance, workspace: Workspace, bucket: str, monkeypatch: pytest.MonkeyPatch, from_hours: int
) -> None:
    monkeypatch.setattr(compact_run, "SPARK_FROM_HOURS", from_hours)
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive)
    nothing = "No hour of an archive with the setting compact_after is due"
    assert tick(instance) == nothing
    change(workspace, "logs", {"compact_after_s": 1})
    (request,) = tick(instance)
    assert isinstance(request, RunRequest)
    assert (request.tags[COMPACT_TAG], bounds(workspace, archive)[0]) == ("logs", (1, 5))
    assert execute(instance, request)
    assert bounds(workspace, archive) == [(1, 30)]
    (run,) = instance.get_runs()
    assert [chunk.dagster_run_id for chunk in live(workspace, archive)] == [run.run_id]
    assert [seal.dagster_run_id for seal in workspace.catalog.seals.select(archive)] == [run.run_id]
    assert tick(instance) == nothing


def test_an_hour_that_fails_waits(instance: DagsterInstance, workspace: Workspace, bucket: str, s3_client: Any) -> None:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive)
    change(workspace, "logs", {"compact_after_s": 1})
    damage(s3_client, live(workspace, archive)[2])
    (request,) = tick(instance)
    assert isinstance(request, RunRequest)
    assert not execute(instance, request)
    assert len(bounds(workspace, archive)) == 6
    assert "Compaction of logs" in str(tick(instance))
