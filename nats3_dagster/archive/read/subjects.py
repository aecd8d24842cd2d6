"""Reads by subject: the next message of a filter, the last one, and the last of each subject.

The catalog says which chunks have a subject, so no object is read of those that have not. All answers are about what is
archived: sequences that were lost are passed over, see cursor.py for a read that passes over nothing.
"""

from collections.abc import Iterable, Iterator, Set
from typing import Any

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.read.candidates import Candidates
from nats3_dagster.archive.read.points import message_of
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.catalog.contents.subjects import ChunkPlace
from nats3_dagster.chunks import ChunkReader
from nats3_dagster.errors import ObjectMissing, Unknown, blaming
from nats3_dagster.model import Archive, Chunk, Coverage, Incarnation, Message, SeqRange
from nats3_dagster.model.messages import MESSAGES, exact_subjects, subject_names
from nats3_dagster.subjects import check_filter, is_one_subject, matches_shown
from nats3_dagster.workspace import Workspace

# Enough to find a message; the other columns come when it is found.
_KEYS = ["seq", "time_ns", "subject", "subject_bytes"]
# A row group of at most this size is read as a whole: it takes no longer than another request.
_SMALL_BYTES = 128 << 10


def next_of(
    workspace: Workspace, archive: Archive, subject_filter: str, after: int, incarnation: Incarnation | None = None
) -> Message | None:
    """Returns the first archived message after sequence `after` whose subject matches the filter; None if there is
    none. Sequences are those of one incarnation, by default the newest one that the archive has begun. Raises
    OperatorError for a bad filter, Unknown for an incarnation that the archive does not have, StoreError,
    CatalogError."""
    with blaming("subject"):
        check_filter(subject_filter)
    lives = [coverage.incarnation for coverage in _newest_first(workspace, archive)]
    if incarnation is not None and incarnation not in lives:
        raise Unknown(f"Archive {archive.name} has nothing of the {incarnation.stream} of {incarnation.token}")
    if not lives:
        return None
    candidates = Candidates(workspace.catalog, archive, incarnation or lives[0], subject_filter)
    place = candidates.next(after)
    while place:
        chunk = workspace.catalog.points.chunk(place.chunk_id)
        if chunk is None:
            place = candidates.next(after)  # it was replaced since
            continue
        reader = _opened(workspace, chunk)
        if reader is not None:
            groups = [at for at, group in enumerate(reader.footer.row_groups) if group.last_seq > after]
            for message in _scan(chunk, reader, groups, place, subject_filter, after=after):
                return message
            after = chunk.meta.covers.last
        place = candidates.next(after)
    return None


def last_of(
    workspace: Workspace,
    archive: Archive,
    subject_filter: str,
    at_ns: int | None = None,
    *,
    incarnation: Incarnation | None = None,
) -> Message | None:
    """The newest archived message whose subject the filter takes; None if there is none.

    `at_ns`: the last one in the order of the stream that was stored at this time or before. A clock that stepped back
    leaves older times after newer ones; stream order counts. The newest incarnation that has such a message counts.
    What deletes a key of a key-value bucket (header KV-Operation) is a message like others. `incarnation`: of this one
    alone. Raises as `next_of`."""
    return next(last_values(workspace, archive, subject_filter, at_ns, incarnation=incarnation, _limit=1), None)


