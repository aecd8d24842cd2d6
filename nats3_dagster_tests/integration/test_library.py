"""`nats3_dagster.Archive`: what programs read."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import islice

import pytest

from nats3_dagster import Archive
from nats3_dagster.errors import NotArchived, OperatorError, SourceError, Unknown
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.stored import LIFE, Made, made, store

COUNT = 200


@pytest.fixture
def archive(workspace: Workspace, settings: Settings, bucket: str) -> Iterator[Archive]:
    """An archive `logs` of COUNT messages in two hours."""
    found = made(workspace, bucket, "logs", last=COUNT)
    for hour, first in ((10, 1), (11, 101)):
        store(workspace, found, hour, [Made(n, f"logs.{n % 2}", b"%d" % n) for n in range(first, first + 100)])
    with Archive.open("logs", settings) as opened:
        yield opened


def test_it_reads_messages_and_batches(archive: Archive) -> None:
    assert [message.seq for message in archive.read()] == list(range(1, COUNT + 1))
    assert [int(m.data) for m in archive.read(subjects=["logs.1"], sequences=(1, 9))] == [1, 3, 5, 7, 9]
    assert [m.seq for m in archive.read(subjects="logs.1", sequences="1-4")] == [1, 3]
    later = datetime(2026, 11, 21, 11, 0, 0, 199_000, tzinfo=UTC)
    for at in (later, "2026-11-21T11:00:00.199Z", int(later.timestamp() * 1000) * 1_000_000):
        assert [m.seq for m in archive.read(from_time=at)] == [199, 200]
    for day, messages in ((date(2026, 11, 21), COUNT), (date(2026, 11, 22), 0)):
        assert len(list(archive.read(from_time=day))) == messages
    for wrong in (1.5, True, b"2026"):
        with pytest.raises(OperatorError, match=f"A {type(wrong).__name__} is not a time"):
            archive.read(from_time=wrong)  # pyright: ignore[reportArgumentType]
    assert sum(batch.num_rows for batch in archive.read(hours=["2026-11-21-11:00"]).batches()) == 100
    assert next(iter(archive.read())).incarnation == LIFE


def test_a_token_goes_on_behind_what_was_read(archive: Archive) -> None:
    read = archive.read(subjects=["logs.>"])
    taken = [message.seq for message in islice(read, 50)]
    # The fiftieth does not count yet: the program may not be done with it.
    taken += [message.seq for message in archive.resume(read.token())][1:]
    assert taken == list(range(1, COUNT + 1))
    read = archive.read()
    first = next(read.batches())
    read.done()
    rest = [m.seq for m in archive.resume(read.token())]
    assert first.column("seq").to_pylist() + rest == list(range(1, COUNT + 1))
    with pytest.raises(OperatorError, match="is not a cursor"):
        archive.resume("x")


@pytest.mark.parametrize("taken", [1, 7, 99, 100, 101, COUNT])
def test_done_counts_the_message_that_was_given_last(archive: Archive, taken: int) -> None:
    """Not the batch that it came in: a program that stops in a loop has seen no other message of it."""
    read = archive.read()
    for message in read:
        if message.seq == taken:
            break
    before = read.token()
    read.done()
    assert next(iter(archive.resume(before))).seq == taken
    assert [m.seq for m in archive.resume(read.token())] == list(range(taken + 1, COUNT + 1))
    # The same read goes on after it; and what was given by its message does not count by its batch later.
    assert [m.seq for m in read] == list(range(taken + 1, COUNT + 1))
    read.done()
    assert not list(archive.resume(read.token()))


def test_done_after_a_loop_that_was_begun_again(archive: Archive) -> None:
    read = archive.read(subjects=["logs.1"])
    for _ in range(2):
        assert next(iter(read)).seq == 1  # nothing counts yet
    batch = next(read.batches())
    read.done()
    rest = [m.seq for m in archive.resume(read.token())]
    assert batch.column("seq").to_pylist() + rest == list(range(1, COUNT + 1, 2))
    read = archive.read()
    batches = read.batches()
    next(batches)
    for message in read:
        read.done()
        assert next(m.seq for m in archive.resume(read.token())) == message.seq + 1
        if message.seq == 5:
            break


def test_single_messages(archive: Archive) -> None:
    assert archive.get(7).data == b"7"
    assert archive.get(7, incarnation=LIFE.token).seq == 7
    assert archive.first("2026-11-21T10:30:00Z").seq == 101
    assert archive.next("logs.0", 100).seq == 102
    assert archive.next("logs.0").seq == 2
    assert archive.last("logs.*").seq == COUNT
    assert archive.last("logs.1", at="2026-11-21T10:30:00Z").seq == 99
    assert {m.subject: m.seq for m in archive.last_values()} == {"logs.0": 200, "logs.1": 199}
    assert archive.reference(7, 60).row == 6
    with pytest.raises(NotArchived, match="its last one is 200"):
        archive.get(COUNT + 1)
    with pytest.raises(NotArchived, match="no message of other"):
        archive.last("other")
    with pytest.raises(Unknown, match="There is no archive logz"):
        Archive.open("logz")


def test_what_was_lost_is_no_end(archive: Archive, workspace: Workspace) -> None:
    store(workspace, workspace.catalog.archives.get("logs"), 12, [Made(300, "logs.x")])
    with pytest.raises(SourceError, match="201-299"):
        list(archive.read())
