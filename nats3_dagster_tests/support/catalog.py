"""Made-up streams, chunks and gaps for tests of the catalog."""

import hashlib
from datetime import UTC, datetime
from uuid import UUID

from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, Incarnation, SeqRange, StreamState

HOUR = "2026-11-21-07:00"
HOUR_NS = 1_795_244_400_000_000_000
LOGS = Incarnation("LOGS", HOUR_NS - 123_456_789)


def spec(name="logs", **fields):
    return ArchiveSpec(name, **{"stream": "LOGS", "bucket": "archive", **fields})


def archive(**fields):
    """An archive that no catalog has."""
    now = datetime(2026, 11, 21, 7, tzinfo=UTC)
    return Archive(1, spec(**fields), False, now, UUID(int=1), fields.get("name", "logs"), now)


def state(incarnation=LOGS, first=1, last=100, **config):
    config = {"name": incarnation.stream, **config}
    return StreamState(incarnation, first, last, HOUR_NS, HOUR_NS + last, last - first + 1, 1000, config)


def chunk(first, last, messages=None, *, archive="logs", incarnation=LOGS, **fields):
    """A chunk of the sequences first to last, with a message for each unless said otherwise."""
    messages = last - first + 1 if messages is None else messages
    sha256 = hashlib.sha256(f"{first}-{last}-{messages}".encode()).hexdigest()
    key = f"archive={archive}/{incarnation.token}-{first:020}-{last:020}-{sha256[:12]}.parquet"
    made = {
        "hour": HOUR,
        "first_ns": HOUR_NS + first,
        "last_ns": HOUR_NS + last,
        "payload_bytes": messages * 100,
        "largest_bytes": 120,
        "stored_bytes": messages * 30 + 1,
        "sha256": sha256,
        "key": key,
        "bucket": "archive",
    }
    if messages <= last - first:
        fields.setdefault("absent_reason", "unselected" if fields.get("deleted") is None else "deleted")
    return ChunkMeta(
        archive=archive, incarnation=incarnation, covers=SeqRange(first, last), messages=messages, **{**made, **fields}
    )


def ranges(*pairs):
    return tuple(SeqRange(*pair) for pair in pairs)


def ids(chunks):
    """Of chunks, as a replay is begun with them."""
    return [chunk.id for chunk in chunks]


def rows_read(connection):
    """How many rows of the catalog Postgres has read so far, in tables and in indexes."""
    (rows,) = connection.execute(
        """
        select (select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))
                from pg_stat_user_tables where schemaname = 'nats3')
             + (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'nats3')"""
    ).fetchone()
    return int(rows)
