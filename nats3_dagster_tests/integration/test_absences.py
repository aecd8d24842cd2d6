"""Absent sequences: why they are, by the stream's configuration; and a real message is worth more than a reason."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures import read as reading
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.captures.read import Outcome
from nats3_dagster.archive.health.nats_health import check
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.absence import absence_reason
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.source.loss import time_to_loss
from nats3_dagster.archive.status import holdings
from nats3_dagster.chunks import open_chunk
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, Gap, Reason, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import archived, capture, plan, read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

SECOND_NS = 10**9


def archive_of(workspace: Workspace, bucket: str, **spec: Any) -> Archive:
    return create(workspace, ArchiveSpec("events", "EV", bucket, **spec))


def chunks(outcomes: Iterable[Outcome]) -> list[tuple[SeqRange, int, Reason | None]]:
    return [(o.covers, o.messages, o.absent_reason) for o in outcomes if isinstance(o, ChunkMeta)]


@pytest.mark.parametrize(
    ("config", "above", "below"),
    [
        ({"max_age": 5, "max_msgs": -1, "max_msgs_per_subject": -1}, "deleted", "expired"),
        ({"max_msgs_per_subject": 1}, "superseded", "superseded"),
        ({"max_msgs_per_subject": 1, "max_bytes": -1, "max_age": 0}, "superseded", "superseded"),
        ({"max_msgs_per_subject": 1, "max_age": 5}, "superseded", "expired"),
        ({"max_msgs_per_subject": 1, "max_bytes": 5, "discard": "new"}, "superseded", "superseded"),
        ({"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}, "deleted", "expired"),
        ({"allow_msg_ttl": True}, "ttl", "expired"),
        ({"subject_delete_marker_ttl": 5}, "ttl", "expired"),
        ({"allow_msg_ttl": True, "max_msgs_per_subject": 9}, "superseded_or_ttl", "expired"),
        ({"retention": "interest"}, "expired", "expired"),
        ({"mirror": {"name": "O"}, "max_msgs_per_subject": 1}, "expired", "expired"),
        ({"mirror": {"name": "O", "filter_subject": "ev.a"}}, "unselected", "expired"),
        ({"retention": "limits"}, "deleted", "expired"),
        ({}, "deleted", "expired"),
    ],
)
def test_deleted_is_only_what_nothing_else_can_have_removed(config: dict[str, Any], above: str, below: str) -> None:
    for configs in ([config], [{}, config], [config, {}]):
        assert absence_reason(configs, below_head=False) == above
        assert absence_reason(configs, below_head=True) == below


def test_what_newer_messages_of_the_subject_removed_is_lost(
    workspace: Workspace, wire: Wire, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    wire.publish([("ev.old", b"", b"x")])
    archive = archive_of(workspace, bucket)
    capture(workspace, archive, wire)
    wire.publish([("ev.hot", b"", b"%d" % n) for n in range(1000)])
    result = capture(workspace, archive, wire)
    assert (chunks(result.chunks), result.lost) == ([(SeqRange(2, 1001), 1, "superseded")], 999)
    assert holdings(workspace, "events").losses == {"superseded": 999}
    assert "999 sequences of stream EV were gone before they were captured (2-1000)" in caplog.text


def test_below_the_head_only_newer_messages_can_have_removed_it(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    wire.publish([("ev.hot", b"", b"x")])
    archive = archive_of(workspace, bucket)
    wire.publish([("ev.hot", b"", b"x")] * 9)
    assert [(g.reason, g.ranges) for g in capture(workspace, archive, wire).gaps] == [("superseded", ((1, 9),))]


def test_a_limit_that_was_lifted_is_remembered(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Another capture or a sensor may have observed the new configuration before this capture."""
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    wire.publish([("ev.old", b"", b"x")])
    archive = archive_of(workspace, bucket)
    wire.publish([("ev.hot", b"", b"x")] * 9)
    config = wire.api("STREAM.INFO.EV")["config"]
    wire.api("STREAM.UPDATE.EV", **{**config, "max_msgs_per_subject": -1})
    for _ in range(2):
        plan(workspace, archive, wire)
    assert chunks(capture(workspace, archive, wire).chunks) == [(SeqRange(1, 10), 2, "superseded")]


