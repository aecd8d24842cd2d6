"""Targets that change in the middle of a replay: it goes on, or ends with what changed; it is never a false success."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import Pace
from nats3_dagster.replay.job import Share
from nats3_dagster.replay.republish import Republisher
from nats3_dagster_tests.integration.test_republish import TO_BACK, archived, job_of, numbered, payloads, publish
from nats3_dagster_tests.wire import Wire

MODES = [False, pytest.param(True, marks=pytest.mark.needs_nats("2.14"))]


def changed(job, chunks, change: Callable[[], object], after: int = 2):
    """The results of a task and what it failed of, where the target changes once so many chunks are done."""
    results, failure = [], None
    with Link(job.nats) as link:
        try:
            for result in Republisher(Share(job, chunks, 0, 1), link).results():
                results.append(result)
                if len(results) == after:
                    change()
        except TargetError as error:
            failure = error
    return results, failure


def batches(wanted: bool) -> dict[str, bool]:
    return {"allow_batched": True} if wanted else {}


@pytest.mark.parametrize("batched", MODES)
def test_a_stream_that_is_sealed(nats, file_store, batched) -> None:
    chunks = archived(nats, file_store, numbered(40), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>", **batches(batched))
        config = wire.api("STREAM.INFO.BACK")["config"]
        job = replace(job_of(nats, file_store, "BACK"), batched=batched)
        results, failure = changed(
            job, chunks, lambda: wire.api("STREAM.UPDATE.BACK", **config | {"sealed": True, "allow_rollup_hdrs": False})
        )
        assert [r.last_seq for r in results] == [10, 20]
        assert "sealed" in str(failure)
        assert payloads(wire) == list(range(20))


@pytest.mark.parametrize("batched", MODES)
def test_an_interest_stream_that_loses_its_consumer(nats, file_store, batched) -> None:
    """It then acknowledges messages and stores none."""
    chunks = archived(nats, file_store, numbered(40), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>", retention="interest", **batches(batched))
        config = {"durable_name": "app", "ack_policy": "explicit"}
        wire.api("CONSUMER.DURABLE.CREATE.BACK.app", stream_name="BACK", config=config)
        job = replace(job_of(nats, file_store, "BACK"), batched=batched)
        results, failure = changed(job, chunks, lambda: wire.api("CONSUMER.DELETE.BACK.app"))
        assert len(results) == 2
        assert "lost its last consumer" in str(failure)


def test_a_duplicate_window_shorter_than_the_pace(nats, file_store) -> None:
    chunks = archived(nats, file_store, numbered(8), 4)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>", duplicate_window=100_000_000)
        spec = replace(TO_BACK, pace=Pace(5.0))
        results, failure = publish(job_of(nats, file_store, "BACK", spec=spec), chunks)
        assert failure is None
        assert [r.published for r in results] == [4, 4]
        assert payloads(wire) == list(range(8))
        assert len([m for m in wire.messages("BACK") if b"Nats-Expected-Last-Msg-Id" in m.headers]) == 7
