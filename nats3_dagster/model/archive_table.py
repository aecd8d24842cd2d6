"""An archive's Iceberg table: which one it is, and what was last written to it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTable:
    """The table of an archive, as our catalog knows it."""

    archive_id: int
    archive: str  # the archive's name
    job_id: UUID  # the archive's identity over catalogs: the table's properties and snapshots have it
    archive_deleted: bool  # then the table shall have no files
    archive_revision: int  # of the archive now
    catalog: str  # an Iceberg catalog: a name in pyiceberg's configuration, or an address
    identifier: str  # namespace and name of the table, joined by dots
    created_at: datetime
    # What the table was last made equal to; all None before that.
    revision: int | None  # of the archive then
    chunks: int | None  # live chunks then
    last_chunk: int | None  # the highest id among them; 0 without any
    snapshot_id: int | None  # None while the table has no snapshot
    location: str | None  # where its metadata is, a URL; None where that has a login
    begun: list[int]  # ids of the newest snapshots that this catalog began to commit, the newest last
    synced_at: datetime | None
    # Why the newest try failed, and when; None where it did not.
    error: str | None
    failed_at: datetime | None
    # What another program did to the table since, as of seen_at; None where it did nothing.
    changed: str | None
    seen_at: datetime | None  # when the Iceberg catalog was last asked
    # For a table that was written with a newer copy of the catalog, as of seen_at: live chunks that it does not have,
    # and files that it has besides; None for any other table.
    seen_lacking: int | None
    seen_surplus: int | None
    lacking: int  # live chunks that the table has not
    surplus: int  # chunks that the table has and that are no longer live

    @property
    def is_behind(self) -> bool:
        """True if the archive or the table has changed since, or the newest try failed, or the catalog is an older copy
        than the one that the table was written with."""
        is_changed = self.changed is not None or self.seen_lacking is not None
        return self.revision != self.archive_revision or self.error is not None or is_changed


@dataclass(frozen=True, slots=True)
class TableState:
    """The intended state of an archive's table at one moment."""

    revision: int  # of the archive
    chunks: int  # all live ones
    ids: tuple[int, ...]  # live chunks, those above the id that was asked for; by hour
    hours: tuple[str, ...]  # the hour of each of these
    retired: tuple[tuple[str, int], ...]  # hour and id of those up to it that were live at the revision asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A chunk as a table lists it. Bounds are exact."""

    chunk_id: int
    bucket: str
    key: str
    hour: str  # YYYY-MM-DD-HH:00, UTC
    incarnation: str  # the token of the stream's incarnation
    messages: int
    stored_bytes: int
    first_ns: int  # smallest store time
    last_ns: int  # largest store time
    seqs: tuple[int, int] | None  # first and last message; None where only the object's footer has them
