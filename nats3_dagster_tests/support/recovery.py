"""Archives of made-up messages with real objects, and the comparison of two catalogs table by table."""

from collections.abc import Iterable
from typing import Any

import psycopg

from nats3_dagster.archive.captures.rewrite import Origin, write_chunks
from nats3_dagster.archive.stored import folder
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, Incarnation, Reason, SeqRange, StreamState
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.chunks import batch_of

HOURS = ("2026-11-21-07:00", "2026-11-21-08:00", "2026-11-21-09:00")
LIFE = Incarnation("LOGS", hour_start(HOURS[0]) - 123_456_789)


def new_archive(workspace: Workspace, bucket: str, name: str = "logs", **fields: Any) -> Archive:
    """An archive of the stream LOGS, which NATS need not have, in the folder that it owns."""
    spec = ArchiveSpec(name, "LOGS", bucket, **fields)
    config = {"name": "LOGS", "subjects": ["log.>"], "max_age": 10**15}
    state = StreamState(LIFE, 1, 100, hour_start(HOURS[0]), hour_start(HOURS[2]), 100, 1000, config)
    archive = workspace.catalog.archives.create(spec, state)
    folder.claim(workspace, archive)
    return archive


def put(
    workspace: Workspace,
    archive: Archive,
    hour: str,
    covers: tuple[int, int],
    *,
    absent: Iterable[int] = (),
    reason: Reason = "deleted",
    subjects: int = 3,
    text: bytes = b"message",
    incarnation: Incarnation = LIFE,
) -> ChunkMeta:
    """The object of a chunk, which no catalog has yet."""
    first, last = covers
    missing = set(absent)
    rows = [
        (seq, hour_start(hour) + seq * 1_000_000, f"log.{seq % subjects}", None, b"%s %d" % (text, seq))
        for seq in range(first, last + 1)
        if seq not in missing
    ]
    config = {"name": "LOGS", "subjects": ["log.>"], "max_age": 10**15}
    origin = Origin(archive.spec, incarnation, hour, config, archive.spec.subjects)
    bucket = workspace.bucket(archive.spec.bucket)
    (meta,) = write_chunks(bucket, origin, SeqRange(first, last), reason, [batch_of(rows)])
    return meta


def tables(postgres_url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, with what ids stand for in their place: `archive`, `incarnation` and `chunk`."""
    rows: dict[str, list[dict[str, Any]]] = {}
    with psycopg.connect(postgres_url) as connection:
        names = connection.execute("select tablename from pg_tables where schemaname = 'nats3'").fetchall()
        for (name,) in names:
            query = f"select to_jsonb(t) from nats3.{name} t"
            rows[name] = [row for (row,) in connection.execute(query)]  # type: ignore[arg-type]
    archives = {row["id"]: row["name"] for row in rows["archive"]}
    incarnations = {row["id"]: (row["stream"], row["created_ns"]) for row in rows["incarnation"]}
    chunks = {row["id"]: row["key"] for row in rows["chunk"]}
    for row in (row for table in rows.values() for row in table):
        for column, meant in (("archive_id", archives), ("incarnation_id", incarnations), ("chunk_id", chunks)):
            if column in row:
                row[column] = meant[row[column]]
    return rows


def without(rows: Iterable[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    """The rows without these columns, in an order that their values make."""
    kept = [{name: value for name, value in row.items() if name not in columns} for row in rows]
    return sorted(kept, key=lambda row: str(sorted(row.items())))
