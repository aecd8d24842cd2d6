"""A publisher's window: never more under way than it allows, each message once and in order, and nothing forgotten."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nats3_dagster.jetstream.publish.encode import Encoded
from nats3_dagster.jetstream.publish.window import Window


def frames(*sizes: int, first: int = 0) -> Encoded:
    """Frames of these sizes, each of the byte that is its number, on a subject of its own."""
    numbers = range(first, first + len(sizes))
    buffer = b"".join(bytes([number % 256]) * size for number, size in zip(numbers, sizes, strict=True))
    subjects = pa.array([f"s.{number}".encode() for number in numbers], pa.binary())
    return Encoded(memoryview(buffer), np.cumsum(sizes, dtype=np.int64), subjects)


def sent_sizes(window: Window, now: float = 0.0, room: int | None = None) -> list[int]:
    """Sends all that the window allows. Returns the bytes of each part."""
    parts: list[int] = []
    while (part := window.next_part(window.room if room is None else room)) is not None:
        parts.append(len(part))
        window.mark_sent(now)
    return parts


@pytest.mark.parametrize(
    ("messages", "size", "sizes", "sent"),
    [
        (3, 1000, [], 0),
        (3, 1000, [10], 1),
        (3, 1000, [10, 10], 2),
        (3, 1000, [10, 10, 10], 3),
        (3, 1000, [10, 10, 10, 10], 3),
        (1, 1000, [10, 10], 1),
        # Bytes: one less than the window, as many, one more.
        (9, 30, [10, 10, 9, 10], 3),
        (9, 30, [10, 10, 10, 10], 3),
        (9, 30, [10, 10, 11], 2),
        (9, 30, [30, 1], 1),
        # Larger than the window: alone.
        (9, 30, [31, 1], 1),
        (9, 30, [10, 31], 1),
    ],
)
def test_what_is_under_way(messages: int, size: int, sizes: list[int], sent: int) -> None:
    window = Window(messages, size)
    if sizes:
        window.add(frames(*sizes))
    sent_sizes(window)
    assert (window.given, window.sent, window.room) == (len(sizes), sent, messages - sent)
    assert window.is_empty == (sent == len(sizes))
    window.mark_acked(sent)
    assert window.room == messages


def test_without_room_nothing_is_sent() -> None:
    window = Window(5, 10)
    window.add(frames(11, 1))
    assert window.next_part(0) is None
    assert sent_sizes(window, room=1) == [11]
    assert window.next_part(1) is None  # the large one is under way
    window.mark_acked(1)
    assert sent_sizes(window) == [1]


def test_acknowledged_bytes_are_free_again_within_frames() -> None:
    window = Window(9, 30)
    window.add(frames(10, 10, 10, 10, 10))
    assert sent_sizes(window) == [30]
    window.mark_acked(1)
    assert sent_sizes(window) == [10]
    window.mark_acked(1)
    assert sent_sizes(window) == []
    window.mark_acked(3)
    assert sent_sizes(window) == [10]


def test_acknowledged_bytes_are_free_again_within_later_frames() -> None:
    window = Window(9, 40)
    window.add(frames(10, 10))
    window.add(frames(5, 10, 15, 10, first=2))
    assert sent_sizes(window) == [20, 15]
    window.mark_acked(3)  # 25 bytes are free again, and five were
    assert sent_sizes(window) == [25]
    window.mark_acked(4)
    assert window.room == 7


def test_the_time_and_the_subjects_of_what_is_not_acknowledged() -> None:
    window = Window(2, 1000)
    window.add(frames(1, 1))
    window.add(frames(1, first=2))
    assert window.waiting_since is None
    assert sent_sizes(window, 5.0) == [2]
    assert (window.waiting_since, window.last_subject) == (5.0, "s.0")
    window.mark_acked(1)
    assert window.waiting_since == 5.0
    assert sent_sizes(window, 6.0) == [1]
    assert window.last_subject == "s.2"
    window.mark_acked(2)
    assert window.waiting_since == 6.0
    assert [window.subject_of(n) for n in range(4)] == ["an earlier subject"] * 2 + ["s.2", "an earlier subject"]
    assert list(window.subjects()) == ["s.2"]
    window.mark_acked(3)
    assert (window.waiting_since, list(window.subjects())) == (None, [])


def test_bytes_count_as_drained_when_all_frames_given_together_were_sent() -> None:
    window = Window(2, 1000)
    window.add(frames(4, 5, 6))
    part = window.next_part(2)
    assert part is not None
    assert not window.mark_sent(0.0)
    assert (window.drained_bytes, window.is_empty) == (0, False)
    window.mark_acked(2)
    assert window.next_part(2) is not None
    assert window.mark_sent(0.0)
    assert (window.drained_bytes, window.is_empty) == (15, True)


class Sending(RuleBasedStateMachine):
    """A window beside lists: the bytes given, sent, and how many messages are acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.window, self.sizes, self.bytes_sent, self.acked, self.now = Window(4, 12), list[int](), b"", 0, 0.0
        self.times: list[float] = []

    @rule(sizes=st.lists(st.integers(1, 14), min_size=1, max_size=6))
    def give(self, sizes: list[int]) -> None:
        self.window.add(frames(*sizes, first=len(self.sizes)))
        self.sizes += sizes

    @rule()
    def send(self) -> None:
        self.now += 1
        if (part := self.window.next_part(self.window.room)) is not None:
            before = self.window.sent
            self.bytes_sent += bytes(part)
            self.window.mark_sent(self.now)
            self.times += [self.now] * (self.window.sent - before)

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        self.acked = data.draw(st.integers(self.acked, self.window.sent))
        self.window.mark_acked(self.acked)

    @invariant()
    def it_is_as_the_lists(self) -> None:
        sent, under_way = self.window.sent, self.sizes[self.acked : self.window.sent]
        assert self.bytes_sent == b"".join(bytes([n % 256]) * size for n, size in enumerate(self.sizes[:sent]))
        assert (self.window.given, self.window.acked) == (len(self.sizes), self.acked)
        assert len(under_way) <= 4
        assert sum(under_way) <= 12 or len(under_way) == 1
        assert self.window.room == 4 - len(under_way)
        assert self.window.waiting_since == (self.times[self.acked] if under_way else None)
        assert [self.window.subject_of(n) for n in range(self.acked, sent)] == [
            f"s.{n}" for n in range(self.acked, sent)
        ]
        fits = len(under_way) < 4 and sent < len(self.sizes)
        fits = fits and (sum(under_way) + self.sizes[sent] <= 12 or not under_way)
        assert (self.window.next_part(self.window.room) is not None) == fits


TestSending = Sending.TestCase
TestSending.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
