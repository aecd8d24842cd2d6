"""Tables of archives as JSON documents. Keys are an interface."""

from typing import TYPE_CHECKING, Any

from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.views.values import stamp_of

if TYPE_CHECKING:
    from nats3_dagster.tables.compare import Comparison
    from nats3_dagster.tables.observe import Observation
    from nats3_dagster.tables.sync import Synced

# Faults that a document lists; their number is beside them.
MOST_FAULTS = 100


def table(known: ArchiveTable) -> dict[str, Any]:
    return {
        "archive": known.archive, "archive_deleted": known.archive_deleted, "catalog": known.catalog,
        "table": known.identifier, "chunks": known.chunks, "lacking": known.lacking, "surplus": known.surplus,
        "revision": known.revision, "archive_revision": known.archive_revision, "snapshot_id": known.snapshot_id,
        "created_at": stamp_of(known.created_at), "synced_at": stamp_of(known.synced_at), "error": known.error,
        "failed_at": stamp_of(known.failed_at), "changed": known.changed, "seen_at": stamp_of(known.seen_at),
    }  # fmt: skip


def synced(known: ArchiveTable, done: "Synced") -> dict[str, Any]:
    return {
        "archive": known.archive, "catalog": known.catalog, "table": known.identifier, "added": done.added,
        "removed": done.removed, "commits": done.commits, "chunks": done.chunks, "revision": done.revision,
        "snapshot_id": done.snapshot_id, "undone": done.undone, "was_unguarded": done.was_unguarded,
        "rewritten": len(done.rewritten), "rewritten_files": list(done.rewritten[:MOST_FAULTS]),
    }  # fmt: skip


def verified(known: ArchiveTable, seen: "Observation", found: "Comparison") -> dict[str, Any]:
    return {
        "archive": known.archive, "catalog": known.catalog, "table": known.identifier, "files": found.files,
        "chunks": found.state.chunks, "rows": found.rows, "messages": found.messages,
        "revision": found.state.revision, "differences": len(found.faults), "changed": seen.changed,
        "was_unguarded": seen.was_unguarded,
        "faults": [{"path": fault.path, "what": fault.what} for fault in found.faults[:MOST_FAULTS]],
    }  # fmt: skip
