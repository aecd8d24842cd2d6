"""Archives that are read from a buffer: streams with tight limits, under their own names, sequences and times. What the
buffer did not get, or lost, is a loss; and no message of another stream of the name is taken for one of this."""

import io
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures import plan as planning
from nats3_dagster.archive.captures.consumers import record_consumers
from nats3_dagster.archive.captures.due import select_hours
from nats3_dagster.archive.captures.due_archives import look_at
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health.nats_health import check
from nats3_dagster.archive.keep.erasure import stream_may_have
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.source_check import compare
from nats3_dagster.archive.source import buffers
from nats3_dagster.archive.source import condition as conditions
from nats3_dagster.archive.source.buffers import joined
from nats3_dagster.archive.source.condition import condition
from nats3_dagster.archive.source.loss import time_to_loss
from nats3_dagster.archive.source.stream_changes import forgotten_error
from nats3_dagster.archive.source.windows import end_of
from nats3_dagster.archive.status import holdings
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import Conflict, OperatorError, StreamChanged
from nats3_dagster.fault_points import InjectedFault, arm
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange, StreamState
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import capture, plan, plan_hours, read
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.wire import Wire

# Older servers keep no metadata of streams, by which an archive knows its buffer.
pytestmark = [pytest.mark.steady_hour(40), pytest.mark.needs_nats("2.10")]
BUFFER = "NATS3-BUFFER-events"
TIGHT = {"max_msgs": 30, "storage": "memory"}
Row = tuple[int, str, bytes, int]


def archive_of(workspace: Workspace, bucket: str, **spec: Any) -> Archive:
    return create(workspace, ArchiveSpec("events", "EV", bucket, **{"buffer_s": 3600, **spec}))


def publish(wire: Wire, first: int, last: int, at_once: int = 10) -> dict[int, int]:
    """Messages whose payload is their sequence, a few at a time: the buffer gets each before the stream removes it. The
    store time of the last one of each few, as the stream has it."""
    times: dict[int, int] = {}
    for begin in range(first, last + 1, at_once):
        end = min(begin + at_once - 1, last)
        wire.publish([(f"ev.{'xy'[n % 2]}", b"", b"%d" % n) for n in range(begin, end + 1)])
        message = wire.api("STREAM.MSG.GET.EV", seq=end)["message"]
        times[end] = parse_time(message["time"])
        reached(wire, end)
    return times


def reached(wire: Wire, last: int) -> None:
    """Returns when the buffer has this sequence."""
    until = time.monotonic() + 30
    while wire.state(BUFFER)["last_seq"] < last:
        assert time.monotonic() < until, wire.api(f"STREAM.INFO.{BUFFER}")
        time.sleep(0.002)


def stored(workspace: Workspace, archive: Archive) -> dict[str, list[Row]]:
    """Sequence, subject, payload and time of each archived message, by the incarnation in its object's key."""
    rows: dict[str, list[Row]] = {}
    for chunk in sorted(workspace.catalog.chunks.select(archive), key=lambda one: one.meta.covers):
        data = workspace.bucket(chunk.meta.bucket).get(chunk.meta.key)
        table = pq.read_table(io.BytesIO(data)).to_pydict()
        columns = (table["seq"], table["subject"], table["data"], table["time_ns"])
        rows.setdefault(chunk.meta.incarnation.token, []).extend(zip(*columns, strict=True))
    return rows


def only(workspace: Workspace, archive: Archive) -> list[Row]:
    (rows,) = stored(workspace, archive).values()
    return rows


def gaps(workspace: Workspace, archive: Archive) -> list[tuple[str, tuple[tuple[int, int], ...]]]:
    return [(gap.reason, gap.ranges) for gap in workspace.catalog.gaps.select(archive)]


def run(workspace: Workspace, archive: Archive, *, adopt: bool = False) -> None:
    """What `store run` does, in this process."""
    while hours := select_hours(workspace, archive.name, adopt=adopt):
        planned, adopt = plan_hours(workspace, archive, hours), False
        commit.commit(workspace, planned, read(workspace, planned))


def remade(wire: Wire, **config: Any) -> None:
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>", **config)


