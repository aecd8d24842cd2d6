"""Streams that limit their consumers: archives and replays stay within the limits, or are refused by name."""

from typing import Any

import pytest

from nats3_dagster.archive.health import nats_health
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.source_check import compare
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection, SeqRange
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures, taking
from nats3_dagster_tests.support.replays import driven, pending, published
from nats3_dagster_tests.support.wire import Wire

LIMITS: dict[str, dict[str, Any]] = {
    "inactive_threshold": {"consumer_limits": {"inactive_threshold": SECOND_NS}},
    "max_consumers": {"max_consumers": 1},
}
LIMITED = [pytest.param("inactive_threshold", marks=pytest.mark.needs_nats("2.10")), "max_consumers"]


def limited(wire: Wire, stream: str, subject: str, limit: str, **config: Any) -> None:
    """A stream that has as many consumers as it may have, or drops them soon."""
    wire.create_stream(stream, subject, **LIMITS[limit], **config)
    if limit == "max_consumers":
        taking.durable(wire, "theirs", stream)


@pytest.mark.parametrize("limit", LIMITED)
def test_it_is_archived_and_replayed_into(workspace: Workspace, wire: Wire, bucket: str, limit: str) -> None:
    """nats-server#5188, #7724: a replay that was killed can be resumed from such a target."""
    limited(wire, "EV", "ev.>", limit)
    limited(wire, "BACK", "back.>", limit)
    wire.publish([(f"ev.{n % 2}", b"NATS/1.0\r\nA: b\r\n\r\n" * (n % 3 == 0), b"%d" % n) for n in range(700)])
    for seq in (3, 4, 699):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    archive = create(workspace, ArchiveSpec("a", "EV", bucket))
    captures.capture(workspace, archive, wire)
    assert captures.archived(workspace, archive) == ([SeqRange(1, 700)], 697, [])
    assert not any(one.wrong or one.different for one in compare(workspace, archive))
    replay, _ = begin(workspace, ReplaySpec("a", "back.>", Selection(subjects=("ev.>",))))
    started = attempt.start(workspace, replay.id)
    # Killed before anything was recorded.
    assert sum(result.published for result in published(started.job, pending(workspace, replay.id))) == 697
    done = driven(workspace, replay.id)
    assert (done.state, done.published, done.found) == ("succeeded", 0, 697)
    said = [f.what for f in nats_health.check(workspace) if "max_consumers" in f.what]
    assert len(said) == (limit == "max_consumers")


def test_a_read_without_a_consumer_is_the_same(wire: Wire, nats: Any) -> None:
    wire.create_stream("EV", "ev.>", max_consumers=1)
    wire.publish([(f"ev.{n % 2}", b"NATS/1.0\r\nA: b\r\n\r\n" * (n % 3 == 0), b"%d" % n) for n in range(20)])
    for seq in (1, 7, 20):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    options: NatsOptions = nats.options
    with Link(options) as link:
        incarnation = stream_state(link, "EV").incarnation

    def read(first: int, last: int, subjects: tuple[str, ...], headers_only: bool) -> list[Any]:
        spec = ReadSpec(incarnation, SeqRange(first, last), subjects, headers_only)
        return [row for batch in read_batches(options, spec) for row in batch.to_pylist()]

    cases = [
        (first, last, subjects, headers_only)
        for first, last in ((1, 20), (2, 19), (7, 7), (20, 40), (1, 40))
        for subjects in ((), ("ev.1",), ("ev.1", "ev.*"))
        for headers_only in (False, True)
    ]
    by_consumer = [read(*case) for case in cases]
    taking.durable(wire, "theirs", "EV", max_ack_pending=1000)
    assert [read(*case) for case in cases] == by_consumer


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        pytest.param(
            {"consumer_limits": {"inactive_threshold": 60 * SECOND_NS}},
            "is deleted without pull requests for a while",
            marks=pytest.mark.needs_nats("2.10"),
        ),
        pytest.param(
            {"consumer_limits": {"max_ack_pending": 50}},
            "allows 50 unacknowledged messages of a consumer",
            marks=pytest.mark.needs_nats("2.10"),
        ),
        ({"max_consumers": 1}, r"has all 1 consumers that it may have \(max_consumers\)"),
    ],
)
def test_an_archive_that_needs_more_than_its_consumer_may_have(
    workspace: Workspace, wire: Wire, bucket: str, config: dict[str, Any], reason: str
) -> None:
    wire.create_stream("JOBS", "jobs.>", "other.>", retention="interest", **config)
    if "max_consumers" in config:
        taking.durable(wire, "theirs", filter_subject="other.>", max_ack_pending=1000)
    before = wire.api("STREAM.INFO.JOBS")["state"]["consumer_count"]
    with pytest.raises(OperatorError, match=f"Stream JOBS.*{reason}") as error:
        taking.make(workspace, bucket)
    assert "aise" in str(error.value.hint) or "emove" in str(error.value.hint)
    assert workspace.catalog.archives.all() == ()
    assert wire.api("STREAM.INFO.JOBS")["state"]["consumer_count"] == before


@pytest.mark.needs_nats("2.10")
def test_an_archive_takes_within_the_limit_of_its_stream(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("JOBS", "jobs.>", retention="workqueue", consumer_limits={"max_ack_pending": 20_000})
    wire.publish([("jobs.a", b"", b"%d" % n) for n in range(30)])
    archive = taking.make(workspace, bucket)
    assert sum(chunk.messages for chunk in taking.run(workspace, archive).chunks) == 30
    assert wire.api("CONSUMER.INFO.JOBS.nats3-jobs")["config"]["max_ack_pending"] == 20_000
