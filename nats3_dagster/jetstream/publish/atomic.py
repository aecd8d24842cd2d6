"""Atomic batches (nats-server 2.12 and later, ADR-50): an outbox whose batches are stored one after the other.

A stream stores all messages of a batch or none, and only when it has the last one, which commits the batch. Invariant:
a batch is committed when the one before it is stored. So what is stored is a beginning of what was sent, also where
other clients publish into the stream. The other messages of the batch are sent before that.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.errors import Interrupted
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.publish.acks import Answer, answers
from nats3_dagster.jetstream.publish.encode import Encoded, Publication, encode
from nats3_dagster.jetstream.publish.outbox import Outbox
from nats3_dagster.jetstream.read.scan import FrameError, Frames
from nats3_dagster.model.numbers import Int64s

# Messages of a batch: more than this no server takes by default (`max_batch_size`).
MOST = 1000
# Bytes of the frames of a batch of several messages: a stream has it for longer than a slow line needs for it.
MOST_BYTES = 1 << 20
_FIRST_LINE: Final = b"NATS/1.0\r\n"
_ID, _SEQUENCE, _COMMIT = b"Nats-Batch-Id: ", b"Nats-Batch-Sequence: ", b"Nats-Batch-Commit: 1\r\n"
# Characters of a batch's id, which differs from those of all batches under way in the stream, 50 at most.
_ID_BYTES = 7
# Bytes of the lines of a batch in a header block, at most: no more than a line that expects an id, which plans count.
LINES_BYTES: Final = len(_ID + _SEQUENCE + _COMMIT + b"\r\n\r\n") + _ID_BYTES + len(str(MOST))


class AtomicOutbox(Outbox):
    """An outbox of atomic batches. The first message of a batch and its last one ask for an answer: the first is
    answered with nothing, or with the reason why the batch is refused, and the last when all are stored."""

    def __init__(
        self,
        client: Connection,
        messages: int,
        size: int,
        ack_timeout_s: float,
        changed: Callable[[], None],
        streams: Sequence[str] = (),
    ) -> None:
        super().__init__(client, messages, size, ack_timeout_s, changed, streams)
        # Batches that are not stored: the id, and the number of messages given up to the batch's end.
        self._batches: deque[tuple[str, int]] = deque()

    def begin(self, batch: str, messages: int) -> None:
        """The next frames added are those of a new batch with this number of messages."""
        self._batches.append((batch, self.window.given + messages))

    def _room(self) -> int:
        """Returns the number of messages up to the first one that may not be sent yet: the last one of the batch that
        follows the oldest that is not stored."""
        if not self._batches:
            return 0
        end = self._batches[1][1] - 1 if len(self._batches) > 1 else self._batches[0][1]
        return end - self.window.sent

    def _on_frames(self, frames: Frames) -> None:
        try:
            for answer in answers(frames, self._marker, may_be_empty=True):
                self._on_answer(answer)
        except FrameError as error:
            self.fail(Interrupted(error.what, error.hint))

    def _on_answer(self, answer: Answer) -> None:
        body = answer.body
        if answer.status or answer.error:
            self._refused(answer, self.window.subject_of(answer.number))
        elif "batch" in body:
            self._on_stored(str(body["batch"]), body.get("count"), str(body.get("stream")), body.get("seq"))
        elif body:
            raise FrameError(f"A stream answered with something unknown: {body}")

    def _on_stored(self, batch: str, count: object, stream: str, seq: object) -> None:
        """A stream has stored a batch of `count` messages, the last one at this sequence."""
        expected, end = self._batches[0] if self._batches else ("", 0)
        if not isinstance(seq, int) or self.window.sent < end or (batch, count) != (expected, end - self.window.acked):
            self.fail(Interrupted(f"Stream {stream} stored {count} messages of a batch, which is not what was sent"))
        elif self._advances(stream, seq):
            self._batches.popleft()
            self._advance(end)


def added_bytes(messages: Publication) -> Int64s:
    """Bytes that a batch adds to each message at most."""
    blockless = pc.is_null(messages.headers).to_numpy(zero_copy_only=False).astype(np.int64)
    return LINES_BYTES + blockless * len(_FIRST_LINE + b"\r\n")


def encode_batches(outbox: AtomicOutbox, part: Publication, first: int) -> Iterator[tuple[str, int, list[Encoded]]]:
    """Yields the batches of these messages: id, number of messages, frames. Messages are counted from `first`. Two
    batches fit into the outbox's window; a message of more than MOST_BYTES is one of its own."""
    most, size = min(MOST, max(1, outbox.window.messages // 2)), min(MOST_BYTES, outbox.window.size)
    total = np.cumsum(part.frame_sizes + added_bytes(part))
    at = 0
    while at < len(part):
        before = int(total[at - 1]) if at else 0
        fitting = int(np.searchsorted(total, before + size, "right"))
        end = min(max(at + 1, fitting), at + most, len(part))
        batch = secrets.token_urlsafe()[:_ID_BYTES]
        yield batch, end - at, _frames(with_lines(part.slice(at, end), batch), f"{outbox.inbox}.", first + at)
        at = end


def _frames(messages: Publication, reply: str, first: int) -> list[Encoded]:
    """The frames of a batch. Those between the first and the last ask for no answer."""
    start, rest = messages.cut(1)
    if not len(rest):
        return [encode(start, reply, first)]
    between, end = rest.cut(len(rest) - 1)
    last = first + len(messages) - 1
    middle = [encode(between, "", 0)] if len(between) else []
    return [encode(start, reply, first), *middle, encode(end, reply, last)]


def with_lines(messages: Publication, batch: str) -> Publication:
    """The messages of a batch, each with the batch's lines after the first line of its header block."""
    numbers = pa.array(np.arange(1, len(messages) + 1)).cast(pa.string()).cast(pa.binary())
    commits = pa.array([b""] * (len(messages) - 1) + [_COMMIT], pa.binary())
    rest = pc.fill_null(pc.binary_replace_slice(messages.headers, 0, len(_FIRST_LINE), b""), b"\r\n")
    front = b"%b%b%b\r\n%b" % (_FIRST_LINE, _ID, batch.encode(), _SEQUENCE)
    pieces = [pa.scalar(front, pa.binary()), numbers, pa.scalar(b"\r\n", pa.binary()), commits, rest]
    blocks = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))
    return Publication(messages.subjects, blocks, messages.data)
