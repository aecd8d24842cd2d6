"""Compaction: chunks of an hour give way to one that has the same messages.

Invariant: what is retired, what comes in its place, and what says that they are the same is one transaction. So readers
see the one or the other; exports of the hour stay made of it, and replays find what they have to publish.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.contents.chunks import Chunks
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.errors import Conflict
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, ChunkMeta


@dataclass(slots=True, kw_only=True)
class HourRow:
    """An hour as a compaction finds it."""

    # That of the archive with which the hour last changed; 0 without messages, as the number of chunks.
    revision: int
    chunks: int
    # Whether it is as it was sealed.
    is_sealed: bool
    # Whether chunks of it were deleted after a replay: exports count those that were.
    has_retired: bool


class Compaction:
    """Find hours with small chunks, put chunks in the place of others."""

    def __init__(self, session: Session, chunks: Chunks) -> None:
        self._session = session
        self._chunks = chunks

    def due(
        self,
        archive: Archive,
        before: datetime,
        *,
        first: str | None = None,
        last: str | None = None,
        limit: int = 1_000_000,
    ) -> tuple[str, ...]:
        """The sealed hours that ended by `before` and may have chunks to merge, ascending. It costs what these hours
        are, however many the archive has."""
        with self._session.reading() as sql:
            hours = sql.values(
                str,
                "hours_to_compact",
                archive=archive.id,
                before=before,
                first_hour=first,
                last_hour=last,
                limit_to=limit,
            )
        return tuple(hours)

    def due_archives(self) -> tuple[str, ...]:
        """The names of the archives whose policy has an hour due now."""
        with self._session.reading() as sql:
            return tuple(sql.values(str, "archives_to_compact"))

    def hour(self, archive: Archive, hour: str) -> HourRow:
        """The hour as it is now."""
        with self._session.reading() as sql:
            (row,) = sql.rows(HourRow, "hour_to_compact", archive=archive.id, hour=hour)
        return row

    def swap(
        self, archive: Archive, hour: str, merged: Sequence[tuple[Sequence[int], ChunkMeta]], *, begun: datetime
    ) -> None:
        """Put each chunk in the place of live ones of the hour, whose ids it comes with. `begun`: see `Chunks.commit`.
        Raises Conflict if one of them is no longer live, the hour is not as it was sealed, or the archive was
        deleted."""
        old = [chunk_id for ids, _ in merged for chunk_id in ids]
        of = [meta for ids, meta in merged for _ in ids]
        with self._session.transaction() as sql:
            # Before the hour is looked at: from here on nothing else changes it.
            lock_archive(sql, archive)
            (before,) = sql.rows(HourRow, "hour_to_compact", archive=archive.id, hour=hour)
            if before.has_retired or not before.is_sealed:
                raise Conflict(
                    f"Hour {hour} of archive {archive.name} changed while it was compacted",
                    "Nothing was lost; compact it once it is sealed again",
                )
            metas = [meta for _, meta in merged]
            self._chunks.replace(archive, old, metas, (), begun=begun, merged=old, what="compacted")
            sql.run("add_merged", chunks=old, buckets=[m.bucket for m in of], keys=[m.key for m in of])
            sql.run("carry_exports", archive=archive.id, hour=hour, revision=before.revision, chunks=before.chunks)
            fault_point("compact.in_swap")

    def mark(self, archive: Archive, hour: str, revision: int) -> None:
        """Record that the hour, as of this revision of it, has nothing to merge, if it is sealed."""
        with self._session.transaction() as sql:
            sql.run("mark_compacted", archive=archive.id, hour=hour, revision=revision)
