"""The run that the capture sensor asked for stays for the next captures; any other run ends after its own."""

import threading
import time
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.archive.captures import stay
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.jobs import staying
from nats3_dagster.defs.keys import ACCOUNT_TAG, WHY_TAG
from nats3_dagster.hours import hour_of
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.dagster.runs import run
from nats3_dagster_tests.support.dagster.stories import archive, archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.steady_hour(60)
CHUNKS = AssetKey(["events", "chunks"])


@pytest.fixture
def stream(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")])
    archive(settings, bucket, max_age_s=1)


def tags(**more: str) -> dict[str, str]:
    return {"dagster/partition": hour_of(time.time_ns()), **more}


def captures(settings: Settings) -> int:
    with Catalog.connect(settings.postgres) as catalog:
        return len({chunk.committed_at for chunk in catalog.chunks.select(catalog.archives.get("events"))})


def captured(settings: Settings, count: int) -> None:
    """Waits until so many messages are archived."""
    until = time.monotonic() + 30
    while archived(settings) < count:
        assert time.monotonic() < until
        time.sleep(0.1)


def queue(instance: DagsterInstance) -> None:
    """Puts a run into the queue."""
    # What is queued must say where its code is.
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("other"), "__repository__"), "other")
    create_run_for_test(instance, job_name="other", status=DagsterRunStatus.QUEUED, remote_job_origin=origin)


@pytest.mark.usefixtures("stream")
def test_one_run_does_the_captures_that_become_due_and_reports_each(
    spark: Any, settings: Settings, wire: Wire, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stay, "IDLE_S", 1.0)
    reported: list[int] = []

    def publish() -> None:
        for count in (1, 2):
            captured(settings, count)
            # The events of a capture are there while the run waits for the next one.
            until = time.monotonic() + 10
            while len(materializations(instance)) < count and time.monotonic() < until:
                time.sleep(0.1)
            reported.append(len(materializations(instance)))
            wire.publish([("ev.a", b"", b"x")])

    beside = threading.Thread(target=publish)
    beside.start()
    result = run(instance, "events_capture", tags=tags(**{WHY_TAG: "the oldest message is 1 s old"}))
    beside.join()
    assert (archived(settings), captures(settings), reported) == (3, 3, [1, 2])
    assert len(materializations(instance)) == 3
    # The checks are evaluated once, at the end.
    assert len(result.get_asset_check_evaluations()) == 2


def materializations(instance: DagsterInstance) -> list[Any]:
    return list(instance.fetch_materializations(CHUNKS, limit=100).records)


@pytest.mark.usefixtures("stream")
def test_a_run_that_no_sensor_asked_for_does_not_stay(
    spark: Any, settings: Settings, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stay, "IDLE_S", 600.0)  # one that stayed would take longer than a test may
    run(instance, "events_capture", tags=tags())
    assert archived(settings) == 1


@pytest.mark.usefixtures("stream")
def test_a_run_that_waits_in_the_queue_ends_the_stay(
    spark: Any, settings: Settings, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stay, "IDLE_S", 600.0)
    monkeypatch.setattr(staying, "QUEUE_LOOK_S", 0.1)

    def wait_and_queue() -> None:
        captured(settings, 1)
        queue(instance)

    beside = threading.Thread(target=wait_and_queue)
    beside.start()
    run(instance, "events_capture", tags=tags(**{WHY_TAG: "1 messages of 1"}))
    beside.join()
    assert archived(settings) == 1


def test_runs_that_stay_end_one_for_each_that_waits_the_oldest_first(instance: DagsterInstance) -> None:
    def stays(**more: str) -> str:
        tags = {WHY_TAG: "the oldest message is 30 s old", **more}
        return create_run_for_test(instance, status=DagsterRunStatus.STARTED, tags=tags).run_id

    def gives_way(run_id: str) -> bool:
        return staying._Queue(instance, run_id).is_waiting()  # pyright: ignore[reportPrivateUsage]

    stays(**{ACCOUNT_TAG: "captures"})  # it does not stay
    first, second = stays(), stays()
    assert (gives_way(first), gives_way(second)) == (False, False)
    queue(instance)
    assert (gives_way(first), gives_way(second)) == (True, False)
    queue(instance)
    assert (gives_way(first), gives_way(second)) == (True, True)
