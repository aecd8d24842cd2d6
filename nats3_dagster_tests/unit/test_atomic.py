"""An outbox of atomic batches: one is committed when the stream says that it has stored all of the one before.

The wire notes what is sent, and the answers are written by hand.
"""

import re

import pyarrow as pa
import pytest

from nats3_dagster.jetstream.publish.atomic import LINES_BYTES, MOST, AtomicOutbox, encode_batches
from nats3_dagster.jetstream.publish.encode import Publication
from nats3_dagster_tests.unit.test_outbox import INBOX, Case

# What a frame has beside subject, header block and payload, at most.
LINE_BYTES = 160
FRAME = re.compile(
    rb"HPUB (\S+)(?: _INBOX\.me\.(\d+))? \d+ \d+\r\nNATS/1\.0\r\nNats-Batch-Id: ([\w-]{7})\r\n"
    rb"Nats-Batch-Sequence: (\d+)\r\n(Nats-Batch-Commit: 1\r\n)?"
)


class AtomicCase(Case):
    """An outbox of batches of three messages at most, and what came of it."""

    def __init__(self, *streams: str, messages: int = 6) -> None:
        super().__init__(*streams, messages=messages, kind=AtomicOutbox)
        self.batches: list[str] = []

    def give(self, count: int, size: int = 0) -> None:
        """Gives so many messages with payloads of this size."""
        assert isinstance(self.outbox, AtomicOutbox)
        names, data = [f"s.{n}".encode() for n in range(count)], [b"x" * size] * count
        part = Publication.of(pa.array(names, pa.binary()), None, pa.array(data, pa.binary()))
        for batch, messages, frames in encode_batches(self.outbox, part, self.outbox.window.given):
            self.batches.append(batch)
            self.outbox.begin(batch, messages)
            for encoded in frames:
                self.outbox.add(encoded)

    def stored(self, number: int, batch: str, count: int, seq: int, stream: str = "S") -> None:
        """Lets a stream answer the message of this number that it has stored a batch."""
        self.answer((number, f'{{"stream":"{stream}","seq":{seq},"batch":"{batch}","count":{count}}}'))

    @property
    def frames(self) -> list[tuple[str, str, int, int, bool]]:
        """The sent frames: subject, reply, number of the batch, number in it, whether it is the last one."""
        return [
            (s.decode(), reply.decode(), self.batches.index(batch.decode()), int(number), bool(commit))
            for s, reply, batch, number, commit in FRAME.findall(b"".join(self.wire.sent))
        ]


def test_a_batch_is_committed_when_the_one_before_it_is_stored() -> None:
    case = AtomicCase("S")
    case.give(7)
    first = [("s.0", "0", 0, 1, False), ("s.1", "", 0, 2, False), ("s.2", "2", 0, 3, True)]
    second = [("s.3", "3", 1, 1, False), ("s.4", "", 1, 2, False)]
    assert (case.frames, case.counts) == ([*first, *second], (5, 0))
    case.answer((0, ""), (3, ""))
    assert (case.frames, case.counts) == ([*first, *second], (5, 0))
    case.stored(2, case.batches[0], 3, 13)
    # The third one has a single message, which commits it.
    assert (case.frames, case.counts) == ([*first, *second, ("s.5", "5", 1, 3, True)], (6, 3))
    case.give(1)
    case.stored(5, case.batches[1], 3, 17)  # another client had its messages between the two
    assert (case.frames[6:], case.counts) == ([("s.6", "6", 2, 1, True)], (7, 6))
    case.stored(6, case.batches[2], 1, 18)
    case.stored(7, case.batches[3], 1, 19)
    assert (case.counts, case.failure, case.outbox.is_answered) == ((8, 8), "", True)
    assert len(set(case.batches)) == 4


@pytest.mark.parametrize(
    ("batch", "count", "seq"), [("other", 3, 13), ("", 2, 13), ("", 4, 13), ("", 3, '"13"'), ("", "null", 13)]
)
def test_another_batch_than_the_one_that_was_sent(batch: str, count: int, seq: int) -> None:
    case = AtomicCase("S")
    case.give(4)
    case.stored(2, batch or case.batches[0], count, seq)
    assert case.failure.startswith("Interrupted: Stream S stored")
    assert (case.counts, len(case.frames)) == ((3, 0), 3)


def test_a_batch_that_was_not_committed() -> None:
    """Nothing stores it, whatever a stream says."""
    case = AtomicCase("S")
    case.give(6)
    case.stored(2, case.batches[1], 3, 13)
    assert case.failure.startswith("Interrupted: Stream S stored")
    assert case.counts == (5, 0)


