"""Iceberg tables of archives."""

from typing import TYPE_CHECKING, Self

from pydantic import ConfigDict, Field

from nats3_dagster.documents.base import Document, stamp, stamp_of
from nats3_dagster.model.archive_table import ArchiveTable

if TYPE_CHECKING:
    from nats3_dagster.tables.compare import Comparison
    from nats3_dagster.tables.observe import Observation
    from nats3_dagster.tables.sync import Synced

# Faults that a document lists; their number is beside them.
MOST_FAULTS = 100
_EXAMPLE = {
    "archive": "logs",
    "archive_deleted": False,
    "catalog": "nats3",
    "table": "nats3.logs",
    "chunks": 120,
    "lacking": 1,
    "surplus": 0,
    "revision": 240,
    "archive_revision": 241,
    "snapshot_id": 7930418413321939569,
    "location": "s3://archive/iceberg/logs",
    "created_at": "2026-11-20T09:00:00.000Z",
    "synced_at": "2026-11-21T07:59:58.120Z",
    "error": None,
    "failed_at": None,
    "changed": None,
    "seen_at": "2026-11-21T07:59:58.120Z",
}


class Table(Document):
    """The Iceberg table of an archive, and its lag."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    archive: str
    archive_deleted: bool = Field(description="Then the table shall have no files.")
    catalog: str = Field(description="An Iceberg catalog: a name in pyiceberg's configuration, or an address.")
    table: str = Field(description="Namespace and name.")
    chunks: int | None = Field(description="Chunks that it was last made to list; null before that.")
    lacking: int = Field(description="Chunks of the archive that it does not list.")
    surplus: int = Field(description="Chunks that it lists and that the archive does not have any more.")
    revision: int | None = Field(description="The archive's revision that it was last made equal to.")
    archive_revision: int = Field(description="The archive's revision now.")
    snapshot_id: int | None = Field(description="Its newest snapshot, of 64 bits; null while there is none.")
    location: str | None = Field(
        description="Where its metadata is; null before the first sync, and for a URL with a login."
    )
    created_at: str
    synced_at: str | None = Field(description="When it was last made equal to the archive.")
    error: str | None = Field(description="Why the newest try failed; null where it did not.")
    failed_at: str | None
    changed: str | None = Field(
        description="What another program did to the table, as of seen_at; null where it did nothing."
    )
    seen_at: str | None = Field(description="When the Iceberg catalog was last asked for the table's snapshot.")

    @classmethod
    def of(cls, known: ArchiveTable) -> Self:
        return cls.by_name(
            known,
            table=known.identifier,
            created_at=stamp(known.created_at),
            synced_at=stamp_of(known.synced_at),
            failed_at=stamp_of(known.failed_at),
            seen_at=stamp_of(known.seen_at),
        )


class SyncedTable(Document):
    """The result of a sync for a table."""

    archive: str
    catalog: str
    table: str
    added: int
    removed: int
    commits: int
    chunks: int
    revision: int
    snapshot_id: int | None
    undone: str | None
    was_unguarded: bool
    rewritten: int
    rewritten_files: list[str]

    @classmethod
    def of(cls, known: ArchiveTable, done: "Synced") -> Self:
        return cls.by_name(
            done,
            archive=known.archive,
            catalog=known.catalog,
            table=known.identifier,
            rewritten=len(done.rewritten),
            rewritten_files=list(done.rewritten[:MOST_FAULTS]),
        )


class TableFault(Document):
    """A file of a table that is not as the archive says."""

    path: str
    what: str


class VerifiedTable(Document):
    """A table compared with its archive."""

    archive: str
    catalog: str
    table: str
    files: int
    chunks: int
    rows: int
    messages: int
    revision: int
    differences: int
    changed: str | None
    was_unguarded: bool
    faults: list[TableFault]

    @classmethod
    def of(cls, known: ArchiveTable, seen: "Observation", found: "Comparison") -> Self:
        return cls(
            archive=known.archive,
            catalog=known.catalog,
            table=known.identifier,
            files=found.files,
            chunks=found.state.chunks,
            rows=found.rows,
            messages=found.messages,
            revision=found.state.revision,
            differences=len(found.faults),
            changed=seen.changed,
            was_unguarded=seen.was_unguarded,
            faults=[TableFault(path=fault.path, what=fault.what) for fault in found.faults[:MOST_FAULTS]],
        )


class DroppedTable(Document):
    """A table that its archive does not have any more. The chunks stay."""

    archive: str
    catalog: str
    table: str
    dropped: bool = Field(description="False if the Iceberg catalog was not asked, or did not have the table.")

    @classmethod
    def of(cls, known: ArchiveTable, *, dropped: bool) -> Self:
        return cls(archive=known.archive, catalog=known.catalog, table=known.identifier, dropped=dropped)
