"""Description: a served stream as STREAM.INFO tells it, with the truth about what is missing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from nats3_dagster.archive.served import uncaptured
from nats3_dagster.archive.served.served_stream import ServedStream
from nats3_dagster.model import LOSSES, SeqRange
from nats3_dagster.workspace import Workspace

# Chunks that are asked of the catalog at a time.
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Description:
    """The state of a served stream. What is not captured yet counts with all its sequences."""

    # The stream's, as it was last seen.
    config: Mapping[str, Any]
    created_ns: int
    messages: int
    # Subjects, headers and payloads of what is archived.
    bytes: int
    first_seq: int
    last_seq: int
    # Store times in nanoseconds; 0 where there is no message.
    first_ns: int
    last_ns: int
    # Sequences that were lost before they were archived.
    lost: int
    # The last sequence that the archive accounts for.
    archived_through: int

    @property
    def deleted(self) -> int:
        """Sequences without a message."""
        return max(0, self.last_seq - self.first_seq + 1 - self.messages)


def describe(workspace: Workspace, served: ServedStream) -> Description:
    """Raises CatalogError, SourceError."""
    coverage = served.coverage
    now = uncaptured.state(workspace, served)
    state = now or workspace.catalog.coverage.last_state(served.incarnation)
    last, waiting, gone = coverage.last, 0, 0
    if now:
        last = max(last, now.last_seq)
        parts = uncaptured.ranges(workspace, served, coverage.start, now.last_seq)
        # What the stream removed before a capture will be recorded by the next one.
        gone = sum(max(0, min(part.last, now.first_seq - 1) - part.first + 1) for part in parts)
        waiting = sum(part.size for part in parts) - gone
    return Description(
        config=state.config if state else {},
        created_ns=served.incarnation.server_created_ns,
        messages=coverage.messages + waiting,
        bytes=coverage.payload_bytes,
        first_seq=coverage.start,
        last_seq=last,
        first_ns=coverage.first_ns or (now.first_ns if now else 0),
        last_ns=max(coverage.last_ns or 0, now.last_ns if now else 0),
        lost=_lost(workspace, served) + gone,
        archived_through=coverage.frontier,
    )


def deleted_sequences(workspace: Workspace, served: ServedStream, most: int) -> list[int]:
    """The first sequences without a message, ascending, `most` at most: those that the archive accounts for. Raises
    CatalogError."""
    seqs = (seq for part in _deleted(workspace, served) for seq in range(part.first, part.last + 1))
    return list(islice(seqs, most))


def _lost(workspace: Workspace, served: ServedStream) -> int:
    gaps = workspace.catalog.gaps.sums(served.archive, incarnation=served.incarnation)
    return sum(count for reason, count in gaps.items() if reason in LOSSES) + sum(served.coverage.lost.values())


def _deleted(workspace: Workspace, served: ServedStream) -> Iterator[SeqRange]:
    """The ranges without a message that the archive accounts for, ascending."""
    after, last = served.coverage.start - 1, served.coverage.last
    while True:
        page = workspace.catalog.chunks.select(
            served.archive,
            seqs=SeqRange(after + 1, last),
            incarnation=served.incarnation,
            with_deleted=True,
            with_minutes=False,
            limit=_PAGE,
        )
        for chunk in page:
            covers = chunk.meta.covers
            if covers.first > after + 1:
                yield SeqRange(after + 1, covers.first - 1)
            # Under a filter the catalog does not know which ones.
            yield from chunk.meta.deleted or ()
            after = covers.last
        if len(page) < _PAGE:
            if after < last:
                yield SeqRange(after + 1, last)
            return
