"""The worker's side of a capture: read a range of sequences, write chunks, put them into the store.

Invariant: consecutive outcomes tile the range exactly, and no chunk reaches into a second hour. A sequence that the
stream no longer has is absent in a chunk that spans it, for the one reason that the chunk names; or it is in a gap,
because the stream's head overtook the capture, the server lost it, or the hour has no message in the range.
"""

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.captures.job import CaptureJob
from nats3_dagster.archive.captures.rewrite import Origin
from nats3_dagster.archive.captures.upload import Puts, Uploads
from nats3_dagster.archive.source.absence import Absences
from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.chunks.columns import CHUNK_BYTES, CHUNK_MESSAGES
from nats3_dagster.errors import SourceError, StreamChanged
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import ChunkMeta, Gap, SeqRange, StreamState
from nats3_dagster.objects import Bucket

Outcome = ChunkMeta | Gap


class RangeCapture:
    """Captures one range; `outcomes()` yields a ChunkMeta for each object that is in the store, and Gaps. `messages` is
    how many were read so far."""

    def __init__(self, job: CaptureJob, seqs: SeqRange, link: Link, bucket: Puts | None = None) -> None:
        """`bucket`: takes the objects; the archive's without it."""
        self._job, self._seqs, self._link, self.messages = job, seqs, link, 0
        self._uploads = Uploads(bucket or Bucket(job.store, job.spec.bucket))
        self._writer: ChunkWriter | None = None
        self._subjects = job.subjects(seqs)
        self._absences = Absences(job.state, job.removing, filtered=bool(self._subjects), given_up=job.given_up)
        self._start = self._next = seqs.first  # first sequence of the open chunk; first one not yet accounted for
        self._firsts = [first for _, first in job.hours]
        self._hour_ends = 0  # the last sequence of the open chunk's hour

    @property
    def failed_hour(self) -> str:
        """The hour that failed, after an error. It is the one of the chunk that the store did not take, or of the first
        sequence that is not accounted for."""
        failed = self._uploads.failed
        return failed.hour if failed else self._job.hours[self._hour_at(self._next)][0]

    def outcomes(self) -> Iterator[Outcome]:
        with self._uploads:
            yield from self._chunks_and_gaps()
            yield from self._uploads.finish()

    def _chunks_and_gaps(self) -> Iterator[Outcome]:
        spec = ReadSpec(self._job.state.incarnation, self._seqs, self._subjects)
        try:
            for batch in read_batches(self._job.nats, spec):
                yield from self._add(batch)
                self.messages += batch.num_rows
        except StreamChanged:
            raise
        except SourceError:
            # What lies before a message that cannot be read is archived, however often the rest fails.
            yield from self._roll(self._next - 1)
            yield from self._uploads.finish()
            raise
        if self._next <= self._seqs.last:
            self._look()
        yield from self._skip(self._seqs.last + 1)
        yield from self._roll(self._seqs.last)

    def _add(self, batch: pa.RecordBatch) -> Iterator[Outcome]:
        """Write a batch; where sequences are absent before a message, find out first what became of them."""
        seqs = batch.column("seq").to_numpy()
        cut = 0
        if int(seqs[-1]) - self._next + 1 != len(seqs):
            before = np.concatenate(([self._next - 1], seqs[:-1]))
            state = self._look()
            # Damaged sequences are few: rather all absences one by one than their intersection here.
            for at in np.flatnonzero((seqs - before > 1) & ((before + 1 < state.first_seq) | bool(state.damaged))):
                yield from self._write(batch.slice(cut, at - cut))
                yield from self._skip(int(seqs[at]))
                cut = int(at)
        yield from self._write(batch.slice(cut))

    def _skip(self, upto: int) -> Iterator[Outcome]:
        """Account for those of the absent sequences before `upto` that no chunk may cover."""
        for seqs, reason in self._absences.gaps(SeqRange(self._next, upto - 1)) if self._next < upto else ():
            yield from self._roll(seqs.first - 1)
            yield from self._uploads.finish()
            yield Gap(self._job.state.incarnation, (seqs,), reason)
            self._start = self._next = seqs.last + 1

    def _look(self) -> StreamState:
        """The stream as it is now. Raises StreamChanged: another incarnation says nothing of what is absent here.
        SourceError where it ends before the range: what the stream has had and does not know is not absent."""
        state = same_stream(self._link, self._job.state.incarnation)
        if state.last_seq < self._seqs.last:
            raise SourceError(
                f"Stream {state.name} ends at sequence {state.last_seq}, and ended at {self._seqs.last} or later when "
                "this was planned",
                "Run it again when all servers of the cluster are connected; a server may also have forgotten messages",
            )
        self._absences.look(state)
        return state

    def _write(self, batch: pa.RecordBatch) -> Iterator[Outcome]:
        while batch.num_rows:
            first, last = batch.column("seq")[0].as_py(), batch.column("seq")[-1].as_py()
            if self._writer and first > self._hour_ends:
                yield from self._roll(self._hour_ends)
            if self._writer is None:
                at = self._hour_at(first)
                yield from self._roll(self._firsts[at] - 1)
                self._hour_ends = self._firsts[at + 1] - 1 if at + 1 < len(self._firsts) else self._seqs.last
                self._writer = self._new_writer(self._job.hours[at][0])
            of_hour = batch
            if last > self._hour_ends:
                seqs = batch.column("seq").to_numpy()
                of_hour = batch.slice(0, int(np.searchsorted(seqs, self._hour_ends, "right")))
            rows = self._writer.room(of_hour, max_bytes=CHUNK_BYTES, max_messages=CHUNK_MESSAGES)
            if not rows:
                yield from self._roll(self._next - 1)
                continue
            self._writer.write(batch.slice(0, rows))
            self._next = batch.column("seq")[rows - 1].as_py() + 1
            batch = batch.slice(rows)

    def _roll(self, last: int) -> Iterator[Outcome]:
        """Close the open chunk at `last`, or at the end of its hour, put it, and account for the range up to `last`."""
        if self._writer and self._hour_ends < last:
            yield from self._roll(self._hour_ends)
        if last < self._start:
            return
        covers = SeqRange(self._start, last)
        if self._writer is None:
            yield from self._uploads.finish()
            yield Gap(self._job.state.incarnation, (covers,), self._absences.inside)
        else:
            data, meta = self._writer.finish(covers, self._absences.inside)
            yield from self._uploads.put(meta, data)
        self._writer, self._start = None, last + 1
        self._next = max(self._next, self._start)

    def _hour_at(self, seq: int) -> int:
        """The hour that has the sequence, by its place among the job's hours."""
        return max(bisect_right(self._firsts, seq) - 1, 0)

    def _new_writer(self, hour: str) -> ChunkWriter:
        state = self._job.state
        return Origin(self._job.spec, state.incarnation, hour, dict(state.config), self._subjects).writer()
