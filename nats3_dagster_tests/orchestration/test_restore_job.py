"""The job `restore_stream`: its result on the archive's replay, its refusals, and a config that is checked before."""

from typing import Any

import pytest
from dagster import DagsterInstance, DagsterInvalidConfigError

from nats3_dagster.defs.jobs import runs
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.orchestration.test_checks import load
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


@pytest.fixture
def before(workspace: Workspace, wire: Wire, bucket: str) -> list[tuple[Any, ...]]:
    wire.create_stream("EV", "ev.>", max_age=3600 * 10**9)
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(20)])
    archived(workspace, wire, "EV", bucket, "events")
    messages = [tuple(message) for message in wire.messages("EV")]
    wire.api("STREAM.DELETE.EV")
    return messages


def run(instance: DagsterInstance, **config: Any) -> Any:
    job = load().resolve_job_def("restore_stream")
    run_config = {"ops": {"restore_archived_stream": {"config": {"archive": "events", **config}}}}
    return job.execute_in_process(instance=instance, run_config=run_config, raise_on_error=False)


def test_a_run_restores_the_stream_and_says_what_it_did(
    before: list[tuple[Any, ...]], wire: Wire, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PROGRESS_S", 0.0)
    done = run(instance)
    assert done.success
    assert [tuple(message) for message in wire.messages("EV")] == before
    (observed,) = instance.fetch_observations(PROJECT.replay_key("events"), limit=10).records
    assert observed.asset_observation
    metadata = {key: value.value for key, value in observed.asset_observation.metadata.items()}
    assert isinstance(seconds := metadata.pop("seconds"), float)
    assert seconds > 0
    assert metadata == {
        "stream": "EV",
        "messages": 20,
        "compared": 20,
        "ended": 0,
        "left_out": ["max_age"],
        "consumers": [],
        "removed": [],
    }
    lines = [record.user_message for record in instance.all_logs(done.run_id)]
    assert [line for line in lines if "Stream EV: 20 of 20 messages" in line]
    assert [line for line in lines if line.startswith("Stream EV: 20 messages restored in ")]


def test_a_part_under_another_name(before: list[tuple[Any, ...]], wire: Wire, instance: DagsterInstance) -> None:
    asked = {"name": "B", "sequences": [3, 12], "subjects": ["ev.1"], "storage": "memory", "verify": False}
    assert run(instance, **asked).success
    assert [tuple(message) for message in wire.messages("B")] == [
        message for message in before if message[1] == "ev.1" and 3 <= message[0] <= 12
    ]
    (observed,) = instance.fetch_observations(PROJECT.replay_key("events"), limit=10).records
    assert observed.asset_observation
    assert "compared" not in observed.asset_observation.metadata


@pytest.mark.parametrize(
    "config",
    [
        {"storage": "tape"},
        {"replicas": 9},
        {"name": "a.b"},
        {"sequences": [1]},
        {"sequences": [9, 1]},
        {"from_time": "yesterday"},
    ],
)
def test_a_config_that_cannot_be_is_refused_before_there_is_a_run(
    before: list[tuple[Any, ...]], instance: DagsterInstance, config: dict[str, Any]
) -> None:
    with pytest.raises(DagsterInvalidConfigError):
        run(instance, **config)
    assert instance.get_runs() == []


def test_a_stream_that_is_there_is_refused_and_stays(
    before: list[tuple[Any, ...]], wire: Wire, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    done = run(instance)
    assert not done.success
    assert "Stream EV exists" in str([event for event in done.all_events if event.is_failure])
    assert wire.state("EV")["messages"] == 0
    assert not instance.fetch_observations(PROJECT.replay_key("events"), limit=1).records
