"""A cursor: each message once and in order, wherever it was saved, and never past what is missing."""

import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from random import Random
from typing import Any

import pytest

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.read import cursor as cursor_module
from nats3_dagster.archive.read import cursor_state, live
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.errors import LostMessages, OperatorError, SourceError, StreamChanged
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive, ArchiveSpec, Gap, Selection, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import points as made_points
from nats3_dagster_tests.support import taking as takes
from nats3_dagster_tests.support.captures import plan_hours, read
from nats3_dagster_tests.support.points import add_chunk, message
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.02)
    monkeypatch.setattr(live, "LOOK_S", 0.2)


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of a stream EV, with nothing in it."""
    wire.create_stream("EV", "ev.>")
    create(workspace, ArchiveSpec(name="a", stream="EV", bucket=bucket))
    return workspace.catalog.archives.get("a")


def send(wire: Wire, first: int, last: int, subject: str = "ev.x") -> None:
    """Messages whose payloads are their sequences."""
    wire.publish([(subject, b"", b"%d" % seq) for seq in range(first, last + 1)])


def seqs(batches: Iterator[Any]) -> list[int]:
    found: list[int] = []
    for batch in batches:
        assert [int(data) for data in batch.column("data").to_pylist()] == batch.column("seq").to_pylist()
        found += batch.column("seq").to_pylist()
    return found


def taken(cursor: Cursor, count: int) -> list[int]:
    """Follow until so many messages came."""
    found: list[int] = []
    for batch in cursor.batches(follow=True):
        found += batch.column("seq").to_pylist()
        cursor.advance()
        if len(found) >= count:
            break
    return found


def test_it_goes_on_after_any_batch(workspace: Workspace, bucket: str) -> None:
    archive = made_points.create(workspace, bucket)
    for n in range(4):
        rows = [message(n * 10 + at, b"a.%d" % (at % 3)) for at in range(1, 11)]
        add_chunk(workspace, archive, rows, group_rows=3)
    for selection, wanted in (
        (Selection(), list(range(1, 41))),
        (Selection(subjects=("a.1",)), [seq for seq in range(1, 41) if (seq - 1) % 10 % 3 == 0]),
        (Selection(sequences=SeqRange(7, 23)), list(range(7, 24))),
    ):
        token, found, saves = Cursor.begin(workspace, archive, selection).token(), list[int](), 0
        while True:
            cursor = Cursor.resume(workspace, token)
            batch = next(cursor.batches(), None)
            if batch is None:
                break
            again = Cursor.resume(workspace, cursor.token())  # the batch does not count yet
            assert next(again.batches()).equals(batch)
            found += batch.column("seq").to_pylist()
            cursor.advance()
            token, saves = cursor.token(), saves + 1
        assert found == wanted
        assert saves > 4


def test_a_batch_counts_when_the_next_one_is_asked_for(workspace: Workspace, bucket: str) -> None:
    archive = made_points.create(workspace, bucket)
    add_chunk(workspace, archive, [message(seq) for seq in range(1, 7)], group_rows=2)
    cursor = Cursor.begin(workspace, archive, Selection())
    batches = cursor.batches()
    assert seqs(islice(batches, 2)) == [1, 2, 3, 4]
    assert seqs(Cursor.resume(workspace, cursor.token()).batches()) == [3, 4, 5, 6]


def test_times_and_hours_are_read(workspace: Workspace, wire: Wire, archive: Archive, bucket: str) -> None:
    send(wire, 1, 20)
    archived(workspace, wire, "EV", bucket)
    chunk = workspace.catalog.chunks.select(archive)[0].meta
    rows = list(workspace.catalog.hours.select(archive))
    assert seqs(Cursor.begin(workspace, archive, Selection(hours=(rows[0].hour,))).batches()) == list(range(1, 21))
    whole = Selection(from_ns=chunk.first_ns, to_ns=chunk.last_ns + 1)
    assert seqs(Cursor.begin(workspace, archive, whole).batches()) == list(range(1, 21))
    assert seqs(Cursor.begin(workspace, archive, Selection(to_ns=chunk.first_ns)).batches()) == []
    with pytest.raises(OperatorError, match="A selection by hours has an end"):
        next(Cursor.begin(workspace, archive, Selection(hours=(rows[0].hour,))).batches(follow=True))
    cursor = Cursor.begin(workspace, archive, Selection(sequences=SeqRange(3, 20)))
    assert cursor.hour == ""
    # Who follows has come to the end of the selection too.
    assert seqs(cursor.batches(follow=True)) == list(range(3, 21))
    assert cursor.hour == rows[0].hour
    send(wire, 21, 25)
    # Of a selection whose end has come, what waits for a capture is missing; one without an end ends with the archive.
    until_now = Selection(to_ns=time.time_ns() + 1)
    for selection, lost in ((Selection(sequences=SeqRange(1, 23)), (21, 23)), (until_now, (21, 25))):
        found: list[int] = []
        with pytest.raises(LostMessages) as missing:
            for batch in Cursor.begin(workspace, archive, selection).batches():
                found += batch.column("seq").to_pylist()
        assert (found, missing.value.ranges) == (list(range(1, 21)), (lost,))
        over = Cursor.begin(workspace, archive, selection, over_gaps=True)
        assert seqs(over.batches()) == list(range(1, 21))
    for selection in (Selection(), Selection(to_ns=time.time_ns() + 3600 * 10**9)):
        assert seqs(Cursor.begin(workspace, archive, selection).batches()) == list(range(1, 21))


def test_it_goes_on_from_the_archive_into_the_stream(
    workspace: Workspace, wire: Wire, archive: Archive, bucket: str
) -> None:
    send(wire, 1, 50)
    archived(workspace, wire, "EV", bucket)
    send(wire, 51, 80)
    cursor = Cursor.begin(workspace, archive, Selection())
    assert taken(cursor, 80) == list(range(1, 81))
    archived(workspace, wire, "EV", bucket)  # beyond the live position
    send(wire, 81, 90)
    cursor = Cursor.resume(workspace, cursor.token())
    assert taken(cursor, 10) == list(range(81, 91))
    # Ends with the selection.
    assert seqs(Cursor.begin(workspace, archive, Selection(sequences=SeqRange(45, 85))).batches(follow=True)) == list(
        range(45, 86)
    )


def test_what_was_deleted_from_the_stream_is_passed_unless_the_archive_has_it(
    workspace: Workspace, wire: Wire, archive: Archive, bucket: str
) -> None:
    send(wire, 1, 30)
    cursor = Cursor.begin(workspace, archive, Selection(sequences=SeqRange(1, 30)))
    for seq in (5, 6, 30):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    assert seqs(cursor.batches(follow=True)) == [seq for seq in range(1, 30) if seq not in (5, 6)]
    archived(workspace, wire, "EV", bucket)
    for seq in (10, 20):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    token = Cursor.begin(workspace, archive, Selection(sequences=SeqRange(1, 40))).token()
    send(wire, 31, 40)
    expected = [seq for seq in range(1, 41) if seq not in (5, 6, 30)]
    assert seqs(Cursor.resume(workspace, token).batches(follow=True)) == expected


def test_what_the_stream_forgot_comes_from_the_archive_or_is_named(
    workspace: Workspace, wire: Wire, archive: Archive, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(wire, 1, 10)
    cursor = Cursor.begin(workspace, archive, Selection())
    assert taken(cursor, 10) == list(range(1, 11))  # live: nothing is archived
    send(wire, 11, 20)
    archived(workspace, wire, "EV", bucket)
    wire.api("STREAM.PURGE.EV", seq=21)
    send(wire, 21, 25)
    assert taken(cursor, 15) == list(range(11, 26))
    send(wire, 26, 30)
    wire.api("STREAM.PURGE.EV", seq=29)
    monkeypatch.setattr(cursor_module, "PATIENCE_S", 0.3)
    with pytest.raises(LostMessages, match="are not in archive a: 26-28") as lost:
        taken(cursor, 1)
    assert lost.value.ranges == ((26, 28),)
    over = Cursor.begin(workspace, archive, Selection(), over_gaps=True)
    assert taken(over, 22) == [*range(1, 21), 29, 30]
    archived(workspace, wire, "EV", bucket)  # which records the loss
    with pytest.raises(LostMessages, match="26-28"):
        seqs(Cursor.resume(workspace, cursor.token()).batches())


def test_it_waits_for_a_capture_that_commits_late(
    workspace: Workspace, wire: Wire, archive: Archive, bucket: str
) -> None:
    send(wire, 1, 10)
    planned = plan_hours(workspace, archive, [hour_of(time.time_ns())])
    outcomes = read(workspace, planned)
    wire.api("STREAM.PURGE.EV")
    send(wire, 11, 12)
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(taken(Cursor.begin(workspace, archive, Selection()), 12)))
    reader.start()
    time.sleep(0.3)  # it must not have gone on by then
    assert found == []
    commit.commit(workspace, planned, outcomes)
    reader.join(20)
    assert found == list(range(1, 13))


def test_a_hole_is_not_passed(workspace: Workspace, bucket: str) -> None:
    archive = made_points.create(workspace, bucket)
    add_chunk(workspace, archive, [message(seq) for seq in range(1, 6)])
    add_chunk(workspace, archive, [message(seq) for seq in range(9, 12)])
    cursor = Cursor.begin(workspace, archive, Selection())
    found: list[int] = []
    with pytest.raises(SourceError, match="No capture has taken the sequences 6-8 of archive logs yet"):
        found += [seq for batch in cursor.batches() for seq in batch.column("seq").to_pylist()]
    # What was read from the stream before a capture had it is behind the cursor.
    further = Cursor.resume(workspace, cursor.token())
    further._progress.move(further.incarnation, 6)
    with pytest.raises(SourceError, match="No capture has taken the sequences 7-8 of archive logs yet"):
        next(further.batches())
    add_chunk(workspace, archive, [message(seq) for seq in range(6, 9)])
    assert seqs(Cursor.resume(workspace, cursor.token()).batches()) == list(range(6, 12))


@pytest.mark.parametrize("first", [2, 3, 7])
def test_a_hole_before_the_first_chunk_is_named(workspace: Workspace, bucket: str, first: int) -> None:
    archive = made_points.create(workspace, bucket)
    add_chunk(workspace, archive, [message(seq) for seq in range(first, 12)])
    with pytest.raises(SourceError, match=f"has taken the sequences 1-{first - 1} of archive logs yet"):
        next(Cursor.begin(workspace, archive, Selection()).batches())
    add_chunk(workspace, archive, [message(seq) for seq in range(1, first)])
    assert seqs(Cursor.begin(workspace, archive, Selection()).batches()) == list(range(1, 12))


def test_a_chunk_that_was_read_in_part_goes_on_after_a_loss_that_it_has_now(workspace: Workspace, bucket: str) -> None:
    """It was damaged and repaired with a loss meanwhile. What was lost further on is named."""
    archive = made_points.create(workspace, bucket)
    old = add_chunk(workspace, archive, [message(seq) for seq in range(1, 11)], group_rows=4)
    cursor = Cursor.begin(workspace, archive, Selection())
    assert seqs(islice(cursor.batches(), 1)) == [1, 2, 3, 4]
    cursor.advance()
    workspace.catalog.chunks.retire(archive, [old.id], recapture=True)
    rows = [message(seq) for seq in (1, 4, 5, 6, 7, 8, 9, 10)]
    add_chunk(workspace, archive, rows, covers=(1, 10), reason="expired")
    add_chunk(workspace, archive, [message(seq) for seq in (11, 13)], covers=(11, 13), reason="expired")
    further = Cursor.resume(workspace, cursor.token())
    found = list[int]()
    with pytest.raises(LostMessages) as lost:
        for batch in further.batches():
            found += batch.column("seq").to_pylist()
    assert (found, lost.value.ranges) == ([5, 6, 7, 8, 9, 10], (SeqRange(12, 12),))
    with pytest.raises(LostMessages) as lost:
        next(Cursor.begin(workspace, archive, Selection()).batches())
    assert lost.value.ranges[0] == SeqRange(2, 3)


def test_hours_are_read_over_a_loss_where_that_is_asked_for(workspace: Workspace, bucket: str) -> None:
    archive, hours = made_points.create(workspace, bucket), Selection(hours=(hour_of(made_points.T0),))
    for first, last in ((1, 5), (8, 12)):
        add_chunk(workspace, archive, [message(seq) for seq in range(first, last + 1)])
    life = workspace.catalog.coverage.all(archive)[0].incarnation
    workspace.catalog.chunks.commit(archive, [], [Gap(life, (SeqRange(6, 7),), "expired")])
    # Of a stream that is gone and had more, these may be of the hour too.
    for selection, ranges in ((hours, (SeqRange(6, 7), SeqRange(13, 100))), (Selection(), (SeqRange(6, 7),))):
        with pytest.raises(LostMessages) as lost:
            seqs(Cursor.begin(workspace, archive, selection).batches())
        assert lost.value.ranges == ranges
        over = Cursor.begin(workspace, archive, selection, over_gaps=True)
        assert seqs(over.batches()) == [*range(1, 6), *range(8, 13)]
        assert seqs(Cursor.resume(workspace, over.token()).batches()) == []


def test_a_chunk_that_is_committed_while_the_archive_is_asked_is_not_passed(
    workspace: Workspace, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = made_points.create(workspace, bucket)
    add_chunk(workspace, archive, [message(seq) for seq in range(1, 6)])
    add_chunk(workspace, archive, [message(seq) for seq in range(9, 12)])
    chunks = workspace.catalog.chunks
    select = chunks.select

    def slow(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(chunks, "select", select)
        found = select(*arguments, **more)
        add_chunk(workspace, archive, [message(seq) for seq in range(6, 9)])
        return found

    monkeypatch.setattr(chunks, "select", slow)
    assert seqs(Cursor.begin(workspace, archive, Selection()).batches()) == list(range(1, 12))


def test_a_stream_that_was_made_again_is_not_followed(
    workspace: Workspace, wire: Wire, archive: Archive, bucket: str
) -> None:
    send(wire, 1, 10)
    archived(workspace, wire, "EV", bucket)
    cursor = Cursor.begin(workspace, archive, Selection())
    assert taken(cursor, 10) == list(range(1, 11))
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    send(wire, 1, 20)
    with pytest.raises(StreamChanged, match="deleted and made again"):
        taken(cursor, 1)
    open_source(workspace, archive, adopt=True)
    assert taken(Cursor.resume(workspace, cursor.token()), 20) == list(range(1, 21))


def test_a_token_that_does_not_fit_is_refused(workspace: Workspace, bucket: str) -> None:
    archive = made_points.create(workspace, bucket)
    add_chunk(workspace, archive, [message(1)])
    cursor = Cursor.begin(workspace, archive, Selection())
    assert seqs(cursor.batches()) == [1]
    token = cursor.token()
    saved = cursor_state._loads(token)

    def changed(**more: Any) -> str:
        return cursor_state._dumps({**saved, **more})

    for text, why in [
        ("", "is not a cursor"),
        ("AAAA", "is not a cursor"),
        (token[:-9], "is not a cursor"),
        ("é", "is not a cursor"),
        (changed(selection={"subjects": 5}), "is not a cursor"),
        (changed(selection={"x": 5}), "is not a cursor"),
        (changed(selection=[1]), "is not a cursor"),
        (changed(position=[1]), "is not a cursor"),
        (changed(format=2), "The cursor has format 2"),
        (changed(archive="b"), "archive b, which is not there"),
        (changed(id="x"), "another archive logs"),
        (changed(position=["LOGS", 5, 1]), "does not have"),
    ]:
        with pytest.raises(OperatorError, match=why):
            Cursor.resume(workspace, text)
    workspace.catalog.archives.delete("logs")
    with pytest.raises(OperatorError, match="is not there"):
        Cursor.resume(workspace, token)
    made_points.create(workspace, bucket)
    with pytest.raises(OperatorError, match="of another archive logs: one that was deleted"):
        Cursor.resume(workspace, token)


def test_a_token_in_which_a_digit_changed_is_refused(workspace: Workspace, bucket: str) -> None:
    archive = made_points.create(workspace, bucket)
    add_chunk(workspace, archive, [message(seq) for seq in range(1, 10)], group_rows=3)
    cursor = Cursor.begin(workspace, archive, Selection())
    next(cursor.batches())
    cursor.advance()
    token = cursor.token()
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    at = text.index(b",3]") + 1  # the sequence: it is JSON with another digit too, of a position further on
    damaged = base64.urlsafe_b64encode(text[:at] + b"7" + text[at + 1 :]).decode().rstrip("=")
    with pytest.raises(OperatorError, match="is not a cursor"):
        Cursor.resume(workspace, damaged)


def test_nothing_is_taken_from_a_queue(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("JOBS", "jobs.>", **takes.QUEUE)
    archive = takes.make(workspace, bucket)
    send(wire, 1, 10, "jobs.a")
    takes.run(workspace, archive)
    send(wire, 11, 15, "jobs.a")
    cursor = Cursor.begin(workspace, archive, Selection())
    assert taken(cursor, 10) == list(range(1, 11))
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(taken(cursor, 5)))
    reader.start()
    time.sleep(0.3)
    assert (found, wire.state("JOBS")["messages"]) == ([], 5)
    takes.run(workspace, archive)
    reader.join(20)
    assert found == list(range(11, 16))


@contextmanager
def running(*works: Any, stop: threading.Event) -> Iterator[None]:
    """Each in a thread, again and again until the end, which `stop` tells them."""
    errors = list[BaseException]()

    def loop(work: Any) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=loop, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        assert not errors


def test_each_message_once_while_it_is_killed_and_the_stream_forgets(
    settings: Settings, wire: Wire, nats: Any, bucket: str
) -> None:
    """A producer, captures, and limits that remove what was captured; the reader is killed with and without saving."""
    wire.create_stream("EV", "ev.>", max_msgs=300)
    noise, last = Random(5), 2000
    with Workspace(settings) as workspace:
        create(workspace, ArchiveSpec(name="a", stream="EV", bucket=bucket))
        archive = workspace.catalog.archives.get("a")
        token = Cursor.begin(workspace, archive, Selection()).token()
    sent, found, stop = [20], list[int](), threading.Event()
    send(wire, 1, 20)
    capturing = Wire(nats.url)

    def produce() -> None:
        with Workspace(settings) as own:
            # Not faster than captures: what is lost before one is a test of its own.
            while sent[0] < last and sent[0] - own.catalog.coverage.all(archive)[-1].last < 200 and not stop.is_set():
                send(wire, sent[0] + 1, sent[0] + 20)
                sent[0] += 20
        time.sleep(0.01)

    def capture() -> None:
        with Workspace(settings) as own:
            archived(own, capturing, "EV", bucket)
        time.sleep(noise.random() * 0.2)

    kills = 0
    with capturing, running(produce, capture, stop=stop):
        until = time.monotonic() + 120
        while len(found) < last:
            assert time.monotonic() < until, (len(found), sent)
            with Workspace(settings) as own:
                cursor = Cursor.resume(own, token)
                for batch in islice(cursor.batches(follow=True), noise.randint(1, 6)):
                    if noise.random() < 0.2:
                        break  # killed before it was saved
                    found += batch.column("seq").to_pylist()
                    cursor.advance()
                    token = cursor.token()
                    if len(found) >= last:
                        break
            kills += 1
    assert found == list(range(1, last + 1))
    assert kills > 3
