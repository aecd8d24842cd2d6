"""The worker's side of a replay: fetch chunks ahead, map their messages, publish, and account for each chunk.

Invariant: after anything uncertain, a lost connection or an earlier attempt, the targets are asked what they hold of
this replay before another message is published.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tenacity import Retrying, retry_if_exception_type, wait_exponential

from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.chunks.read import ChunkReader
from nats3_dagster.errors import Interrupted
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.fence import let_go
from nats3_dagster.jetstream.publish.publisher import INFLIGHT_MESSAGES, Publisher
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.task_progress import Counts
from nats3_dagster.model import Chunk, ChunkMeta, ChunkResult
from nats3_dagster.objects import Bucket
from nats3_dagster.replay.job import DoneRange, Reached, Share
from nats3_dagster.replay.messages.live import Live
from nats3_dagster.replay.messages.mapping import AreStored, Mapper, Outgoing
from nats3_dagster.replay.messages.pace import Pacer
from nats3_dagster.replay.messages.published import OrderKept, Published, ask_targets, order_kept
from nats3_dagster.replay.targets import Way, check_kept, target_state, way_out

# Chunks fetched ahead of the one that is published: at 64 MiB a chunk, one keeps the publisher busy and a worker small.
AHEAD = 1
# Attempts in a row that publish less than PROGRESS messages and finish no chunk.
RECONNECTS = 5
PROGRESS = 1000
# Each attempt after one that finished no chunk divides the window by this: a target that drops messages that it cannot
# store at once accepts a few.
_SMALLER = 8


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
        self._transform = spec.transform()
        parted = spec.order == "subject"
        self._mapper = Mapper(
            self._transform,
            self._job.id,
            with_ids=not self._job.batched,
            share=share.index if parted else 0,
            shares=share.count if parted else 1,
            live=spec.live,
            marks=spec.marks,
        )
        self._live: Live | None = None
        self._bucket = cache(partial(Bucket, self._job.store))
        # One publisher and one stream: what goes out depends on what went out before.
        self._alone = share.count == 1 and len(self._job.targets) == 1
        self._chains_broken = 0  # by other publishers
        self._unchained = 0  # chunks to come that are published one message at a time
        self._counters = False
        self._published: Published | None = None
        self._order: OrderKept | None = None
        self._last_found = 0  # sequence of the last message that the targets were found to hold
        self._ask = self._job.resumed
        self._given_up = ""  # inbox of the publisher that broke off last
        self._fruitful = 0  # the last attempt that made progress
        self._done = list(self._job.done)
        self._timing: tuple[float, int] | None = None  # of the chunks before, by the clock of a pacer
        if timing := self._job.timing:
            self._timing = timing[0] - time.time() + time.monotonic(), timing[1]
        # Of the finished chunks, and the chunk under way: replaced in one go, for another thread asks `counts`.
        self._progress: tuple[Counts, _UnderWay | None] = (Counts(), None)

    def counts(self) -> Counts:
        """Messages of the share that the targets have by now. Any thread may ask."""
        finished, chunk = self._progress
        if chunk is None:
            return finished
        acked = chunk.publisher.published - chunk.before
        return Counts(finished.published + acked, finished.found + chunk.found)

    def results(self) -> Iterator[ChunkResult | Reached]:
        """The result of each chunk, or at last how far an earlier attempt came, if that is beyond the job's chunks."""
        remaining = list(self._share.chunks)
        finished = 0  # the last attempt that finished a chunk
        retrying = Retrying(
            retry=retry_if_exception_type(Interrupted),
            stop=lambda s: s.attempt_number - self._fruitful >= RECONNECTS,
            wait=wait_exponential(multiplier=0.2, max=5),
            reraise=True,
        )
        for attempt in retrying:
            with attempt:
                number = attempt.retry_state.attempt_number
                while remaining:
                    # A copy: taking chunks off the list that is walked would skip every second one.
                    for result in self._publish(tuple(remaining), number, max(0, number - 1 - finished)):
                        if isinstance(result, Reached):
                            yield result
                            return
                        remaining.pop(0)
                        finished = self._fruitful = number
                        yield result

    def _publish(self, chunks: Sequence[Chunk], number: int, failed: int) -> Iterator[ChunkResult | Reached]:
        """All chunks over one connection, or those that are not to be a chain. `number` counts the attempts; the
        `failed` ones before this one finished no chunk. Raises Interrupted when the connection is lost; the next call
        then asks first."""
        if self._ask:
            if self._given_up:
                let_go(self._link, self._given_up)
            self._published = ask_targets(self._link, self._job, self._transform.pattern, self._done)
            if (until := self._job.until) and (beyond := self._published.beyond(until, self._done)):
                yield Reached(*beyond)
                return
            self._order = order_kept(self._link, self._job)
        self._ask = True
        if self._job.spec.live:
            states = [target_state(self._link, target) for target in self._job.targets]
            self._live = Live(self._link, states, time.time_ns)
            # A counter refuses a message with an expectation: it gets one at a time, which is a beginning as well.
            self._counters = not self._job.batched and any(s.config.get("allow_msg_counter") for s in states)
        # More than two shares divide what two may have under way.
        inflight = max(1, 2 * INFLIGHT_MESSAGES // max(2, self._share.count) // _SMALLER ** min(failed, 4))
        if self._unchained:
            chunks = chunks[: self._unchained]
        way = self._way()
        self._mapper.begin(after="" if way == "chain" else None)
        publisher = Publisher(
            self._job.nats,
            mode=way if way in ("batch", "atomic") else "window",
            fence=(self._job.id, self._job.attempt),
            inflight_messages=1 if way == "single" else inflight,
            streams=[target.incarnation.stream for target in self._job.targets],
        )
        try:
            with publisher:
                pacer = Pacer(self._job.spec.pace, sleep=publisher.pause, origin=self._timing)
                self._timing = None
                for chunk, reader in fetch_chunks(self._bucket, chunks, AHEAD):
                    fault_point("replay.chunk_fetched")
                    yield self._publish_chunk(publisher, pacer, chunk, reader)
                    self._unchained = max(0, self._unchained - 1)
                    if publisher.is_login_old:
                        break  # where nothing is uncertain: the next connection reads the login again
        except Interrupted:
            self._given_up = publisher.inbox
            if publisher.published >= PROGRESS or (publisher.login_ended and publisher.published):
                self._fruitful = number
            if publisher.last_id is not None and not publisher.last_id.startswith(self._job.id):
                # Another client publishes into the target. Now and then the chain is tried again.
                self._unchained = 2**self._chains_broken
                self._chains_broken += 1
            raise
        self._ask = False

    def _way(self) -> Way:
        """The way in which the next messages go out."""
        if self._job.batched:
            return "batch"
        if self._counters or self._unchained:
            return "single"
        if not self._alone:
            return "window"
        state = target_state(self._link, self._job.targets[0])
        return way_out(self._job.spec, [state], server_info(self._link), batched=False)

    def _publish_chunk(self, publisher: Publisher, pacer: Pacer, chunk: Chunk, reader: ChunkReader) -> ChunkResult:
        """Returns when the targets have acknowledged all messages of the chunk, and are still the same streams."""
        duplicates, last_seq, last_ns, self._last_found = publisher.duplicates, 0, 0, 0
        finished, _ = self._progress
        under_way = _UnderWay(publisher, publisher.published)
        self._progress = finished, under_way
        selected = expired = 0
        for batch, stored in self._select(chunk, reader):
            selected += batch.num_rows + stored
            under_way.found += stored
            if self._live and batch.num_rows:
                batch, ended = self._live.prepare(batch)
                expired += ended
            if batch.num_rows:
                last_seq = int(batch.column("seq")[-1].as_py())
                last_ns = int(batch.column("time_ns")[-1].as_py())
                _send(publisher, pacer, self._mapper.outgoing(batch, chunk.meta.incarnation))
        fault_point("replay.sent")
        publisher.flush()
        fault_point("replay.acknowledged")
        check_kept(self._link, self._job.targets, publisher.stored, live=self._job.spec.live)
        found, published = under_way.found, selected - under_way.found - expired
        last_seq = max(last_seq, self._last_found)
        done = DoneRange(chunk.meta.incarnation.token, chunk.meta.covers, selected - expired, last_seq)
        self._done.append(done)
        self._progress = Counts(finished.published + published, finished.found + found), None
        duplicates = publisher.duplicates - duplicates
        return ChunkResult(chunk.id, selected, published, found, duplicates, expired, last_seq, last_ns)

    def _select(self, chunk: Chunk, reader: ChunkReader) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The chunk's messages that are to be published, under their new subjects, and how many of each batch were
        published before."""
        selection, are_stored = self._job.spec.selection, self._are_stored(chunk.meta)
        for batch in reader.batches(seqs=selection.sequences, times=selection.times, dictionary=True):
            yield self._mapper.select(batch, are_stored)

    def _are_stored(self, meta: ChunkMeta) -> AreStored | None:
        """Returns the messages of a chunk in the targets; None if they hold none of it or of later chunks."""
        published, order, token = self._published, self._order, meta.incarnation.token
        if published is None or not published.reaches(token, meta.covers.first):
            return None

        def are_stored(subjects: pa.Array, seqs: NDArray[np.int64]) -> NDArray[np.bool_]:
            there = published.has(token, seqs)
            if there.any():
                self._last_found = int(seqs[there][-1])
            if order:
                order.check(subjects, there)
            return there

        return are_stored


def _send(publisher: Publisher, pacer: Pacer, messages: Outgoing) -> None:
    for part in pacer.slices(messages.sizes, messages.times_ns):
        piece = messages.slice(part)
        publisher.publish(piece.subjects, piece.headers, piece.data)
