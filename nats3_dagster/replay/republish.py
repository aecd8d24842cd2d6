"""The worker's side of a replay: fetch chunks ahead, map their messages, publish, and account for each chunk.

Invariant: after anything uncertain, a lost connection or an earlier attempt, the targets are asked what they hold of
this replay before another message is published.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
from tenacity import Retrying, retry_if_exception_type, wait_exponential

from nats3_dagster.archive.fetch import fetch_chunks
from nats3_dagster.chunks.read import ChunkReader
from nats3_dagster.errors import Interrupted
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publisher import INFLIGHT_MESSAGES, Publisher
from nats3_dagster.jetstream.task_progress import Counts
from nats3_dagster.model import Chunk, ChunkResult
from nats3_dagster.objects import Bucket
from nats3_dagster.replay.job import Share
from nats3_dagster.replay.mapping import Mapper, Outgoing
from nats3_dagster.replay.pace import Pacer
from nats3_dagster.replay.published import Published, ask_targets
from nats3_dagster.subjects import Transform

# Chunks fetched ahead of the one that is published: at 64 MiB a chunk, one keeps the publisher busy and a worker small.
AHEAD = 1
# Attempts in a row that finish no chunk.
RECONNECTS = 5


@dataclass(slots=True)
class _UnderWay:
    """The chunk that is published."""

    publisher: Publisher
    # Messages that the publisher had published before the first one of this chunk.
    before: int
    # Messages of the chunk that were found in the targets.
    found: int = 0


class Republisher:
    """Publishes a share; `results()` yields a ChunkResult as soon as all messages of the chunk are acknowledged."""

    def __init__(self, share: Share, link: Link) -> None:
        self._share, self._job, self._link = share, share.job, link
        spec = self._job.spec
        self._transform = Transform(spec.read_subject, spec.write_subject)
        parted = spec.order == "subject"
        self._mapper = Mapper(
            self._transform, self._job.id, with_ids=not self._job.batched,
            share=share.index if parted else 0, shares=share.count if parted else 1,
        )  # fmt: skip
        self._bucket = cache(partial(Bucket, self._job.store))
        self._published: Published | None = None
        self._ask = self._job.resumed
        # Of the finished chunks, and the chunk under way: replaced in one go, for another thread asks `counts`.
        self._progress: tuple[Counts, _UnderWay | None] = (Counts(), None)

    def counts(self) -> Counts:
        """Messages of the share that the targets have by now. Any thread may ask."""
        finished, chunk = self._progress
        if chunk is None:
            return finished
        acked = chunk.publisher.published - chunk.before
        return Counts(finished.published + acked, finished.found + chunk.found)

    def results(self) -> Iterator[ChunkResult]:
        remaining = list(self._share.chunks)
        fruitful = 0
        retrying = Retrying(
            retry=retry_if_exception_type(Interrupted), stop=lambda s: s.attempt_number - fruitful >= RECONNECTS,
            wait=wait_exponential(multiplier=0.2, max=5), reraise=True,
        )  # fmt: skip
        for attempt in retrying:
            with attempt:
                # A copy: taking chunks off the list that is walked would skip every second one.
                for result in self._publish(tuple(remaining)):
                    remaining.pop(0)
                    fruitful = attempt.retry_state.attempt_number
                    yield result

    def _publish(self, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        """All chunks over one connection. Raises Interrupted when that is lost; the next call then asks first."""
        if self._ask:
            self._published = ask_targets(self._link, self._job, self._transform.pattern)
        self._ask = True
        mode = "batch" if self._job.batched else "window"
        # More than two shares divide what two may have under way.
        fence, inflight = (self._job.id, self._job.attempt), 2 * INFLIGHT_MESSAGES // max(2, self._share.count)
        with Publisher(self._job.nats, mode=mode, fence=fence, inflight_messages=inflight) as publisher:
            pacer = Pacer(self._job.spec.pace, sleep=publisher.pause)
            for chunk, reader in fetch_chunks(self._bucket, chunks, AHEAD):
                yield self._publish_chunk(publisher, pacer, chunk, reader)

    def _publish_chunk(self, publisher: Publisher, pacer: Pacer, chunk: Chunk, reader: ChunkReader) -> ChunkResult:
        """Returns when the targets have acknowledged all messages of the chunk."""
        duplicates = publisher.duplicates
        finished, _ = self._progress
        under_way = _UnderWay(publisher, publisher.published)
        self._progress = finished, under_way
        selected = 0
        for batch, known in self._select(chunk, reader):
            selected += batch.num_rows + known
            under_way.found += known
            if batch.num_rows:
                _send(publisher, pacer, self._mapper.outgoing(batch, chunk.meta.incarnation))
        publisher.flush()
        found, published = under_way.found, selected - under_way.found
        self._progress = Counts(finished.published + published, finished.found + found), None
        return ChunkResult(chunk.id, selected, published, found, publisher.duplicates - duplicates)

    def _select(self, chunk: Chunk, reader: ChunkReader) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The chunk's messages that are to be published, under their new subjects, and how many of each batch were
        published before."""
        selection, published = self._job.spec.selection, None
        if self._published:
            published = self._published.within(chunk.meta.incarnation.token, chunk.meta.covers)
        for batch in reader.batches(seqs=selection.sequences, times=selection.times, dictionary=True):
            yield self._mapper.select(batch, published)


def _send(publisher: Publisher, pacer: Pacer, messages: Outgoing) -> None:
    for part in pacer.slices(messages.sizes, messages.times_ns):
        piece = messages.slice(part)
        publisher.publish(piece.subjects, piece.headers, piece.data)