def test_a_batch_that_was_not_sent_to_its_end() -> None:
    case = AtomicCase("S")
    assert isinstance(case.outbox, AtomicOutbox)
    part = Publication.of(pa.array([b"s", b"s"], pa.binary()), None, pa.array([b"", b""], pa.binary()))
    ((batch, count, frames),) = encode_batches(case.outbox, part, 0)
    case.outbox.begin(batch, count)
    case.outbox.add(frames[0])
    case.stored(0, batch, 2, 12)
    assert case.failure.startswith("Interrupted: Stream S stored")
    assert case.counts == (1, 0)


def test_a_batch_that_is_stored_twice() -> None:
    case = AtomicCase("S")
    case.give(3)
    case.stored(2, case.batches[0], 3, 13)
    case.stored(2, case.batches[0], 3, 16)
    assert case.failure.startswith("Interrupted: Stream S stored")


def test_a_batch_of_another_stream() -> None:
    case = AtomicCase("S")
    case.give(3)
    case.stored(2, case.batches[0], 3, 13, stream="OTHER")
    assert "Stream OTHER took a message" in case.failure
    assert case.counts == (3, 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            '{"error":{"code":400,"err_code":10176,"description":"incomplete"},"stream":"S","seq":0}',
            "Interrupted: S ref",
        ),
        (
            '{"error":{"code":400,"err_code":10199,"description":"too large"},"stream":"S","seq":0}',
            "Interrupted: S ref",
        ),
        (
            '{"error":{"code":400,"err_code":10201,"description":"duplicate"},"stream":"S","seq":0}',
            "Interrupted: S ref",
        ),
        ('{"error":{"code":400,"err_code":10174,"description":"disabled"},"stream":"S","seq":0}', "Interrupted: S ref"),
        ('{"error":{"code":429,"err_code":10210,"description":"too many"},"stream":"S","seq":0}', "Interrupted: S ref"),
        ('{"error":{"code":400,"err_code":10054,"description":"too big"},"stream":"S","seq":0}', "TargetError: S refu"),
        ('{"stream":"S","seq":13}', "Interrupted: A stream answered with something unknown"),
    ],
)
def test_a_batch_that_is_refused(body: str, says: str) -> None:
    case = AtomicCase("S")
    case.give(4)
    case.answer((0, body))
    assert case.failure.startswith(says)
    assert (case.counts, len(case.frames)) == ((3, 0), 3)


def test_no_batch_is_larger_than_the_window() -> None:
    """In messages, in bytes, and as servers take it; a message that is larger than the window goes alone."""
    case = AtomicCase(messages=2 * MOST)
    assert [count for count, _ in sizes(case, 2 * MOST + 1, 0)] == [40] * 50 + [1]
    assert all(size <= 10_000 for _, size in sizes(case, 100, 100))
    assert [count for count, _ in sizes(case, 3, 12_000)] == [1, 1, 1]
    case.outbox.window.size = 10**9
    assert [count for count, _ in sizes(case, 2 * MOST + 1, 0)] == [MOST, MOST, 1]
    assert [count for count, _ in sizes(case, 25, 100_000)] == [10, 10, 5]
    case.outbox.window.size = 5 * len(b"s") + 5 * (LINES_BYTES + len(b"NATS/1.0\r\n\r\n") + LINE_BYTES)
    assert [count for count, _ in sizes(case, 16, 0)] == [5, 5, 5, 1]
    case.outbox.window.size -= 1
    assert [count for count, _ in sizes(case, 16, 0)] == [4, 4, 4, 4]
    case.outbox.window.size = 10**9
    for messages in (1, 3):
        case.outbox.window.messages = messages
        assert [count for count, _ in sizes(case, 3, 0)] == [1, 1, 1]
    case.outbox.window.messages = 15
    assert [count for count, _ in sizes(case, 15, 0)] == [7, 7, 1]


def sizes(case: AtomicCase, count: int, size: int) -> list[tuple[int, int]]:
    """Messages of each batch, and bytes of its frames."""
    assert isinstance(case.outbox, AtomicOutbox)
    part = Publication.of(pa.array([b"s"] * count, pa.binary()), None, pa.array([b"x" * size] * count, pa.binary()))
    return [(n, sum(f.size for f in frames)) for _, n, frames in encode_batches(case.outbox, part, 0)]


def test_its_answers_come_to_its_inbox() -> None:
    case = AtomicCase()
    case.give(2)
    assert b" %b.0 " % INBOX.encode() in case.wire.sent[0]