def last_values(
    workspace: Workspace,
    archive: Archive,
    subject_filter: str,
    at_ns: int | None = None,
    *,
    incarnation: Incarnation | None = None,
    upto: int | None = None,
    _limit: int | None = None,
) -> Iterator[Message]:
    """The last message of each subject that the filter takes, the newest first: a snapshot of keys and values. Each row
    group is read once, and of each subject only its last chunk. `at_ns`, `incarnation` and errors: see `last_of`.
    `upto`: of the messages up to this sequence; with an incarnation."""
    with blaming("subject"):
        check_filter(subject_filter)
    seen = set[str]()
    for coverage in _newest_first(workspace, archive):
        life = coverage.incarnation
        if incarnation is not None and life != incarnation:
            continue
        last: int | None = coverage.last if upto is None else upto
        if at_ns is not None:
            last = workspace.catalog.subjects.last_seq_by(archive, life, at_ns)
        if last is None:
            continue
        is_cut = last < coverage.last
        candidates = Candidates(workspace.catalog, archive, life, subject_filter, at_ns=at_ns, is_cut=is_cut)
        for place, subjects in candidates.newest(last, seen, only_one=_limit == 1):
            chunk = workspace.catalog.points.chunk(place.chunk_id)
            reader = chunk and _opened(workspace, chunk)
            if chunk is None or reader is None:
                candidates.again(subjects)
                continue
            groups = range(len(reader.footer.row_groups))[::-1]
            for message in _scan(
                chunk,
                reader,
                groups,
                place,
                subject_filter,
                upto=upto,
                at_ns=at_ns,
                newest=True,
                seen=seen,
                wanted=subjects,
            ):
                yield message
                if _limit == 1:
                    return


def _newest_first(workspace: Workspace, archive: Archive) -> list[Coverage]:
    return list(workspace.catalog.coverage.all(archive))[::-1]


def _opened(workspace: Workspace, chunk: Chunk) -> ChunkReader | None:
    """A reader of the chunk; None if it was retired since, and its object removed."""
    try:
        return open_ranged(workspace, chunk)
    except ObjectMissing:
        if workspace.catalog.points.chunk(chunk.id) is None:
            return None
        raise


def _scan(
    chunk: Chunk,
    reader: ChunkReader,
    groups: Iterable[int],
    place: ChunkPlace,
    subject_filter: str,
    *,
    after: int = 0,
    upto: int | None = None,
    at_ns: int | None = None,
    newest: bool = False,
    seen: set[str] | None = None,
    wanted: Set[str] | None = None,
) -> Iterator[Message]:
    """The messages of the row groups of these numbers whose subject is taken: in order the first one of each subject,
    or with `newest` from the last one on. A subject in `seen` is left out, and one that was met is put there. It ends
    when all of `wanted` were met. Row groups that have none of them are not read."""
    seen = set() if seen is None else seen
    # Where most row groups have the subject, one request for all columns saves the one for the keys.
    dense = place.messages is not None and place.messages >= len(reader.footer.row_groups)
    names = wanted if wanted is not None or not is_one_subject(subject_filter) else {subject_filter}
    for index in groups:
        group = reader.footer.row_groups[index]
        if at_ns is not None and group.first_ns > at_ns:
            continue
        if upto is not None and group.first_seq > upto:
            continue
        has = None if names is None else reader.may_have(index, names - seen)
        if has is False:
            continue
        whole = has or dense or reader.span(index)[1] <= _SMALL_BYTES
        seqs = SeqRange(max(after + 1, group.first_seq), min(group.last_seq, upto or group.last_seq))
        batch = next(reader.batches(MESSAGES.names if whole else _KEYS, seqs=seqs, dictionary=True), None)
        rows = [] if batch is None else _rows(batch, subject_filter, at_ns, newest, seen)
        if rows and batch is not None:
            if not whole:
                batch = next(reader.batches(seqs=seqs, dictionary=True))
            for row in rows:
                message = message_of(chunk, batch, row)
                seen.add(message.exact_subject)
                yield message
        if wanted is not None and wanted <= seen:
            return
        dense = dense and bool(rows)


def _rows(batch: pa.RecordBatch, subject_filter: str, at_ns: int | None, newest: bool, seen: Set[str]) -> list[int]:
    """The row of the first message of each subject that the filter takes and that was not seen, ascending; with
    `newest` of the last message, descending."""
    subjects: Any = exact_subjects(batch)
    names = subject_names(subjects)
    taken = np.array([name not in seen and matches_shown(subject_filter, name) for name in names], np.bool_)
    indices = subjects.indices.to_numpy(zero_copy_only=False)
    mask = taken[indices]
    if at_ns is not None:
        mask &= batch.column("time_ns").to_numpy() <= at_ns
    rows = np.flatnonzero(mask)
    if newest:
        rows = rows[::-1]
    _, firsts = np.unique(indices[rows], return_index=True)
    return rows[np.sort(firsts)].tolist()
