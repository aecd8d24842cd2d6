"""Streams that were restored from a backup: one that has all that is archived goes on as the same incarnation, and an
older one is named as such. No message is archived twice."""

import base64
import time
from typing import Any

import pytest

from nats3_dagster.api.wording import WORDS
from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health.nats_health import check
from nats3_dagster.archive.lifecycle import jobs
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.next_chunks import is_over
from nats3_dagster.archive.selected.uncovered import uncovered
from nats3_dagster.archive.source import history
from nats3_dagster.archive.source.condition import RecentConditions, condition
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.documents import archives as documents
from nats3_dagster.errors import Conflict, StreamChanged
from nats3_dagster.hours import HOUR_NS, SECOND_NS, format_time, parse_time
from nats3_dagster.model import Archive, ArchiveSpec, Selection, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.adoption import gaps, stored
from nats3_dagster_tests.support.captures import capture, plan, plan_hours, read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")
BACKUP = list[Past]


def publish(wire: Wire, count: int, text: bytes = b"x") -> None:
    blocks = (b"", b"NATS/1.0\r\nA: 1\r\n\r\n")
    wire.publish([(f"ev.{n % 3}", blocks[n % 2], b"%b%d" % (text, n)) for n in range(count)])


def backup(wire: Wire) -> BACKUP:
    """The messages that the stream has, with their times."""
    state, messages = wire.state("EV"), BACKUP()
    deleted = wire.api("STREAM.INFO.EV", deleted_details=True)["state"].get("deleted") or []
    for seq in range(state["first_seq"], state["last_seq"] + 1):
        if seq in deleted:
            continue
        got = wire.api("STREAM.MSG.GET.EV", seq=seq)["message"]
        headers, data = (base64.b64decode(got.get(name) or "") for name in ("hdrs", "data"))
        messages.append(Past(seq, parse_time(got["time"]), got["subject"], headers, data))
    return messages


