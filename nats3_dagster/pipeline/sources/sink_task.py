"""A task of a write: it publishes its rows, and again what was under way when the connection was lost.

Invariant: a row is published again only with the id that it had, and while the stream still knows that id.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from nats3_dagster.errors import Interrupted, SourceError, TargetError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.encode import Publication
from nats3_dagster.jetstream.publish.sink import REFUSALS, Refusal, SinkPublisher
from nats3_dagster.pipeline.sources.sink_columns import SinkColumns
from nats3_dagster.pipeline.sources.write_lease import WriteLease, clock_s
from nats3_dagster.pipeline.sources.write_part import WritePart

# How long a task waits before it connects again.
_AGAIN_S = 0.5
# Rows, and bytes, from which a batch of Spark's is worth the work that is done once a batch. Of 64 rows, a batch of
# this project's own sessions, that was most of a row's cost.
_ENOUGH_ROWS, _ENOUGH_BYTES = 1024, 1 << 20


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The common input of all tasks of a write. It pickles, and shows no secret."""

    nats: NatsOptions
    stream: str
    # Whether each message expects to get into this stream.
    expect_stream: bool
    # Messages without an acknowledgement that a task has at most.
    max_pending: int
    ack_timeout_s: float
    # Seconds for which a task tries to publish again what it could not.
    retry_s: float
    # Whether rows may be stored twice.
    doubles: bool


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of a task."""

    # Messages that the stream has, those that it knew among them.
    messages: int
    # Messages that the stream knew already by their id.
    duplicates: int
    # Rows that were not taken.
    refused: int
    # The first REFUSALS of them.
    refusals: tuple[Refusal, ...]


def write_rows(plan: SinkPlan, part: WritePart, batches: Iterator[pa.RecordBatch]) -> Written:
    """Publish the rows of a partition. Raises SourceError, TargetError."""
    with WriteLease(plan.nats, plan.stream, part, doubles=plan.doubles) as lease, SinkTask(plan, lease) as task:
        columns = SinkColumns(
            part.prefix,
            max_payload=task.max_payload,
            expected_stream=plan.stream if plan.expect_stream else None,
            refusals=REFUSALS,
        )
        refused, refusals = 0, list[Refusal]()
        for batch in _gathered(batches):
            messages = columns.messages(batch)
            refused += messages.refused
            refusals += messages.refusals[: REFUSALS - len(refusals)]
            for rows in messages.publication.slices():
                task.publish(rows)
        task.flush()
        lease.finish()
        fault_point("sink.finished")
    kept = (*refusals, *task.refusals)[:REFUSALS]
    return Written(task.answered - task.refused, task.duplicates, refused + task.refused, kept)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are large enough."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ENOUGH_ROWS or size >= _ENOUGH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


class SinkTask:
    """Publishes messages in the order given, over one connection after the other."""

    def __init__(self, plan: SinkPlan, lease: WriteLease) -> None:
        self._plan, self._lease = plan, lease
        # Given, and not known to be answered; each with the time when it was given, by clock_s.
        self._waiting: deque[tuple[float, Publication]] = deque()
        self._counted = 0  # answers of the publisher of now that are no longer waited for
        self.answered = self.duplicates = self.refused = 0
        self.refusals: tuple[Refusal, ...] = ()

    def __enter__(self) -> "SinkTask":
        self._publisher = self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def max_payload(self) -> int:
        return self._publisher.max_payload

    def publish(self, messages: Publication) -> None:
        if not self._lease.begun:
            self._lease.begin()
            fault_point("sink.begun")
        self._waiting.append((clock_s(), messages))
        try:
            self._lease.check()
            self._publisher.publish(messages.subjects, messages.headers, messages.data)
        except SourceError as error:
            if isinstance(error, TargetError) and not isinstance(error, Interrupted):
                raise
            self._again(error)
        self._forget()
        fault_point("sink.sent")

    def flush(self) -> None:
        """Return when every message has its answer."""
        try:
            self._publisher.flush()
        except Interrupted as error:
            self._again(error)
        self._forget()

    def _again(self, first: SourceError) -> None:
        """Publish what has no answer, over a new connection. Raises the last error when it took too long."""
        until, error = time.monotonic() + self._plan.retry_s, first
        while True:
            self._forget()
            self._close()
            if time.monotonic() + _AGAIN_S > until:
                raise TargetError(
                    f"{error.what}; it was tried again for {self._plan.retry_s:g} s",
                    "What was acknowledged stays in the stream. Find out why it stopped, then write again",
                ) from error
            time.sleep(_AGAIN_S)
            try:
                self._publisher = self._open()
                if self._waiting:
                    self._repeat(self._waiting[0][0])
                return
            except SourceError as failure:
                if isinstance(failure, TargetError) and not isinstance(failure, Interrupted):
                    raise
                error = failure

    def _repeat(self, sent: float) -> None:
        """Publish again what has no answer; `sent`: when the first of it was sent, by clock_s."""
        self._lease.refresh()
        self._lease.check()
        self._lease.check_repeat(sent)
        for _, part in self._waiting:
            self._publisher.publish(part.subjects, part.headers, part.data)
        self._publisher.flush()
        # This process may have stood still between the look at the clock and the answer.
        self._lease.check_repeat(sent)

    def _forget(self) -> None:
        """Drop what has its answer."""
        answered = self._publisher.published - self._counted
        while self._waiting and answered:
            sent, part = self._waiting.popleft()
            if answered < len(part):
                self._waiting.appendleft((sent, part.cut(answered)[1]))
            size = min(answered, len(part))
            answered -= size
            self._counted += size
            self.answered += size

    def _open(self) -> SinkPublisher:
        plan = self._plan
        publisher = SinkPublisher(
            plan.nats, inflight_messages=plan.max_pending, ack_timeout_s=plan.ack_timeout_s, streams=(plan.stream,)
        ).__enter__()
        self._counted, self._closed = 0, False
        return publisher

    def _close(self) -> None:
        """Close the publisher as it is, and keep what it counted."""
        if self._closed:
            return
        self._closed = True
        self.duplicates += self._publisher.duplicates
        self.refused += self._publisher.refused
        self.refusals = (*self.refusals, *self._publisher.refusals)[:REFUSALS]
        self._publisher.__exit__(Interrupted, None, None)
