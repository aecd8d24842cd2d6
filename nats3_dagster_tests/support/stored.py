"""An archive of messages that a test makes up: real chunks in a store and in the catalog, without a stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, Incarnation, Reason, SeqRange, StreamState
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.workspace import Workspace

LIFE = Incarnation("S", 1_700_000_000_000_000_000)


@dataclass(frozen=True)
class Made:
    """A message of the archive."""

    seq: int
    subject: str
    data: bytes = b""
    headers: bytes | None = None
    # Nanoseconds behind the beginning of the hour; None: the sequence as milliseconds.
    after_ns: int | None = None


def hour_key(hour: int) -> str:
    return f"2026-11-21-{hour:02d}:00"


def made(
    workspace: Workspace,
    bucket: str,
    name: str = "a",
    last: int = 1000,
    life: Incarnation = LIFE,
    last_ns: int = LIFE.created_ns,
) -> Archive:
    """An empty archive of a stream of which `last` was the last sequence seen, stored at `last_ns`."""
    state = StreamState(life, 1, last, life.created_ns, last_ns, last, 0, {})
    spec = ArchiveSpec(name=name, stream="S", bucket=bucket, prefix=f"of/{name}")
    return workspace.catalog.archives.create(spec, state)


def store(
    workspace: Workspace,
    archive: Archive,
    hour: int,
    messages: Sequence[Made],
    covers: tuple[int, int] | None = None,
    *,
    reason: Reason = "deleted",
    life: Incarnation = LIFE,
    level: int = 3,
    config: Mapping[str, Any] | None = None,
    filters: Sequence[str] = (),
) -> ChunkMeta:
    """Put a chunk of these messages into the archive. `reason`: of sequences that it covers and has no message of;
    `config` of the stream, and `filters` of the archive, when they were captured."""
    spec, start = archive.spec, hour_start(hour_key(hour))
    writer = ChunkWriter(
        archive.name, life, hour_key(hour), spec.bucket, spec.prefix, level, config or {"name": "S"}, filters
    )
    columns = [
        [m.seq for m in messages],
        [start + (m.seq * 1_000_000 if m.after_ns is None else m.after_ns) for m in messages],
        [m.subject for m in messages],
        [None for _ in messages],
        [m.headers for m in messages],
        [m.data for m in messages],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
    writer.write(pa.record_batch(arrays, schema=MESSAGES))
    data, meta = writer.finish(SeqRange(*covers or (messages[0].seq, messages[-1].seq)), reason)
    workspace.bucket(spec.bucket).put_new(meta.key, data, meta.sha256)
    workspace.catalog.chunks.commit(archive, [meta])
    return meta
