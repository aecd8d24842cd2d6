"""Chunks of an archive a page at a time, however many there are."""

from collections.abc import Sequence
from dataclasses import dataclass

from nats3_dagster.archive.status import ChunkReport
from nats3_dagster.errors import Unknown, blaming
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, Chunk, Incarnation
from nats3_dagster.steps import Next
from nats3_dagster.subjects import check_filter, matches_shown
from nats3_dagster.workspace import Workspace

# Chunks that a page reads for a subject at most: then it ends, with fewer chunks than asked for.
MOST_READ = 5_000

# The last sequence that a page read, and when its stream was created in nanoseconds.
Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Page:
    """Chunks in the order of the stream."""

    chunks: tuple[Chunk, ...]
    # Where the next page goes on; None after the last one.
    next: Position | None


def page(
    workspace: Workspace,
    archive: Archive,
    *,
    hours: Sequence[str] = (),
    times: tuple[int | None, int | None] = (None, None),
    subject: str | None = None,
    after: Position | None = None,
    limit: int = 100,
) -> Page:
    """Returns the next `limit` chunks after `after` of these hours, with a message in `[from, to)` and one that matches
    the filter `subject`; a chunk with too many subjects to count them may have one. Raises OperatorError for a
    malformed hour or filter."""
    with blaming("hour"):
        for hour in hours:
            hour_start(hour)
    with blaming("subject"):
        if subject is not None:
            check_filter(subject)
    chunks: list[Chunk] = []
    read = 0
    while read < MOST_READ:
        rows = workspace.catalog.chunks.select(
            archive,
            hours=list(hours) or None,
            time_range=None if times == (None, None) else times,
            with_subjects=subject is not None,
            with_minutes=False,
            limit=limit + 1,
            after=None if after is None else (Incarnation(archive.spec.stream, after[1]), after[0]),
        )
        for chunk in rows[:limit]:
            if subject is None or _may_have(chunk, subject):
                chunks.append(chunk)
            after = (chunk.meta.covers.last, chunk.meta.incarnation.created_ns)
            if len(chunks) == limit:
                break
        else:
            if len(rows) <= limit:
                return Page(tuple(chunks), None)
            read += limit
            continue
        return Page(tuple(chunks), after if chunks[-1].id != rows[-1].id else None)
    return Page(tuple(chunks), after)


def chunk(workspace: Workspace, chunk_id: int) -> ChunkReport:
    """A chunk of any archive by its id. Raises Unknown when there is none."""
    stored = workspace.catalog.chunks.find(chunk_id)
    if stored is None:
        raise Unknown(f"There is no chunk {chunk_id}", Next.LIST_ARCHIVES())
    return ChunkReport(stored, workspace.catalog.replay_chunks.of_chunk(stored.id))


def _may_have(chunk: Chunk, filter_: str) -> bool:
    subjects = chunk.meta.subjects
    return subjects is None or any(matches_shown(filter_, subject) for subject in subjects)
