"""Proof: a restored stream has each message of the archive, with sequence, time, subject, headers and payload, and no
other one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.restore.configuration import has_limits
from nats3_dagster.archive.restore.plan import RestorePlan
from nats3_dagster.archive.restore.waiting import Waiting
from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.model import listed_ranges
from nats3_dagster.model.messages import MESSAGES, exact_subjects
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.model.stream import ranges_of
from nats3_dagster.workspace import Workspace

# A message that ends by itself has it.
_TTL = b"nats-ttl:"


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a comparison: everything is equal, but for these."""

    # Messages that are equal.
    equal: int
    # Messages whose own time to live has ended, or that a limit of the stream removed: the server does not keep them.
    ended: int
    # The messages that each consumer has yet to deliver for the first time, by its name.
    waiting: Mapping[str, int] = field(default_factory=dict[str, int])


def compare(workspace: Workspace, planned: RestorePlan, read: ReadSpec, *, removes: bool = False) -> Proof:
    """Compare what is read of the stream with the archive. `removes`: the stream may have removed messages, whatever
    its settings are. Raises SourceError with the first difference."""
    stream, live = read.incarnation.stream, _Rows(read_batches(workspace.settings.nats, read))
    may_remove = removes or has_limits(planned.config)
    waiting = Waiting(planned.consumers)
    equal = ended = 0
    for batch in planned.batches(workspace):
        seqs = batch.column("seq").to_numpy()
        here = live.up_to(int(seqs[-1]))
        present = here.column("seq").to_numpy()
        if len(more := np.setdiff1d(present, seqs, assume_unique=True)):
            raise SourceError(f"Stream {stream} has {_listed(more)}, which the archive does not have", _HINT)
        kept = np.isin(seqs, present, assume_unique=True)
        if not kept.all():
            absent = batch.filter(pa.array(~kept))
            if not may_remove:
                _check_ended(stream, absent)
            ended += absent.num_rows
            batch = batch.filter(pa.array(kept))
        _check_equal(stream, batch, here)
        waiting.add(batch)
        equal += batch.num_rows
    if (rest := live.up_to(read.seqs.last)).num_rows:
        raise SourceError(
            f"Stream {stream} has {_listed(rest.column('seq').to_numpy())}, which the archive does not have", _HINT
        )
    return Proof(equal, ended, waiting.counts)


_HINT = "It is deleted. Does anything else write into it, or remove from it?"


def _check_ended(stream: str, absent: pa.RecordBatch) -> None:
    """Raises SourceError for a message that the stream does not have, unless it has a time to live of its own."""
    stays = [_TTL not in (headers or b"").lower() for headers in absent.column("headers").to_pylist()]
    if any(stays):
        lost = absent.filter(pa.array(stays, pa.bool_()))
        raise SourceError(f"Stream {stream} lacks {_listed(lost.column('seq').to_numpy())}", _HINT)


def _check_equal(stream: str, archived: pa.RecordBatch, live: pa.RecordBatch) -> None:
    """Raises SourceError for messages of the same sequences that differ."""
    for name in ("time_ns", "headers", "data"):
        if not archived.column(name).equals(live.column(name)):
            _differ(stream, name, archived, live)
    ours, theirs = (exact_subjects(batch).dictionary_decode().cast(pa.binary()) for batch in (archived, live))
    if not ours.equals(theirs):
        _differ(stream, "subject", archived, live)


def _differ(stream: str, column: str, archived: pa.RecordBatch, live: pa.RecordBatch) -> None:
    pairs = zip(archived.column(column).to_pylist(), live.column(column).to_pylist(), strict=True)
    at = next(index for index, (one, other) in enumerate(pairs) if one != other)
    seq = archived.column("seq")[at].as_py()
    raise SourceError(f"Message {seq} of stream {stream} has another {column} than the archive", _HINT)


def _listed(seqs: Int64s) -> str:
    return f"message {listed_ranges(ranges_of(map(int, seqs)))}"


class _Rows:
    """The messages of a reader, by ascending sequences."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest = list[pa.RecordBatch]()

    def up_to(self, last: int) -> pa.RecordBatch:
        """Returns those that were not returned yet, up to a sequence."""
        while not self._rest or self._rest[-1].column("seq")[-1].as_py() <= last:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._rest.append(batch)
        whole = pa.Table.from_batches([b.cast(MESSAGES) for b in self._rest], MESSAGES).combine_chunks()
        at = int(np.searchsorted(whole.column("seq").to_numpy(), last, side="right"))
        self._rest = whole.slice(at).to_batches()
        taken = whole.slice(0, at).combine_chunks().to_batches()
        return taken[0] if taken else pa.RecordBatch.from_pylist([], MESSAGES)
