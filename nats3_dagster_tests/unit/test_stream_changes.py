"""A stream that is no longer what an archive holds of it, to the sequence; and why a read breaks off for good."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nats3_dagster.archive.source.restored import History
from nats3_dagster.archive.source.stream_changes import (
    ends_before_error,
    forgotten_error,
    missing_error,
    recreated_error,
    rewritten_error,
    truncated_error,
    witness_at,
    witness_error,
)
from nats3_dagster.errors import SourceError, UnknownStream
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.breaks import BREAKS, Breaks, behind, left_out
from nats3_dagster.jetstream.read.scan import FrameError
from nats3_dagster.model import Coverage, Incarnation, Witness
from nats3_dagster_tests.support.catalog import LOGS, archive, state

AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)


def coverage(last: int, incarnation: Incarnation = LOGS) -> Coverage:
    return Coverage(incarnation, 1, last, last, 1, last, 0, 0, 0, None, None)


@pytest.mark.parametrize(("archived", "is_forgotten"), [(0, False), (99, False), (100, False), (101, True)])
def test_a_stream_that_ends_before_what_is_archived(archived: int, is_forgotten: bool) -> None:
    error = ends_before_error(archive(), state(last=100), archived)
    assert bool(error) == is_forgotten
    if error:
        assert "ends at sequence 100, and archive logs holds it up to 101" in error.what
    assert bool(truncated_error(archive(), [coverage(5), coverage(archived)], state(last=100))) == is_forgotten
    # What is archived of an earlier stream says nothing of this one.
    assert truncated_error(archive(), [coverage(500, AGAIN), coverage(7)], state(last=100)) is None
    assert truncated_error(archive(), [], state(last=0)) is None


def test_a_stream_that_was_made_again() -> None:
    made_again = state(AGAIN)
    assert recreated_error(archive(), [], made_again) is None
    assert recreated_error(archive(), [coverage(5), coverage(5, AGAIN)], made_again) is None
    error = recreated_error(archive(), [coverage(5)], made_again)
    assert error
    assert "was deleted and made again" in error.what


@pytest.mark.parametrize(
    ("start", "again"), [(8, ""), (7, "; sequences 7 to 7 may be archived again"), (3, "; sequences 3 to 7")]
)
def test_a_stream_that_was_restored_from_an_older_backup(start: int, again: str) -> None:
    history = History(coverage(9), newest=9, agreed=7, last=11, start=start)
    error = recreated_error(archive(), [coverage(9)], state(AGAIN), history)
    assert error
    assert "both have the same messages up to sequence 7. The earlier stream went up to 11" in error.what
    assert bool("may be archived again" in str(error.hint)) == bool(again)
    assert again in str(error.hint)


def test_a_witness_that_is_another_message() -> None:
    seen = Witness(5, 50)
    assert witness_error(archive(), seen, None) is None
    assert witness_error(archive(), seen, replace(seen)) is None
    error = witness_error(archive(), seen, Witness(5, 51))
    assert error
    assert "has a message of 1970-01-01T00:00:00.000000051Z at sequence 5" in error.what


def link(*messages: tuple[int, int]) -> Link:
    """A stream with messages of these sequences and times."""

    def call(_: Any, stream: str, seq: int) -> tuple[int, int] | None:
        assert stream == "LOGS"
        return next((one for one in messages if one[0] >= seq), None)

    return cast("Link", SimpleNamespace(call=call))


def test_a_witness_is_the_message_at_its_sequence() -> None:
    found = [witness_at(link((3, 30), (5, 50)), "LOGS", seq) for seq in (2, 3, 4, 5, 6)]
    assert found == [None, Witness(3, 30), None, Witness(5, 50), None]


@pytest.mark.parametrize(("seq", "is_asked"), [(9, False), (10, True), (11, True), (20, True), (21, False)])
def test_a_witness_is_asked_for_where_the_stream_may_have_it(seq: int, is_asked: bool) -> None:
    known = state(first=10, last=20)
    assert rewritten_error(link((seq, 50)), archive(), known, Witness(seq, 50)) is None
    error = rewritten_error(link((seq, 51)), archive(), known, Witness(seq, 50))
    assert bool(error) == is_asked
    # Where it has none, that says nothing.
    assert rewritten_error(link((seq + 1, 51)), archive(), known, Witness(seq, 50)) is None


@pytest.mark.parametrize(
    ("archived", "witness", "says"),
    [
        (20, None, ""),
        (21, None, "ends at sequence 20, and archive logs holds it up to 21"),
        (20, Witness(20, 50), ""),
        (20, Witness(20, 51), "at sequence 20"),
        # That it ends too early is said first.
        (21, Witness(20, 51), "ends at sequence 20"),
    ],
)
def test_a_stream_that_forgot_what_is_archived(archived: int, witness: Witness | None, says: str) -> None:
    known = SimpleNamespace(of=lambda *_: coverage(archived), witness=lambda *_: witness)
    workspace: Any = SimpleNamespace(catalog=SimpleNamespace(coverage=known), link=link((20, 50)))
    error = forgotten_error(workspace, archive(), state(first=10, last=20))
    assert (says in error.what) if error else not says


def test_a_stream_that_is_gone_names_the_archive() -> None:
    error = missing_error(archive(), UnknownStream("There is no stream LOGS", "Look for it"))
    assert error.what == "There is no stream LOGS. Look for it"
    assert "logs" in str(error.hint)


# Why a read breaks off


def test_a_read_breaks_off_a_number_of_times() -> None:
    breaks = Breaks()
    for _ in range(BREAKS):
        breaks.add(SourceError("lost"))
        assert not breaks.too_many
    breaks.add(SourceError("lost"))
    assert breaks.too_many


def test_consumers_that_lag_have_time_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    breaks = Breaks()
    breaks.wait()
    assert slept == []
    breaks.add(behind("S", "n1", 4, 5))
    assert not breaks.too_many
    now = 160.1
    assert breaks.too_many
    others = Breaks()
    others.add(SourceError("lost"))
    now = 300.0
    assert not others.too_many
    now = 100.0
    breaks = Breaks()
    for _ in range(BREAKS + 3):
        breaks.add(behind("S", "n1", 4, 5))
        breaks.wait()
    assert slept == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert not breaks.too_many
    now = 160.0
    assert not breaks.too_many
    now = 160.1
    assert breaks.too_many


def test_breaks_of_both_kinds_are_counted_apart() -> None:
    breaks = Breaks()
    breaks.add(behind("S", "", 4, 5))
    for _ in range(BREAKS):
        breaks.add(left_out("S", "", 4))
    assert not breaks.too_many
    breaks.add(left_out("S", "", 4))
    assert breaks.too_many


def test_what_cannot_be_decoded_twice_never_can_be() -> None:
    breaks = Breaks()
    breaks.add(FrameError("at 5"))
    assert not breaks.too_many
    breaks.add(FrameError("at 6"))
    assert not breaks.too_many
    breaks.add(SourceError("lost"))
    breaks.add(FrameError("at 6"))
    assert breaks.too_many
    assert breaks.is_permanent


def test_the_server_is_named_where_there_are_several() -> None:
    alone, one_of_three = behind("S", "", 4, 5), behind("S", "n1", 4, 5)
    assert "The consumer has nothing of S after sequence 4, and the stream's leader holds 5" in alone.what
    assert "The consumer on server n1 has nothing" in one_of_three.what
    assert "its replica lags" in one_of_three.what
    assert "its replica lags" not in alone.what
    assert left_out("S", "n1", 4).what.startswith("The consumer on server n1 left out message 4")
    assert left_out("S", "", 4).what.startswith("The consumer left out message 4")
