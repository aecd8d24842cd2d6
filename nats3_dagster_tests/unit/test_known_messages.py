"""What counts as published, to the message: one less would be sent again, one more would be lost."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from nats3_dagster.errors import TargetError
from nats3_dagster.model import DonePart, Incarnation, ReplayTarget, SeqRange, StreamState
from nats3_dagster.replay.job import DoneRange, ReplayJob, done_ranges, joined
from nats3_dagster.replay.messages import published as asking
from nats3_dagster.replay.messages.published import OrderKept, Published, _checked, ask_targets, order_kept
from nats3_dagster_tests.support.catalog import LOGS

# Tokens are times: those of an incarnation, of the one before it, and of the one after it.
BEFORE, NOW, AFTER = "20261121T070000000000000Z", "20261121T080000000000000Z", "20261121T090000000000000Z"
AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)


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


DONE_RANGES = [DoneRange(NOW, SeqRange(7, 8), 2, 8), DoneRange(NOW, SeqRange(3, 4), 2, 4)]


@pytest.mark.parametrize(
    ("published", "end", "beyond"),
    [
        (of(1, 2, 5), (NOW, 4), (NOW, 5)),
        (of(1, 2, 5), (NOW, 5), None),
        (of(1, 2, 5), (BEFORE, 9), (NOW, 5)),
        (of(1, 2, 5), (AFTER, 1), None),
        (of(), (NOW, 1), None),
        # What is done does not count, and what lies before it does.
        (of(1, 3, 4, 7, 8), (NOW, 2), None),
        (of(1, 5, 7, 8), (NOW, 2), (NOW, 5)),
        (of(2, 3, 4, 7, 8), (NOW, 1), (NOW, 2)),
        (of(7, 8, 9), (NOW, 2), (NOW, 9)),
        (of(8, token=AFTER), (NOW, 2), (AFTER, 8)),
        (Published({NOW: np.array([9]), AFTER: np.array([1])}), (NOW, 2), (AFTER, 1)),
        (Published({AFTER: np.array([1]), NOW: np.array([9])}), (NOW, 2), (AFTER, 1)),
        (Published({}, (NOW, 5)), (NOW, 4), (NOW, 5)),
        (Published({}, (NOW, 5)), (NOW, 5), None),
        (Published({}, (NOW, 8)), (NOW, 5), None),
    ],
)
def test_what_an_earlier_attempt_published_after_a_page(
    published: Published, end: tuple[str, int], beyond: tuple[str, int] | None
) -> None:
    assert published.beyond(end, DONE_RANGES) == beyond


def part(first: int, last: int, seqs: SeqRange, messages: int, last_seq: int, life: Incarnation = LOGS) -> DonePart:
    return DonePart(life, SeqRange(first, last), seqs, messages, last_seq)


def test_chunks_that_follow_each_other_in_the_plan_are_done_as_one() -> None:
    """Also over a hole in the sequences, because no chunk of the replay lies in it; not over a chunk that is not done,
    nor from one incarnation to the next."""
    parts = [
        part(5, 5, SeqRange(41, 50), 0, 0),
        part(1, 2, SeqRange(1, 20), 19, 20),
        part(3, 3, SeqRange(31, 40), 9, 39),
        part(6, 6, SeqRange(1, 7), 7, 7, AGAIN),
    ]
    assert joined(parts) == (part(1, 3, SeqRange(1, 40), 28, 39), parts[0], parts[3])
    assert done_ranges(joined(parts))[0] == DoneRange(LOGS.token, SeqRange(1, 40), 28, 39)


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


# What is read of targets: the replay began at their sequence 5


REPLAY = "0123456789abcdef"
# What is left of it in the target: a message of the replay by its sequence, one that a schedule made of it, one of
# another client, and none.
OTHERS, GONE = "others", None
Held = int | str | None


def block(held: int | str) -> bytes:
    """The header block of a message: `made 7` is what a schedule made of the replay's message 7."""
    if held == OTHERS:
        return b""
    seq, made = (held, "") if isinstance(held, int) else (int(held.split()[1]), "Nats-Scheduler: s\r\n")
    return (
        f"NATS/1.0\r\nNats3-Replay: {REPLAY}\r\nNats3-Stream: LOGS\r\nNats3-Incarnation: {NOW}\r\n"
        f"Nats3-Sequence: {seq}\r\nNats3-Time: 2026-11-21T08:00:00Z\r\n{made}\r\n"
    ).encode()