def test_a_stream_of_30_messages_is_archived_whole(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Under its own name, sequences, subjects and times; and the buffer goes with the archive."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    times: dict[int, int] = {}
    for first in (1, 1001, 2001):
        times |= publish(wire, first, first + 999)
        found = condition(workspace, archive)
        assert found.waiting
        # By the limits of the buffer, not by those of the stream.
        assert (found.waiting.behind, time_to_loss(found.waiting).level) == (1000, "ok")
        capture(workspace, archive, wire)
    assert wire.state("EV")["first_seq"] == 2971
    rows = only(workspace, archive)
    assert [(seq, subject, data) for seq, subject, data, _ in rows] == [
        (n, f"ev.{'xy'[n % 2]}", b"%d" % n) for n in range(1, 3001)
    ]
    assert {seq: at for seq, _, _, at in rows if seq in times} == times
    assert stored(workspace, archive).keys() == {stream_state(workspace.link, "EV").incarnation.token}
    assert gaps(workspace, archive) == []
    now = condition(workspace, archive)
    assert (now.source, now.waiting and now.waiting.is_empty) == ("ok", True)
    assert remove.delete(workspace, "events").buffer == BUFFER
    assert wire.api("STREAM.NAMES")["streams"] == ["EV"]


def test_it_begins_with_what_the_stream_has(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    wire.publish([("ev.x", b"", b"%d" % n) for n in range(1, 101)])
    archive = archive_of(workspace, bucket)
    capture(workspace, archive, wire)
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(71, 101)]
    assert gaps(workspace, archive) == []


def test_an_empty_stream_begins_with_its_next_message(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    wire.publish([("ev.x", b"", b"x")] * 7)
    wire.api("STREAM.PURGE.EV")
    archive = archive_of(workspace, bucket)
    assert condition(workspace, archive).source == "ok"
    publish(wire, 8, 107)
    capture(workspace, archive, wire)
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(8, 108)]
    assert gaps(workspace, archive) == []


def test_what_the_buffer_did_not_get_is_lost(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The server's mirror is slower than a burst, and leaves out what the stream has removed by then."""
    wire.create_stream("EV", "ev.>", **TIGHT | {"max_msgs": 1})
    archive = archive_of(workspace, bucket)
    wire.publish([("ev.x", b"", b"%d" % n) for n in range(1, 5001)])
    reached(wire, 5000)
    held = [message.seq for message in wire.messages(BUFFER)]
    assert 0 < len(held) < 5000
    result = capture(workspace, archive, wire)
    assert [seq for seq, _, _, _ in only(workspace, archive)] == held
    assert result.lost == 5000 - len(held)
    assert holdings(workspace, "events").losses == {"expired": 5000 - len(held)}


def test_what_the_limits_of_the_buffer_removed_is_lost(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket, buffer_bytes=20_000)
    publish(wire, 1, 2000)
    first = wire.state(BUFFER)["first_seq"]
    assert 1 < first < 1900
    found = condition(workspace, archive)
    assert found.waiting
    assert (found.waiting.gone, time_to_loss(found.waiting).level) == (first - 1, "error")
    capture(workspace, archive, wire)
    assert gaps(workspace, archive) == [("expired", ((1, first - 1),))]
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(first, 2001)]


def test_what_only_the_stream_still_has_is_read_from_it(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """After a long pause the buffer has removed what the stream keeps by its limit on messages."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    wire.api(f"STREAM.PURGE.{BUFFER}", seq=91)
    run(workspace, archive)
    assert gaps(workspace, archive) == [("expired", ((1, 70),))]
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(71, 101)]


def test_a_message_that_only_the_stream_has_is_no_gap(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Another hand deleted it in the buffer."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 20)
    wire.api(f"STREAM.MSG.DELETE.{BUFFER}", seq=10)
    with pytest.raises(Exception, match="10"):
        capture(workspace, archive, wire)
    assert gaps(workspace, archive) == []
    wire.api("STREAM.PURGE.EV", seq=20)
    capture(workspace, archive, wire)
    assert holdings(workspace, "events").losses == {"expired": 1}


def test_a_stream_that_is_made_again_is_another_one(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The server's mirror appends the messages of the new stream to those of the old one."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    capture(workspace, archive, wire)
    old = stream_state(workspace.link, "EV").incarnation.token
    publish(wire, 101, 120)
    open_source(workspace, archive)
    remade(wire)
    wire.publish([("ev.x", b"", b"new %d" % n) for n in range(1, 201)])
    reached(wire, 200)
    assert wire.api(f"STREAM.MSG.GET.{BUFFER}", seq=121)["message"]["seq"] == 121
    with pytest.raises(StreamChanged, match="made again"):
        open_source(workspace, archive)
    assert condition(workspace, archive).source == "recreated"
    run(workspace, archive, adopt=True)
    rows = stored(workspace, archive)
    new = stream_state(workspace.link, "EV").incarnation.token
    assert rows.keys() == {old, new}
    assert [seq for seq, _, _, _ in rows[old]] == [*range(1, 101)]
    assert [(seq, data) for seq, _, data, _ in rows[new]] == [(n, b"new %d" % n) for n in range(1, 201)]
    assert gaps(workspace, archive) == [("missing", ((101, 120),))]


def test_a_capture_keeps_nothing_of_a_stream_that_was_made_again_while_it_read(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    planned = plan(workspace, archive, wire)
    outcomes = read(workspace, planned)
    remade(wire)
    with pytest.raises(StreamChanged, match="Stream EV was made again"):
        commit.commit(workspace, planned, outcomes)
    assert stored(workspace, archive) == {}


def test_a_capture_keeps_nothing_of_a_stream_that_is_gone(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    planned = plan(workspace, archive, wire)
    outcomes = read(workspace, planned)
    wire.api("STREAM.DELETE.EV")
    with pytest.raises(StreamChanged, match="Stream EV was deleted"):
        commit.commit(workspace, planned, outcomes)
    assert stored(workspace, archive) == {}
    assert condition(workspace, archive).source == "missing"


def test_a_buffer_that_was_deleted_is_made_again_by_a_person(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    capture(workspace, archive, wire)
    publish(wire, 101, 150)
    wire.api(f"STREAM.DELETE.{BUFFER}")
    wire.publish([("ev.x", b"", b"%d" % n) for n in range(151, 201)])
    with pytest.raises(StreamChanged, match=f"Buffer {BUFFER} of stream EV was deleted"):
        open_source(workspace, archive)
    assert condition(workspace, archive).source == "buffer_missing"
    run(workspace, archive, adopt=True)
    assert gaps(workspace, archive) == [("expired", ((101, 170),))]
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(1, 101), *range(171, 201)]
    publish(wire, 201, 300)
    capture(workspace, archive, wire)
    assert [seq for seq, _, _, _ in only(workspace, archive)][-100:] == [*range(201, 301)]


def test_a_stream_that_lost_its_end_is_named(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The buffer is never ahead of a stream that keeps its history."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 10)
    state = open_source(workspace, archive).state
    assert state.origin
    buffer = stream_state(workspace.link, BUFFER)
    assert joined(archive, state.origin, buffer).last_seq == 10
    with pytest.raises(StreamChanged, match="the server forgot messages"):
        joined(archive, replace(state.origin, last_seq=9), buffer)


def _direct(wire: Wire) -> None:
    wire.create_stream("EV", "ev.>", allow_direct=True)


def _queue(wire: Wire) -> None:
    wire.create_stream("EV", "ev.>", retention="workqueue")


def _mirror(wire: Wire) -> None:
    wire.create_stream("ORIGIN", "ev.>")
    wire.create_stream("EV", mirror={"name": "ORIGIN"})


def _taken(wire: Wire) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream(BUFFER, "other.>")


@pytest.mark.parametrize(
    ("made", "spec", "told"),
    [
        (_direct, {}, "allow_direct"),
        (_queue, {}, "workqueue retention"),
        (_mirror, {}, "mirrors ORIGIN"),
        (_taken, {}, f"Stream {BUFFER} exists"),
        (_queue, {"mode": "consumer"}, "has no buffer"),
        (_taken, {"subjects": ("ev.x",)}, "subjects"),
        (_taken, {"buffer_s": 60}, "a capture is due"),
    ],
)
def test_what_cannot_have_a_buffer_is_refused_and_nothing_is_made(
    workspace: Workspace, wire: Wire, bucket: str, made: Callable[[Wire], None], spec: dict[str, Any], told: str
) -> None:
    made(wire)
    before = wire.api("STREAM.NAMES")["streams"]
    with pytest.raises(OperatorError, match=told):
        archive_of(workspace, bucket, **spec)
    assert wire.api("STREAM.NAMES")["streams"] == before
    assert workspace.catalog.archives.find("events") is None


def test_a_create_that_was_cut_is_done_again(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Also where the stream was made again since."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    for _ in range(2):
        arm("archive.buffered:raise")
        try:
            with pytest.raises(InjectedFault):
                archive_of(workspace, bucket)
        finally:
            arm("")
        assert BUFFER in wire.api("STREAM.NAMES")["streams"]
        remade(wire, **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    capture(workspace, archive, wire)
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(1, 101)]


def test_another_archive_of_the_name_touches_no_buffer(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    created = wire.api(f"STREAM.INFO.{BUFFER}")["created"]
    with pytest.raises(Conflict):
        archive_of(workspace, bucket, buffer_s=7200)
    assert wire.api(f"STREAM.INFO.{BUFFER}")["created"] == created
    publish(wire, 1, 50)
    capture(workspace, archive, wire)


def test_only_its_own_buffer_goes_with_an_archive(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive_of(workspace, bucket)
    wire.api(f"STREAM.DELETE.{BUFFER}")
    wire.create_stream(BUFFER, "other.>")
    assert remove.delete(workspace, "events").buffer is None
    assert BUFFER in wire.api("STREAM.NAMES")["streams"]


def test_a_buffer_has_no_archive_of_its_own(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive_of(workspace, bucket)
    with pytest.raises(OperatorError, match=f"Stream {BUFFER} is the buffer of archive events"):
        create(workspace, ArchiveSpec("other", BUFFER, bucket))


def test_another_archive_of_the_stream_keeps_its_reasons(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """What a buffer may lose says nothing about an archive that reads the stream itself."""
    wire.create_stream("EV", "ev.>")
    buffered, plain = archive_of(workspace, bucket), create(workspace, ArchiveSpec("plain", "EV", bucket))
    publish(wire, 1, 20)
    capture(workspace, buffered, wire)
    wire.api("STREAM.MSG.DELETE.EV", seq=5)
    capture(workspace, plain, wire)
    assert len(only(workspace, buffered)) == 20
    assert len(only(workspace, plain)) == 19
    assert holdings(workspace, "plain").losses == {}
    assert hours_of(wire, "EV")


def test_what_waits_before_the_buffer_is_seen(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer that gets nothing is no archive that has everything: its lag is the stream's, and no hour is sealed."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    capture(workspace, archive, wire)
    stuck = stream_state(workspace.link, BUFFER)
    wire.publish([("ev.x", b"", b"%d" % n) for n in range(101, 151)])
    asked = conditions.stream_states
    with monkeypatch.context() as patch:
        patch.setattr(buffers, "find_stream", lambda *_: stuck)
        patch.setattr(
            conditions, "stream_states", lambda *one: {n: stuck if n == BUFFER else s for n, s in asked(*one).items()}
        )
        found = condition(workspace, archive)
        assert found.waiting
        assert (found.waiting.behind, found.waiting.first_seq, found.waiting.gone) == (30, 121, 20)
        assert found.waiting.behind_s > 0
        assert time_to_loss(found.waiting).level == "error"
        source = open_source(workspace, archive)
        assert source.state.last_seq == 100
        assert end_of(workspace, archive, source.state, hours_of(wire, "EV")[-1]) == 150
        planned = planning.plan(workspace, source, hours_of(wire, "EV")[-1:])
        assert [window.seqs for window in planned.windows] == [(1, 100)]
        assert (planned.missing, planned.gaps) == ((), ())
    reached(wire, 150)
    held = [message.seq for message in wire.messages(BUFFER)]
    capture(workspace, archive, wire)
    assert [seq for seq, _, _, _ in only(workspace, archive)] == held


def test_a_capture_goes_no_further_than_the_buffer_was_when_the_stream_answered(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 50)
    source = open_source(workspace, archive)
    assert (source.state.holder(50), source.state.holder(51)) == (BUFFER, "EV")
    publish(wire, 51, 80)
    planned = planning.plan(workspace, source, hours_of(wire, "EV")[-1:])
    assert [window.seqs for window in planned.windows] == [(1, 50)]


def test_the_archive_is_compared_with_its_buffer(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 200)
    capture(workspace, archive, wire)
    assert [(one.messages, one.wrong, one.different) for one in compare(workspace, archive, None)] == [(200, (), ())]


def test_doctor_and_rules_know_a_buffer(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT | {"max_consumers": 1})
    config = {"durable_name": "d", "ack_policy": "explicit"}
    wire.api("CONSUMER.DURABLE.CREATE.EV.d", stream_name="EV", config=config)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    capture(workspace, archive, wire)
    assert len(only(workspace, archive)) == 100
    assert [one.what for one in check(workspace) if "events" in one.what and one.status != "ok"] == []
    kept = record_consumers(workspace, archive)
    assert kept
    assert kept.consumers == 1
    rule = AccountRule("all", bucket, prefix="all", take_mirrors=True)
    of_streams = {one.stream: one for one in rules.preview(workspace, rule)}
    reason = of_streams[BUFFER].reason
    assert reason
    assert reason.what == "it is the buffer of archive events"
    wire.api(f"STREAM.DELETE.{BUFFER}")
    assert [one.status for one in check(workspace) if "Buffer" in one.what] == ["fail"]


@pytest.mark.needs_nats("2.15")
def test_a_restored_stream_goes_on_once_its_buffer_is_made_again(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    capture(workspace, archive, wire)
    past = [Past(m.seq, parse_time(m.time), m.subject, m.headers, m.data) for m in wire.messages("EV")]
    token = stream_state(workspace.link, "EV").incarnation.token
    wire.api("STREAM.DELETE.EV")
    restore_stream(workspace.link, "EV", ["ev.>"], past)
    with pytest.raises(StreamChanged, match="buffer .* is of an earlier one"):
        open_source(workspace, archive)
    open_source(workspace, archive, adopt=True)
    assert condition(workspace, archive).source == "ok"
    publish(wire, 101, 150)
    capture(workspace, archive, wire)
    rows = stored(workspace, archive)
    assert {name: [seq for seq, _, _, _ in one] for name, one in rows.items()} == {token: [*range(1, 151)]}
    assert gaps(workspace, archive) == []


@pytest.mark.needs_nats("2.15")
def test_messages_that_are_older_than_the_buffer_keeps_are_read_from_the_stream(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    at = time.time_ns() - 2 * 3600 * 10**9
    past = [Past(n, at + n, "ev.x", b"", b"%d" % n) for n in range(5, 25)]
    restore_stream(workspace.link, "EV", ["ev.>"], past)
    archive = archive_of(workspace, bucket)
    publish(wire, 25, 44)
    run(workspace, archive)
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(5, 45)]
    assert gaps(workspace, archive) == []


def test_a_stream_that_gave_sequences_to_others_is_named(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """After a server forgot its newest messages. The buffer has the forgotten ones, and passes over the others."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 50)
    state = open_source(workspace, archive).state
    assert state.origin
    assert forgotten_error(workspace, archive, state) is None
    other = replace(state, origin=replace(state.origin, first_ns=state.origin.first_ns + 1))
    assert "gave their sequences to new ones" in str(forgotten_error(workspace, archive, other))


def test_headers_that_a_stream_acts_on_do_nothing_in_its_buffer(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream(
        "EV", "ev.>", **TIGHT | {"allow_rollup_hdrs": True, "allow_msg_ttl": True, "duplicate_window": 10**8}
    )
    archive = archive_of(workspace, bucket)
    block = b"NATS/1.0\r\n%b\r\n\r\n"
    headers = [block % one for one in (b"Nats-Rollup: sub", b"Nats-TTL: 1s", b"Nats-Msg-Id: m", b"Nats-Rollup: all")]
    for _ in range(2):
        for one in headers:
            wire.publish([("ev.x", one, b"x")])
            reached(wire, wire.state("EV")["last_seq"])
        time.sleep(0.3)  # the id is forgotten
    time.sleep(1.2)  # the time to live has ended
    capture(workspace, archive, wire)
    assert holdings(workspace, "events").losses == {}
    (chunk,) = workspace.catalog.chunks.select(archive)
    data = workspace.bucket(chunk.meta.bucket).get(chunk.meta.key)
    assert pq.read_table(io.BytesIO(data)).to_pydict()["headers"] == headers * 2


def test_an_hour_ends_where_it_ends_in_the_stream(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A seal says that an hour is complete: its buffer may not have come to the end of it."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 50)
    state = open_source(workspace, archive).state
    wire.api(f"STREAM.DELETE.{BUFFER}")
    wire.publish([("ev.x", b"", b"x")] * 5)
    assert end_of(workspace, archive, state, hours_of(wire, "EV")[-1]) == 55


def test_the_catalog_keeps_the_state_of_the_stream_itself(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Other archives of the stream, restores and the domain are told of it, and not of a buffer."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    state = open_source(workspace, archive).state
    kept = workspace.catalog.coverage.last_state(state.incarnation)
    assert kept
    assert (kept.first_seq, kept.last_seq, kept.messages) == (71, 100, 30)
    assert {*workspace.catalog.coverage.removing_settings(state.incarnation)} == {"max_msgs"}


def test_what_went_from_the_buffer_is_not_superseded(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The limit per subject of the stream says nothing about it."""
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 50, at_once=1)
    wire.api(f"STREAM.PURGE.{BUFFER}", seq=41)
    run(workspace, archive)
    assert gaps(workspace, archive) == [("expired", ((1, 40),))]


def test_a_new_buffer_of_an_empty_stream_forgot_nothing(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 50)
    capture(workspace, archive, wire)
    wire.api(f"STREAM.DELETE.{BUFFER}")
    wire.api("STREAM.PURGE.EV")
    open_source(workspace, archive, adopt=True)
    assert condition(workspace, archive).source == "ok"
    publish(wire, 51, 100)
    capture(workspace, archive, wire)
    assert [seq for seq, _, _, _ in only(workspace, archive)] == [*range(1, 101)]
    assert gaps(workspace, archive) == []


def test_a_tick_for_many_archives_asks_for_each_buffer(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """By a listing alone a deleted buffer would not be seen while the stream is idle."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket, max_messages=100)
    publish(wire, 1, 200)
    ((waiting,), left) = look_at(workspace, [archive], 8, {})
    assert waiting.due
    assert waiting.loss
    assert (waiting.due.hours, waiting.loss.gone, left) == ((hours_of(wire, "EV")[-1],), 0, 0)
    capture(workspace, archive, wire)
    ((idle,), _) = look_at(workspace, [archive], 8, {})
    assert (idle.error, idle.due and idle.due.hours) == (None, ())
    wire.api(f"STREAM.DELETE.{BUFFER}")
    ((failed,), _) = look_at(workspace, [archive], 8, {})
    assert isinstance(failed.error, StreamChanged)


def test_a_stream_that_is_made_again_while_it_is_asked_is_not_opened(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 20)
    ask = buffers.find_stream

    def asked(link: Link, stream: str) -> StreamState | None:
        remade(wire)
        wire.publish([("ev.x", b"", b"x")] * 40)
        reached(wire, 40)
        return ask(link, stream)

    monkeypatch.setattr(buffers, "find_stream", asked)
    with pytest.raises(StreamChanged):
        open_source(workspace, archive)


def test_a_stream_that_is_made_again_while_its_buffer_is_made_has_no_archive(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    make = buffers.create_stream

    def made(link: Link, config: dict[str, Any]) -> StreamState:
        state = make(link, config)
        remade(wire)
        return state

    with monkeypatch.context() as patch:
        patch.setattr(buffers, "create_stream", made)
        with pytest.raises(StreamChanged, match="while its buffer was made"):
            archive_of(workspace, bucket)
    assert wire.api("STREAM.NAMES")["streams"] == ["EV"]
    assert workspace.catalog.archives.find("events") is None
    archive_of(workspace, bucket)


def test_an_erasure_counts_what_the_buffer_still_has(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 100)
    capture(workspace, archive, wire)
    life = stream_state(workspace.link, "EV").incarnation
    assert stream_may_have(workspace, archive, {life: (SeqRange(1, 5),)})


def test_messages_that_come_while_it_is_asked_are_no_fault(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer is asked before its stream, and so is never ahead of it."""
    wire.create_stream("EV", "ev.>", **TIGHT)
    archive = archive_of(workspace, bucket)
    publish(wire, 1, 20)
    ask = buffers.find_stream

    def asked(link: Link, stream: str) -> StreamState | None:
        publish(wire, 21, 40)
        return ask(link, stream)

    monkeypatch.setattr(buffers, "find_stream", asked)
    assert open_source(workspace, archive).state.last_seq == 40
