"""An archive of a backup in Dagster: its sensors ask for nothing and its checks pass, whichever stream has its name."""

from pathlib import Path

import pytest
from dagster import DagsterInstance, SkipReason, build_sensor_context

from nats3_dagster.archive import status
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.project.project import load
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.integration.test_importing import imported, long_ago
from nats3_dagster_tests.support.backups import take_backup
from nats3_dagster_tests.support.dagster.capture_ticks import result
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


@pytest.mark.parametrize("lives", [False, True])
def test_its_sensors_and_checks(
    workspace: Workspace,
    wire: Wire,
    nats: NatsServer,
    bucket: str,
    tmp_path: Path,
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    lives: bool,
) -> None:
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "home"))
    long_ago(nats.url)
    take_backup(nats.url, "EV", tmp_path / "b")
    wire.api("STREAM.DELETE.EV")
    if lives:
        wire.create_stream("EV", "ev.>")
        wire.publish([("ev.a", b"", b"another")] * 5)
    imported(workspace, tmp_path / "b", bucket)
    definitions = load()
    repository = definitions.get_repository_def()
    for kind in ("capture", "seal"):
        sensor = repository.get_sensor_def(f"old_{kind}_sensor")
        with build_sensor_context(instance=instance, definitions=definitions) as context:
            outcome = sensor(context)
        assert isinstance(outcome, SkipReason), outcome
        assert str(outcome.skip_message).startswith("Archive old is of a backup, and follows no stream")
    run = definitions.resolve_job_def("checks").execute_in_process(instance=instance)
    assert run.success
    found = {one.check_name: one.passed for one in run.get_asset_check_evaluations()}
    assert found["capture_keeps_up"], found
    assert found["chunks_intact"], found
    # Resumed, it is compared with the stream of its name like any other.
    status.resume(workspace, "old")
    with pytest.raises(CannotTick, match="EV"):
        result(instance, archive="old")
