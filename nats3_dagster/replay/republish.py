"""The worker's side of a replay: fetch chunks ahead, map their messages, publish, and account for each chunk.

The rule kept here: after anything uncertain, a lost connection or an earlier attempt, ask the targets what they hold of
this replay before another message is published.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tenacity import Retrying, retry_if_exception_type, wait_exponential

from nats3_dagster.chunks.read import ChunkReader, open_chunk
from nats3_dagster.errors import Interrupted
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publisher import INFLIGHT_MESSAGES, Publisher
from nats3_dagster.model import Chunk, ChunkResult
from nats3_dagster.objects import Bucket
from nats3_dagster.replay.mapping import Mapper, Outgoing
from nats3_dagster.replay.pace import Pacer
from nats3_dagster.replay.plan import ReplayJob
from nats3_dagster.replay.published import Published, ask_targets
from nats3_dagster.subjects import Transform

# Chunks fetched ahead of the one that is published: at 64 MiB a chunk, one keeps the publisher busy and a worker small.
AHEAD = 1
# Attempts in a row that get no chunk done.
RECONNECTS = 5


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of a replay: its chunks, and its hash partition of the subjects (`index` of `of`)."""

    job: ReplayJob
    chunks: tuple[Chunk, ...]
    index: int
    of: int


class Republisher:
    """Publishes a share; `results()` yields a ChunkResult as soon as all messages of the chunk are acknowledged."""

    def __init__(self, share: Share, link: Link, progress: Callable[[int], None]) -> None:
        self._share, self._job, self._link, self._progress = share, share.job, link, progress
        spec = self._job.spec
        self._transform = Transform(spec.read_subject, spec.write_subject)
        parted = spec.order == "subject"
        self._mapper = Mapper(
            self._transform, self._job.id, with_ids=not self._job.batched,
            share=share.index if parted else 0, shares=share.of if parted else 1,
        )  # fmt: skip
        self._published: Published | None = None
        self._ask = self._job.resumed

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
        pacer: Pacer | None = None
        # More than two shares divide what two may have under way.
        fence, inflight = (self._job.id, self._job.attempt), 2 * INFLIGHT_MESSAGES // max(2, self._share.of)
        with Publisher(self._job.nats, mode=mode, fence=fence, inflight_messages=inflight) as publisher:
            pacer = Pacer(self._job.spec.pace, sleep=publisher.wait)
            for chunk, reader in _ahead(self._job, chunks):
                duplicates = publisher.duplicates
                selected = found = 0
                for batch in self._batches(reader):
                    batch, known = self._mapper.select(batch, self._known(chunk))
                    selected, found = selected + batch.num_rows + known, found + known
                    if batch.num_rows:
                        self._send(publisher, pacer, self._mapper.outgoing(batch, chunk.meta.incarnation))
                    self._progress(batch.num_rows + known)
                publisher.flush()
                yield ChunkResult(chunk.id, selected, selected - found, found, publisher.duplicates - duplicates)

    def _send(self, publisher: Publisher, pacer: Pacer, out: Outgoing) -> None:
        for part in pacer.slices(out.sizes, out.times_ns):
            piece = out.slice(part)
            publisher.publish(piece.subjects, piece.headers, piece.data)

    def _batches(self, reader: ChunkReader) -> Iterator[pa.RecordBatch]:
        spec = self._job.spec
        bounded = spec.from_ns is not None or spec.to_ns is not None
        times = (spec.from_ns or 0, 2**63 - 1 if spec.to_ns is None else spec.to_ns) if bounded else None
        yield from reader.batches(seqs=spec.seqs, times=times, dictionary=True)

    def _known(self, chunk: Chunk) -> NDArray[np.int64] | None:
        return self._published.within(chunk.meta.incarnation.token, chunk.meta.covers) if self._published else None


def _ahead(job: ReplayJob, chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, ChunkReader]]:
    """Each chunk with its verified content, the next ones being fetched meanwhile."""
    buckets = {c.meta.bucket: Bucket(job.store, c.meta.bucket) for c in chunks}

    def fetch(chunk: Chunk) -> ChunkReader:
        return open_chunk(buckets[chunk.meta.bucket].get(chunk.meta.key), chunk.meta)

    waiting: deque[tuple[Chunk, Future[ChunkReader]]] = deque()
    with ThreadPoolExecutor(AHEAD, thread_name_prefix="fetch") as pool:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(fetch, chunk)))
            if len(waiting) > AHEAD:
                ready, future = waiting.popleft()
                yield ready, future.result()
        for ready, future in waiting:
            yield ready, future.result()