def restore(workspace: Workspace, wire: Wire, messages: BACKUP) -> None:
    """The stream is removed, and made again of a backup."""
    before = wire.api("STREAM.INFO.EV")["created"]
    wire.api("STREAM.DELETE.EV")
    restore_stream(workspace.link, "EV", ["ev.>"], messages)
    assert wire.api("STREAM.INFO.EV")["created"] != before


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of a stream with 60 messages, captured in two chunks."""
    wire.create_stream("EV", "ev.>")
    archive = create(workspace, ArchiveSpec("events", "EV", bucket))
    for _ in range(2):
        publish(wire, 30)
        capture(workspace, archive, wire)
    return archive


def incarnations(workspace: Workspace, archive: Archive) -> list[tuple[int, int]]:
    return [(c.start, c.last) for c in workspace.catalog.coverage.all(archive)]


@pytest.mark.parametrize("beyond", [0, 15])
def test_a_stream_that_has_all_of_the_archive_goes_on(
    workspace: Workspace, wire: Wire, archive: Archive, nats3: Command, beyond: int
) -> None:
    publish(wire, beyond, b"beyond")
    restore(workspace, wire, backup(wire))
    publish(wire, 10, b"after")
    now = condition(workspace, archive)
    assert (now.source, now.waiting and now.waiting.behind) == ("ok", beyond + 10)
    assert [f for f in check(workspace) if f.status == "fail"] == []
    created = workspace.catalog.coverage.all(archive)[0].incarnation.created_ns
    assert capture(workspace, archive, wire).messages == beyond + 10
    assert incarnations(workspace, archive) == [(1, 70 + beyond)]
    assert len(stored(workspace, archive)) == 70 + beyond
    assert gaps(workspace, archive) == {}
    (coverage,) = workspace.catalog.coverage.all(archive)
    assert (coverage.incarnation.created_ns, coverage.unknown_after) == (created, None)
    restored = format_time(coverage.incarnation.restored_ns)
    (view,) = nats3.ok("store", "get", "events", "-o", "json").json["coverage"]
    assert (view["stream_restored"], view["stream_created"]) == (restored, format_time(created))
    assert "restored from a backup at" in nats3.ok("store", "get", "events").out.replace("\n", " ")
    job = documents.Archive.of(jobs.job(workspace, RecentConditions(workspace), archive.job_id), WORDS)
    assert (job.restored, job.error) == (restored, None)
    assert all(f"/{coverage.incarnation.token}-" in c.meta.key for c in workspace.catalog.chunks.select(archive))
    # It may be restored again.
    restore(workspace, wire, backup(wire))
    publish(wire, 5, b"once more")
    assert capture(workspace, archive, wire).messages == 5
    assert condition(workspace, archive).source == "ok"


def test_adopt_of_a_stream_that_has_all_archives_nothing_again(
    workspace: Workspace, wire: Wire, archive: Archive
) -> None:
    restore(workspace, wire, backup(wire))
    open_source(workspace, archive, adopt=True)
    assert incarnations(workspace, archive) == [(1, 60)]


@pytest.mark.parametrize("kept", [5, 30, 47, 59])
@pytest.mark.parametrize("after", [0, 3, 40])
def test_an_older_backup_is_named_and_nothing_is_archived_twice(
    workspace: Workspace, wire: Wire, archive: Archive, monkeypatch: pytest.MonkeyPatch, kept: int, after: int
) -> None:
    searches: list[object] = []
    real = history._search
    monkeypatch.setattr(history, "_search", lambda *arguments: [searches.append(1), real(*arguments)][1])
    restore(workspace, wire, backup(wire)[:kept])
    publish(wire, after, b"after")
    with pytest.raises(StreamChanged, match=f"the same messages up to sequence {kept}. .* went up to 60") as caught:
        open_source(workspace, archive)
    assert str(caught.value).endswith(f"archive events adopt the stream, and go on with its sequence {kept + 1}")
    now = condition(workspace, archive)
    assert (now.source, str(now.error)) == ("recreated", str(caught.value))
    assert caught.value.what in next(f.what for f in check(workspace) if f.status == "fail")
    assert len(searches) == 1
    open_source(workspace, archive, adopt=True)
    assert capture(workspace, archive, wire).messages == after
    assert incarnations(workspace, archive) == [(1, 60), (kept + 1, kept + after)]
    assert sum(c.messages for c in workspace.catalog.coverage.all(archive)) == 60 + after
    assert workspace.catalog.coverage.all(archive)[0].unknown_after == 60


def test_a_backup_of_before_messages_that_were_seen_and_not_captured(
    workspace: Workspace, wire: Wire, archive: Archive
) -> None:
    messages = backup(wire)
    publish(wire, 7)
    open_source(workspace, archive)
    restore(workspace, wire, messages)
    with pytest.raises(StreamChanged, match="up to sequence 60. .* went up to 67"):
        open_source(workspace, archive)
    open_source(workspace, archive, adopt=True)
    assert gaps(workspace, archive) == {"missing": 7}


@pytest.mark.parametrize("saved", [0, 12, 33])
def test_an_object_that_a_killed_capture_left_is_archived_once(
    workspace: Workspace, wire: Wire, archive: Archive, saved: int
) -> None:
    """It has 33 messages that the catalog does not know, and the backup has the first of them."""
    publish(wire, 33, b"object")
    left = plan(workspace, archive, wire)
    assert len(read(workspace, left)) == 1
    messages = backup(wire)[: 60 + saved]
    publish(wire, 5, b"unseen")
    open_source(workspace, archive)
    restore(workspace, wire, messages)
    publish(wire, 4, b"after")
    with pytest.raises(StreamChanged, match="up to sequence 60. .* went up to 98"):
        open_source(workspace, archive)
    open_source(workspace, archive, adopt=True)
    assert capture(workspace, archive, wire).messages == 4
    assert incarnations(workspace, archive) == [(1, 98), (61 + saved, 64 + saved)]
    assert [c.messages for c in workspace.catalog.coverage.all(archive)] == [93, 4]
    assert gaps(workspace, archive) == {"missing": 5}


def test_holes_before_the_end_are_archived_from_the_restored_stream(
    workspace: Workspace, wire: Wire, archive: Archive
) -> None:
    first = workspace.catalog.chunks.select(archive)[0]
    messages = backup(wire)
    workspace.catalog.chunks.retire(archive, [first.id], recapture=True)
    restore(workspace, wire, messages[:50])
    with pytest.raises(StreamChanged) as caught:
        open_source(workspace, archive)
    assert str(caught.value).endswith("with its sequence 1; sequences 1 to 50 may be archived again")
    open_source(workspace, archive, adopt=True)
    assert capture(workspace, archive, wire).messages == 50


@pytest.mark.parametrize("deleted", [(), (60,), tuple(range(31, 61))])
def test_a_stream_with_the_same_messages_at_other_times_is_another_one(
    workspace: Workspace, wire: Wire, archive: Archive, deleted: tuple[int, ...]
) -> None:
    messages = [m._replace(time_ns=m.time_ns + 1) for m in backup(wire) if m.seq not in deleted]
    restore(workspace, wire, messages)
    publish(wire, 40)
    with pytest.raises(StreamChanged, match="deleted and made again"):
        open_source(workspace, archive)


@pytest.mark.parametrize("changed", [{"data": b"other"}, {"subject": "ev.other"}, {"headers": b""}])
def test_other_bytes_at_the_end_are_no_proof(
    workspace: Workspace, wire: Wire, archive: Archive, changed: dict[str, Any]
) -> None:
    messages = backup(wire)
    restore(workspace, wire, [*messages[:-1], messages[-1]._replace(**changed)])
    with pytest.raises(StreamChanged, match="the same messages up to sequence 59"):
        open_source(workspace, archive)


def test_what_was_read_before_the_restore_is_not_committed_after_it(
    workspace: Workspace, wire: Wire, archive: Archive
) -> None:
    """A capture is held up while the stream is restored from a backup that ends where the archive does."""
    messages = backup(wire)
    publish(wire, 5, b"former")
    planned = plan(workspace, archive, wire)
    outcomes = read(workspace, planned)
    restore(workspace, wire, messages)
    publish(wire, 5, b"present")
    # The earlier stream was seen up to 65, and so the restored one is older.
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("update nats3.incarnation set last_seq = 60")
    open_source(workspace, archive)
    with pytest.raises(Conflict, match="was restored from a backup while this ran"):
        commit.commit(workspace, planned, outcomes)
    capture(workspace, archive, wire)
    assert [stored(workspace, archive)[seq] for seq in range(61, 66)] == [b"present%d" % n for n in range(5)]


def test_an_archive_that_changed_while_it_was_compared_is_compared_again(
    workspace: Workspace, wire: Wire, archive: Archive
) -> None:
    coverage = workspace.catalog.coverage
    (before,) = coverage.all(archive)
    publish(wire, 5)
    capture(workspace, archive, wire)
    assert not coverage.continue_restored(archive, before, time.time_ns())
    assert coverage.continue_restored(archive, coverage.all(archive)[0], time.time_ns())


def test_reads_and_replays_by_time_know_a_stream_that_goes_on(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A replay that follows its archive ends, and what is missing of a time is told."""
    at = time.time_ns() - 3 * HOUR_NS
    messages = [Past(seq, at + seq * SECOND_NS, "ev.1", b"", b"%d" % seq) for seq in range(1, 61)]
    restore_stream(workspace.link, "EV", ["ev.>"], messages)
    archive = create(workspace, ArchiveSpec("events", "EV", bucket))
    for hour in hours_of(wire, "EV"):
        planned = plan_hours(workspace, archive, [hour])
        commit.commit(workspace, planned, read(workspace, planned))
    restore(workspace, wire, backup(wire))
    publish(wire, 10, b"after")
    capture(workspace, archive, wire)
    assert incarnations(workspace, archive) == [(1, 70)]
    wire.publish([("ev.1", b"", b"not captured")])
    chunks = workspace.catalog.chunks.select(archive)
    past = ArchiveSelection(workspace, archive, Selection(from_ns=at, to_ns=at + 61 * SECOND_NS))
    assert uncovered(past, Held.of_chunks(chunks)) == []
    assert is_over(past)
    now = parse_time(wire.api("STREAM.MSG.GET.EV", seq=71)["message"]["time"])
    until_now = ArchiveSelection(workspace, archive, Selection(from_ns=at, to_ns=now + 1))
    assert uncovered(until_now, Held.of_chunks(chunks)) == [SeqRange(71, 71)]
