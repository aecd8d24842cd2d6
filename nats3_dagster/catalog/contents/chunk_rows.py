"""Rows of chunks: what a commit adds to the tables, with the counts by subject and the bloom filters."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.contents.subjects import to_stored
from nats3_dagster.catalog.rows import ObjectRow
from nats3_dagster.catalog.session.multirange import to_multirange
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError
from nats3_dagster.model import Archive, ChunkMeta, Incarnation

# A parameter may have 1 GB, and one chunk's deleted ranges several MB.
STATEMENT_CHARS = 64 << 20


def add_chunks(
    sql: Statements,
    archive: Archive,
    chunks: Sequence[ChunkMeta],
    ids: Mapping[Incarnation, int],
    merged: Sequence[int] | None,
) -> None:
    """Add the chunks. `ids`: of the archive's incarnations. `merged`: the chunks that a compaction made these of.
    Raises CatalogError if the archive has no such incarnation; psycopg's IntegrityError if a rule is broken."""
    of_merged = None if merged is None else [*merged]
    subjects = {(c.bucket, c.key): _storable(c.subjects) for c in chunks}
    rows = [
        {
            "incarnation_id": id_of(ids, c.incarnation),
            "hour": c.hour,
            "first_seq": c.covers.first,
            "last_seq": c.covers.last,
            "messages": c.messages,
            "deleted": None if c.deleted is None else to_multirange(c.deleted),
            "first_ns": c.first_ns,
            "last_ns": c.last_ns,
            "payload_bytes": c.payload_bytes,
            "largest_bytes": c.largest_bytes,
            "stored_bytes": c.stored_bytes,
            "sha256": c.sha256,
            "bucket": c.bucket,
            "key": c.key,
            "subjects": len(subjects[c.bucket, c.key]) or None,
            "minutes": c.minutes,
            "absent_reason": c.absent_reason,
        }
        for c in chunks
    ]
    added = [
        row
        for batch in _batches(rows)
        for row in sql.rows(
            ObjectRow, "add_chunks", archive=archive.id, run_id=current_run(), chunks=batch, merged=of_merged
        )
    ]
    of = {(c.bucket, c.key): c for c in chunks}
    counts = (
        (row.id, archive.id, ids[meta.incarnation], meta.covers.first, to_stored(subject), messages)
        for row in added
        for meta in (of[row.bucket, row.key],)
        for subject, messages in subjects[row.bucket, row.key].items()
    )
    sql.copy("copy_subjects", ["int8", "int8", "int8", "int8", "text", "int8"], counts)
    blooms = ((row.id, bloom) for row in added if (bloom := of[row.bucket, row.key].bloom) is not None)
    sql.copy("copy_blooms", ["int8", "bytea"], blooms)


def id_of(ids: Mapping[Incarnation, int], incarnation: Incarnation) -> int:
    """The id of an incarnation of the archive. Raises CatalogError if it has none."""
    incarnation_id = ids.get(incarnation)
    if incarnation_id is None:
        raise CatalogError(
            f"The archive does not archive the {incarnation.stream} of {incarnation.token}", "Observe or adopt it first"
        )
    return incarnation_id


def _batches(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as JSON arrays of about STATEMENT_CHARS. Few, because the triggers sum once for each."""
    batch: list[str] = []
    size = 0
    for row in rows:
        text = json.dumps(row)
        if batch and size + len(text) > STATEMENT_CHARS:
            yield f"[{','.join(batch)}]"
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    yield f"[{','.join(batch)}]"


def _storable(subjects: Mapping[str, int] | None) -> Mapping[str, int]:
    """The counts by subject; empty where there are none, or a subject has a NUL, which Postgres' text cannot hold."""
    if subjects is None or any("\0" in subject for subject in subjects):
        return {}
    return subjects