@pytest.mark.needs_nats("2.10")  # 2.9 changes no retention
def test_what_another_retention_removed_meanwhile_is_lost(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """No capture succeeds while the stream has it; afterwards nothing in the stream tells of it."""
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.kept", b"", b"x")])
    kept = {"durable_name": "d", "ack_policy": "explicit", "filter_subject": "ev.kept"}
    wire.api("CONSUMER.DURABLE.CREATE.EV.d", stream_name="EV", config=kept)
    archive = archive_of(workspace, bucket)
    capture(workspace, archive, wire)
    config = wire.api("STREAM.INFO.EV")["config"]
    wire.api("STREAM.UPDATE.EV", **{**config, "retention": "interest"})
    wire.publish([("ev.a", b"", b"no consumer is for this")] * 5)
    with pytest.raises(OperatorError, match="interest retention"):
        open_source(workspace, archive)
    wire.api("STREAM.UPDATE.EV", **{**config, "retention": "limits"})
    wire.publish([("ev.a", b"", b"x")])
    result = capture(workspace, archive, wire)
    assert (chunks(result.chunks), result.lost) == ([(SeqRange(2, 7), 1, "expired")], 5)
    assert holdings(workspace, "events").losses == {"expired": 5}


def test_what_a_mirror_never_had_is_lost(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Its origin removed the messages before the mirror could have them: no setting of the mirror did."""
    wire.create_stream("O", "ev.>", max_msgs_per_subject=1)
    wire.publish([("ev.old", b"", b"x"), *[("ev.hot", b"", b"x")] * 9])
    wire.api("STREAM.CREATE.EV", name="EV", mirror={"name": "O"}, storage="file")
    until = time.monotonic() + 10
    while wire.state("EV")["last_seq"] < 10 and time.monotonic() < until:
        time.sleep(0.02)
    archive = archive_of(workspace, bucket)
    result = capture(workspace, archive, wire)
    assert (chunks(result.chunks), result.lost) == ([(SeqRange(1, 10), 2, "expired")], 8)


@pytest.mark.needs_nats("2.11")
def test_what_its_time_to_live_removed_is_lost(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", allow_msg_ttl=True)
    archive = archive_of(workspace, bucket)
    short = b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n"
    wire.publish([("ev.a", b"", b"x"), ("ev.b", short, b"x"), ("ev.c", b"", b"x")])
    until = time.monotonic() + 10
    while wire.state("EV")["messages"] == 3 and time.monotonic() < until:
        time.sleep(0.05)
    result = capture(workspace, archive, wire)
    assert (chunks(result.chunks), result.lost) == ([(SeqRange(1, 3), 2, "ttl")], 1)
    assert holdings(workspace, "events").losses == {"ttl": 1}


def test_what_the_server_lost_with_a_block_is_a_gap_of_its_own(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    archive = archive_of(workspace, bucket)
    wire.publish([("ev.a", b"", b"x")] * 10)
    for seq in (3, 4, 7, 10):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    planned = plan(workspace, archive, wire)
    look = reading.same_stream

    def damaged(*args: Any) -> Any:
        """A server reports a damaged block only until it is restarted, and no request makes one."""
        return replace(look(*args), damaged=(SeqRange(4, 4), SeqRange(10, 10)))

    monkeypatch.setattr(reading, "same_stream", damaged)
    outcomes = read(workspace, planned)
    assert chunks(outcomes) == [(SeqRange(1, 3), 2, "deleted"), (SeqRange(5, 9), 4, "deleted")]
    gaps = [(o.ranges, o.reason) for o in outcomes if isinstance(o, Gap)]
    assert gaps == [((SeqRange(4, 4),), "damaged"), ((SeqRange(10, 10),), "damaged")]


def test_a_filter_leaves_open_what_is_absent(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    archive = archive_of(workspace, bucket, subjects=("ev.a",))
    wire.publish([("ev.b", b"", b"x"), ("ev.a", b"", b"x"), ("ev.b", b"", b"x"), ("ev.a", b"", b"x")])
    wire.publish([("ev.c", b"", b"x")])
    result = capture(workspace, archive, wire)
    assert result.lost == sum(g.size for g in result.gaps if g.reason == "superseded")
    assert [c[2] for c in chunks(result.chunks)] == ["unselected"]


def stream_of(wire: Wire, count: int, **config: Any) -> None:
    wire.create_stream("EV", "ev.>", **config)
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(1, count + 1)])


def test_a_capture_that_holds_the_messages_wins_over_a_gap(workspace: Workspace, wire: Wire, bucket: str) -> None:
    stream_of(wire, 1000)
    archive = archive_of(workspace, bucket)
    planned = plan(workspace, archive, wire)
    outcomes = read(workspace, planned)
    wire.api("STREAM.PURGE.EV", seq=401)
    # As another capture records it that looked for objects of the range before they were put.
    lost = Gap(planned.job.state.incarnation, (SeqRange(1, 400),), "expired")
    workspace.catalog.chunks.commit(archive, [], [lost])
    assert [result.lost for result in commit.commit(workspace, planned, outcomes)] == [0]
    assert archived(workspace, archive) == ([(1, 1000)], 1000, [])


@pytest.mark.parametrize("taken_meanwhile", [False, True])
def test_what_a_killed_capture_had_put_is_adopted(
    workspace: Workspace, wire: Wire, bucket: str, taken_meanwhile: bool
) -> None:
    stream_of(wire, 1000)
    archive = archive_of(workspace, bucket)
    take_first = plan(workspace, archive, wire)
    read(workspace, take_first)  # and killed before the commit
    wire.api("STREAM.PURGE.EV", seq=401)
    if taken_meanwhile:  # of a plan that was made before: the stream's head overtakes it
        commit.commit(workspace, take_first, read(workspace, take_first))
    else:
        capture(workspace, archive, wire)
    assert archived(workspace, archive) == ([(1, 400), (401, 1000)], 1000, [])
    (first, _) = workspace.catalog.chunks.select(archive)
    reader = open_chunk(workspace.bucket(bucket).get(first.meta.key), first.meta)
    payloads = [data for batch in reader.batches(["data"]) for data in batch.column("data").to_pylist()]
    assert payloads == [b"%d" % n for n in range(1, 401)]


def test_a_whole_object_is_adopted_as_it_is(workspace: Workspace, wire: Wire, bucket: str) -> None:
    stream_of(wire, 100)
    archive = archive_of(workspace, bucket)
    (put,) = read(workspace, plan(workspace, archive, wire))
    wire.api("STREAM.PURGE.EV")
    wire.publish([("ev.a", b"", b"more")])
    capture(workspace, archive, wire)
    adopted = workspace.catalog.chunks.select(archive, with_subjects=True, with_deleted=True)[0]
    assert adopted.meta == put
    assert archived(workspace, archive)[1:] == (101, [])


def test_what_is_damaged_or_was_retired_is_not_adopted(workspace: Workspace, wire: Wire, bucket: str) -> None:
    stream_of(wire, 100)
    archive = archive_of(workspace, bucket)
    planned = plan(workspace, archive, wire)
    (put,) = read(workspace, planned)
    assert isinstance(put, ChunkMeta)
    commit.commit(workspace, planned, [put])
    catalog = workspace.catalog
    catalog.chunks.retire(archive, [c.id for c in catalog.chunks.select(archive)], recapture=True)
    store = workspace.bucket(bucket)
    damaged = put.key.replace(f"{put.covers.last:020d}", f"{99:020d}")
    store.create(damaged, bytes(store.get(put.key))[:-9])
    assert list(Orphans(workspace, archive).all()) == [damaged]
    wire.api("STREAM.PURGE.EV")
    assert capture(workspace, archive, wire).lost == 100
    assert archived(workspace, archive) == ([], 0, [("expired", 100)])


def test_what_was_put_of_a_stream_that_is_gone_is_adopted(workspace: Workspace, wire: Wire, bucket: str) -> None:
    stream_of(wire, 100)
    archive = archive_of(workspace, bucket)
    read(workspace, plan(workspace, archive, wire))
    wire.api("STREAM.DELETE.EV")
    stream_of(wire, 5)
    open_source(workspace, archive, adopt=True)
    assert archived(workspace, archive) == ([(1, 100)], 100, [])


def test_what_the_stream_removes_early_is_said(workspace: Workspace, wire: Wire, bucket: str, nats3: Command) -> None:
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    early = "The stream removes messages before a capture may see them, by its limit of 1 message per subject"
    command = ["store", "create", "--name", "events", "--stream", "EV", "--bucket", bucket]
    made = nats3.ok(*command, "-o", "json")
    assert made.json["warning"] == f"{early}. They count as lost"
    assert f"Warning: {early}" in made.err
    wire.publish([("ev.a", b"", b"x")])
    archive = workspace.catalog.archives.get("events")
    loss = time_to_loss(backlog(workspace, archive, open_source(workspace, archive).state, time.time_ns()))
    assert (loss.text, loss.level) == (early, "ok")
    (said,) = [finding.what for finding in check(workspace) if finding.what.startswith("Archive events")]
    assert said == f"Archive events, stream EV: 1 sequences are not captured. {early}"
    got = nats3.ok("store", "get", "events", "-o", "json").json
    assert got["time_to_loss"]["early"] == early


def test_what_a_killed_capture_had_put_fills_a_chunk(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Messages that newer ones of their subjects removed meanwhile, above the stream's head."""
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    wire.publish([(f"ev.{n}", b"", b"%d" % n) for n in range(1, 11)])
    archive = archive_of(workspace, bucket)
    read(workspace, plan(workspace, archive, wire))  # and killed before the commit
    wire.publish([(f"ev.{n}", b"", b"%d" % (n + 8)) for n in (3, 4, 4, 5)])
    result = capture(workspace, archive, wire)
    # 12 was removed before anybody saw it.
    assert (chunks(result.chunks), result.lost) == ([(SeqRange(1, 14), 13, "superseded")], 1)
    (chunk,) = workspace.catalog.chunks.select(archive, with_deleted=True)
    assert chunk.meta.deleted == ((12, 12),)
    assert list(workspace.bucket(bucket).list()) != []