class Targets:
    """Streams that answer what they hold from their sequence 5 on; each has its messages from `first` on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *held: Sequence[Held], first: int = 1, **config: Any) -> None:
        self._held = {f"T{number}": one for number, one in enumerate(held)}
        self._config, self._first = config, first
        self.awaited: list[str] = []
        for name in ("target_state", "header_blocks", "read_batches", "await_stored"):
            monkeypatch.setattr(asking, name, getattr(self, name))

    def job(self, **fields: Any) -> ReplayJob:
        spec = {"marks": True, "live": False, "order": "stream", **fields}
        targets = [ReplayTarget(replace(LOGS, stream=name), 5) for name in self._held]
        return cast("ReplayJob", SimpleNamespace(id=REPLAY, nats=None, targets=targets, spec=SimpleNamespace(**spec)))

    def await_stored(self, _: Any, name: str, pattern: str) -> None:
        self.awaited.append(name + pattern)

    def target_state(self, _: Any, target: ReplayTarget) -> StreamState:
        held = self._held[target.incarnation.stream]
        last = 4 + len(held)
        assert f"{target.incarnation.stream}>" in self.awaited
        return StreamState(target.incarnation, self._first, last, 0, 0, last, 0, self._config)

    def header_blocks(self, _: Any, name: str, seqs: range) -> list[bytes | None]:
        assert min(seqs) >= 5
        return [None if held is None else block(held) for held in (self._held[name][seq - 5] for seq in seqs)]

    def read_batches(self, _: Any, spec: Any) -> Iterator[pa.RecordBatch]:
        held, window = self._held[spec.incarnation.stream], spec.seqs
        there = [one for one in held[window.first - 5 : window.last - 4] if one is not None]
        for part in (there[:2], there[2:]):
            yield pa.record_batch({"headers": pa.array([block(one) or None for one in part], pa.binary())})


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        # It has stored nothing since then.
        ([[]], []),
        ([[1]], [1]),
        ([[OTHERS]], []),
        ([[1, OTHERS, 2, 3, OTHERS]], [1, 2, 3]),
        ([[1, 2], [], [3, OTHERS]], [1, 2, 3]),
        ([[3, 1, 1]], [1, 3]),
    ],
)
def test_targets_that_keep_everything_say_what_is_published(
    held: list[list[Held]], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = Targets(monkeypatch, *held, first=5)
    for order in ("stream", "subject", "none"):
        found = ask_targets(cast("Any", None), targets.job(order=order), ">")
        assert found.newest is None
        assert [seq for seqs in found.seqs.values() for seq in seqs.tolist()] == expected
    with pytest.raises(TargetError, match="holds") if expected else nullcontext():
        ask_targets(cast("Any", None), targets.job(), ">", done(len(expected) + 1, 1) if expected else ())


@pytest.mark.parametrize(
    ("held", "newest"),
    [
        ([GONE, 1], 1),
        ([GONE, 7, OTHERS], 7),
        # What a schedule made may be of an early message: it is looked on.
        ([GONE, 8, "made 3"], 8),
        ([GONE, 2, "made 3"], 3),
        (["made 3", *[OTHERS] * 40], 3),
        # More than one look.
        ([GONE, 7, *[OTHERS] * 31], 7),
        ([GONE, 7, *[OTHERS] * 32], 7),
        ([GONE, 7, *[OTHERS] * 70], 7),
        # Nothing of it, to the first one.
        ([OTHERS] * 33, None),
        ([7, *[OTHERS] * 32], 7),
        ([GONE], "unknown"),
        ([7, GONE], "unknown"),
        ([7, OTHERS, GONE, OTHERS], "unknown"),
        ([7, GONE, "made 3"], "unknown"),
    ],
)
def test_a_target_that_removes_says_the_newest_that_is_published(
    held: list[Held], newest: int | str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = Targets(monkeypatch, held, max_msgs_per_subject=1)
    if newest == "unknown":
        with pytest.raises(TargetError, match="T0 may have removed messages"):
            ask_targets(cast("Any", None), targets.job(), ">")
        return
    found = ask_targets(cast("Any", None), targets.job(), ">")
    assert found == Published({}, None if newest is None else (NOW, cast("int", newest)))


@pytest.mark.parametrize("order", ["stream", "subject", "none"])
@pytest.mark.parametrize("is_single", [True, False])
@pytest.mark.parametrize(
    ("held", "fields", "config"),
    [
        ([1, 2, GONE, 3], {}, {}),
        ([GONE, 2, 3], {}, {"first": 6}),
        ([OTHERS, 2, 3], {}, {"first": 6}),
        ([1, 2, 3], {"live": True}, {}),
        ([1, 2, 3], {}, {"max_msgs_per_subject": 1}),
        ([1, 2, 3], {}, {"retention": "workqueue"}),
    ],
)
def test_what_may_have_been_removed_is_known_of_one_stream_in_order(
    held: list[Held], fields: Any, config: Any, is_single: bool, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [] if is_single else [[OTHERS]]
    targets = Targets(monkeypatch, held, *others, **config)
    job = targets.job(order=order, **fields)
    if is_single and order == "stream":
        assert ask_targets(cast("Any", None), job, ">") == Published({}, (NOW, 3))
        with pytest.raises(TargetError, match="it lost them"):
            ask_targets(cast("Any", None), job, ">", done(1, 4))
        return
    with pytest.raises(TargetError, match="may have removed messages"):
        ask_targets(cast("Any", None), job, ">")


def test_without_marks_nothing_can_be_known_of_what_a_target_took(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask_targets(cast("Any", None), Targets(monkeypatch, []).job(marks=False), ">") == Published({})
    with pytest.raises(TargetError, match="which has no marks"):
        ask_targets(cast("Any", None), Targets(monkeypatch, [], [OTHERS]).job(marks=False), ">")


@pytest.mark.parametrize(
    ("batches", "ok"),
    [
        ([[("a.1", False), ("b", True), ("b", False)]], True),
        ([[("a.1", False), ("a.2", True)]], False),
        ([[("a.1", False)], [("x", True)]], False),
        ([[("b", False)], [("a.1", True)], [("b", True)]], False),
        ([[("c", False)], [("b", True), ("a.1", True)]], True),
        ([[("a.1", False)], [("c", True)]], True),
        ([[("b", False)], [("c", True)]], True),
        # No target takes it any more.
        ([[("other", False)], [("a.1", True), ("b", True), ("c", True)]], True),
        ([[("other", False)], [("else", True)]], False),
    ],
)
def test_the_order_of_each_of_several_targets_is_kept(
    batches: list[list[tuple[str, bool]]], ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one stream lacks says nothing of the others."""
    targets = Targets(monkeypatch, [], [], [])
    filters = {"T0": ("x", "a.*"), "T1": ("b",), "T2": ("c", "d")}

    def state_of(_: Any, target: ReplayTarget) -> StreamState:
        name = target.incarnation.stream
        return StreamState(target.incarnation, 1, 4, 0, 0, 4, 0, {"subjects": list(filters[name])})

    monkeypatch.setattr(asking, "target_state", state_of)
    order = order_kept(cast("Any", None), targets.job())
    assert order is not None
    assert is_kept(order, batches) == ok
