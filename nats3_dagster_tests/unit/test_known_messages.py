"""What counts as published, to the message: one less would be sent again, one more would be lost."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from nats3_dagster.errors import TargetError
from nats3_dagster.model import SeqRange
from nats3_dagster.replay.job import DoneRange, ReplayJob
from nats3_dagster.replay.messages.published import OrderKept, Published, _checked, order_kept

# Tokens are times: those of an incarnation, of the one before it, and of the one after it.
BEFORE, NOW, AFTER = "20261121T070000000000000Z", "20261121T080000000000000Z", "20261121T090000000000000Z"


def known(published: Published, token: str, *seqs: int) -> list[int]:
    """Returns those of the sequences that are published."""
    asked = np.array(seqs, np.int64)
    return asked[published.has(token, asked)].tolist()


def of(*seqs: int, token: str = NOW) -> Published:
    return Published({token: np.array(seqs, np.int64)})


@pytest.mark.parametrize("asked", [(1, 2, 3, 4, 5, 6, 7, 8), (3,), (8,), (2, 4), (3, 5, 7), (1, 8), ()])
@pytest.mark.parametrize("there", [(), (3,), (3, 4, 5), (3, 5, 7), (1, 8), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_published_are_those_that_the_target_has(there: tuple[int, ...], asked: tuple[int, ...]) -> None:
    assert known(of(*there), NOW, *asked) == sorted({*there} & {*asked})
    assert known(of(*there), BEFORE, *asked) == known(of(*there), AFTER, *asked) == []


def test_everything_up_to_the_newest_message_is_published() -> None:
    newest = Published({}, (NOW, 5))
    assert known(newest, NOW, 1, 4, 5, 6, 9) == [1, 4, 5]
    assert known(newest, BEFORE, 1, 5, 6, 9) == [1, 5, 6, 9]
    assert known(newest, AFTER, 1, 5, 6, 9) == []


@pytest.mark.parametrize(
    "published", [of(3, 5), Published({}, (NOW, 5)), Published({BEFORE: np.array([9]), NOW: np.array([5])})]
)
def test_a_target_reaches_its_last_message(published: Published) -> None:
    assert [seq for seq in (1, 4, 5, 6, 9) if published.reaches(NOW, seq)] == [1, 4, 5]
    assert published.reaches(BEFORE, 9)
    assert not published.reaches(AFTER, 1)


def test_an_empty_target_reaches_nothing() -> None:
    assert not Published({}).reaches(NOW, 1)


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [(1, 9, 4), (3, 7, 4), (3, 6, 3), (4, 7, 3), (4, 6, 2), (3, 3, 1), (7, 7, 1), (1, 2, 0), (8, 9, 0)],
)
def test_messages_of_a_range_are_counted_with_both_ends(first: int, last: int, count: int) -> None:
    assert of(3, 4, 5, 7).count(DoneRange(NOW, SeqRange(first, last), 0, 0)) == count
    assert of(3, 4, 5, 7).count(DoneRange(AFTER, SeqRange(first, last), 0, 0)) == 0


def done(messages: int, last_seq: int, token: str = NOW) -> list[DoneRange]:
    return [DoneRange(token, SeqRange(1, 9), messages, last_seq)]


def test_a_target_has_what_it_acknowledged() -> None:
    """As many messages as it acknowledged, or more; one less is a loss."""
    for messages in (0, 1, 2, 3):
        _checked(of(3, 4, 7), done(messages, 7), "T")
    with pytest.raises(TargetError, match=r"acknowledged 4 messages of the sequences 1-9 and holds 3"):
        _checked(of(3, 4, 7), done(4, 7), "T")
    with pytest.raises(TargetError, match=r"acknowledged 1 messages .* holds 0"):
        _checked(of(3, 4, 7), [*done(3, 7), *done(1, 2, AFTER)], "T")


def test_a_target_that_removes_has_the_newest_that_it_acknowledged() -> None:
    newest = Published({}, (NOW, 5))
    for part in (done(5, 5), done(1, 4), done(9, 9, BEFORE), done(0, 9)):
        assert _checked(newest, part, "T") is newest
    for part in (done(1, 6), done(1, 1, AFTER)):
        with pytest.raises(TargetError, match=r"acknowledged messages up to sequence \d .* is 5: it lost them"):
            _checked(newest, part, "T")


# Order: what a target has is a beginning, for each group of subjects whose order is kept


def batch(*rows: tuple[str, bool]) -> tuple[pa.Array, Any]:
    subjects, there = zip(*rows, strict=True) if rows else ((), ())
    return pa.array([subject.encode() for subject in subjects], pa.binary()), np.array(there, np.bool_)


A, B, LACKS_A, LACKS_B = ("a", True), ("b", True), ("a", False), ("b", False)


@pytest.mark.parametrize(
    ("batches", "ok", "ok_by_subject"),
    [
        ([[A]], True, True),
        ([[LACKS_A]], True, True),
        ([[A, LACKS_A]], True, True),
        ([[LACKS_A, A]], False, False),
        ([[A, LACKS_A, A]], False, False),
        ([[A], [A, LACKS_A], [LACKS_A]], True, True),
        # Across batches.
        ([[LACKS_A], [A]], False, False),
        ([[A, LACKS_A], [LACKS_A], [A]], False, False),
        ([[A, LACKS_A], [LACKS_B], [LACKS_B, A]], False, False),
        # Of two subjects.
        ([[LACKS_A, B]], False, True),
        ([[LACKS_A], [B]], False, True),
        ([[B, LACKS_A], [B, LACKS_B, LACKS_A]], False, True),
        ([[LACKS_B, A, LACKS_A], [B]], False, False),
    ],
)
def test_what_a_target_has_is_a_beginning(batches: list[list[tuple[str, bool]]], ok: bool, ok_by_subject: bool) -> None:
    one: Any = SimpleNamespace(spec=SimpleNamespace(order="stream"), targets=[None])
    by_subject: Any = SimpleNamespace(spec=SimpleNamespace(order="subject"), targets=[None])
    for job, expected in ((one, ok), (by_subject, ok_by_subject)):
        order = order_kept(cast("Any", None), cast("ReplayJob", job))
        assert order is not None
        assert is_kept(order, batches) == expected, job


def test_without_an_order_nothing_is_checked() -> None:
    assert order_kept(cast("Any", None), cast("Any", SimpleNamespace(spec=SimpleNamespace(order="none")))) is None


def is_kept(order: OrderKept, batches: list[list[tuple[str, bool]]]) -> bool:
    try:
        for rows in batches:
            order.check(*batch(*rows))
    except TargetError:
        return False
    return True


def test_the_error_names_the_message_that_came_too_early() -> None:
    with pytest.raises(TargetError, match="holds a message on b "):
        OrderKept(lambda subject: subject).check(*batch(A, LACKS_B, LACKS_A, B))
