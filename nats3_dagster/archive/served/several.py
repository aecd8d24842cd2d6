"""Several: messages of a served stream in order, the last one of each subject, and how many there are."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.read import subjects
from nats3_dagster.archive.read.candidates import Candidates
from nats3_dagster.archive.served import uncaptured
from nats3_dagster.archive.served.served_stream import ServedStream
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.errors import ObjectMissing
from nats3_dagster.model import Chunk, Message, SeqRange
from nats3_dagster.model.messages import MESSAGES, exact_subjects, selected
from nats3_dagster.subjects import is_one_subject, literal_prefix, matches
from nats3_dagster.workspace import Workspace

# Chunks that are asked of the catalog at a time.
_PAGE = 50


def scan(workspace: Workspace, served: ServedStream, subject: str | None, seq: int) -> Iterator[Message]:
    """The messages at this sequence or later, in order, that the filter takes, or all. Raises Nats3Error."""
    at = max(seq, served.coverage.start)
    for part in uncaptured.ranges(workspace, served, at):
        if at < part.first:
            yield from _archived(workspace, served, subject, SeqRange(at, part.first - 1))
        for batch in uncaptured.batches(workspace, served, [subject] if subject else [], part):
            for message in _messages(served, batch):
                if uncaptured.is_archived_subject(served, message.seq, message.exact_subject):
                    yield message
        at = part.last + 1


def pending(workspace: Workspace, served: ServedStream, subject: str | None, seq: int) -> int:
    """The number of messages at this sequence or later that the filter takes. Chunks whose subjects are not counted
    count with all their messages. Raises Nats3Error."""
    archive, life = served.archive, served.incarnation
    count = uncaptured.count(workspace, served, subject, max(seq, served.coverage.start))
    if seq > served.coverage.last:
        return count
    begin = workspace.catalog.subjects.begin_of(archive, life, seq)
    if begin < seq:
        # The chunk that `seq` lies in is read: it has messages before it.
        chunk = workspace.catalog.points.last_to(archive, life, seq)
        if chunk and chunk.meta.covers.first == begin:
            window = SeqRange(seq, chunk.meta.covers.last)
            columns = ["seq", "subject", "subject_bytes"]
            for batch in open_ranged(workspace, chunk).batches(columns, seqs=window, dictionary=True):
                count += selected(batch, [subject] if subject else []).num_rows
            begin = chunk.meta.covers.last + 1
    if subject is None:
        return count + workspace.catalog.points.messages_from(archive, life, begin)
    counted, uncounted = counts_from(workspace, served, subject, begin)
    return count + sum(counted.values()) + uncounted


def counts_from(workspace: Workspace, served: ServedStream, subject: str, seq: int) -> tuple[dict[str, int], int]:
    """The archived messages of each subject that the filter takes, in the chunks that begin at this sequence or later;
    and the messages of those chunks there whose subjects are not counted. Raises CatalogError."""
    prefix = subject if is_one_subject(subject) else literal_prefix(subject)
    counts, uncounted = workspace.catalog.subjects.counts_from(served.archive, served.incarnation, prefix, seq)
    return {name: count for name, count in counts.items() if matches(subject, name)}, uncounted


def last_values(
    workspace: Workspace, served: ServedStream, filters: Sequence[str], first: int, last: int, most: int
) -> list[Message] | None:
    """The last message of each subject that a filter takes, of those up to sequence `last`, ascending; those before
    `first` are left out. None if there are more than `most`. Raises Nats3Error."""
    newest: dict[str, Message] = {}
    for subject in filters:
        found = subjects.last_values(
            workspace, served.archive, subject, incarnation=served.incarnation, upto=min(last, served.coverage.last)
        )
        for message in found:
            newest.setdefault(message.exact_subject, message)
            if len(newest) > most:
                return None
    for part in uncaptured.ranges(workspace, served, served.coverage.start, last):
        for batch in uncaptured.batches(workspace, served, filters, part):
            for message in _messages(served, batch, _last_rows(batch)):
                subject = message.exact_subject
                if not uncaptured.is_archived_subject(served, message.seq, subject):
                    continue
                if subject not in newest or newest[subject].seq < message.seq:
                    newest[subject] = message
            if len(newest) > most:
                return None
    return sorted((m for m in newest.values() if m.seq >= first), key=lambda message: message.seq)


def _archived(workspace: Workspace, served: ServedStream, subject: str | None, seqs: SeqRange) -> Iterator[Message]:
    """The archived messages of these sequences."""
    at = seqs.first
    while at <= seqs.last:
        for chunk in _chunks(workspace, served, subject, SeqRange(at, seqs.last)):
            window = SeqRange(max(at, chunk.meta.covers.first), min(seqs.last, chunk.meta.covers.last))
            try:
                for batch in open_ranged(workspace, chunk).batches(seqs=window, dictionary=True):
                    yield from _messages(served, selected(batch, [subject] if subject else []))
            except ObjectMissing:
                if workspace.catalog.points.chunk(chunk.id) is not None:
                    raise
                break  # it was replaced since
            at = window.last + 1
        else:
            return


def _chunks(workspace: Workspace, served: ServedStream, subject: str | None, seqs: SeqRange) -> Iterator[Chunk]:
    """The live chunks that have, or may have, a message of these sequences that the filter takes."""
    catalog, archive, life, after = workspace.catalog, served.archive, served.incarnation, seqs.first - 1
    if subject is None:
        while True:
            page = catalog.chunks.select(
                archive, seqs=SeqRange(after + 1, seqs.last), incarnation=life, with_minutes=False, limit=_PAGE
            )
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].meta.covers.last
    candidates = Candidates(catalog, archive, life, subject)
    while (place := candidates.next(after)) and place.first_seq <= seqs.last:
        chunk = catalog.points.chunk(place.chunk_id)
        if chunk is not None:
            yield chunk
            after = chunk.meta.covers.last


def _messages(served: ServedStream, batch: pa.RecordBatch, rows: Sequence[int] | None = None) -> Iterator[Message]:
    batch = batch.select(MESSAGES.names) if rows is None else batch.select(MESSAGES.names).take(pa.array(rows))
    for row in batch.to_pylist():
        yield Message(incarnation=served.incarnation, **row)


def _last_rows(batch: pa.RecordBatch) -> list[int]:
    """The row of the last message of each subject."""
    indices = exact_subjects(batch).indices.to_numpy(zero_copy_only=False)[::-1]
    _, firsts = np.unique(indices, return_index=True)
    return sorted((len(indices) - 1 - firsts).tolist())
