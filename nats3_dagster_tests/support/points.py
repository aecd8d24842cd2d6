"""An archive with real objects of made-up messages, without a stream: what reads of single messages are tried on."""

import random
from collections.abc import Iterable
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive, Chunk, Incarnation, Message, Reason, SeqRange
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import LOGS, spec, state
from nats3_dagster_tests.support.servers import s3_proxy

# The first message's store time; each later one comes a second after the one before.
T0 = 1_795_244_400_000_000_000
SECOND = 10**9


class Case(NamedTuple):
    """An archive, and where it is read."""

    workspace: Workspace
    archive: Archive
    gets: "Gets"


class Gets:
    """The GET requests that went through a proxy: paths, and bytes of each by its Range header."""

    def __init__(self, proxy: s3_proxy.S3Proxy) -> None:
        self._lock = Lock()
        self.requests: list[str] = []
        proxy.break_at(self._note, ("GET", "HEAD"))

    def _note(self, handler: s3_proxy.Handler) -> None:
        with self._lock:
            self.requests.append(f"{handler.command} {handler.headers.get('Range') or 'whole'}")
        handler.reply(*handler.forward())

    def count(self) -> int:
        """How many there were since the last call."""
        with self._lock:
            count = len(self.requests)
            self.requests.clear()
        return count


def message(seq: int, subject: bytes = b"logs.a", data: bytes | None = None, **more: Any) -> dict[str, Any]:
    """A message as a row of the wire: see `add_chunk`."""
    data = b"%d" % seq if data is None else data
    return {"seq": seq, "time_ns": T0 + seq * SECOND, "subject": subject, "headers": None, "data": data, **more}


def create(workspace: Workspace, bucket: str, *, name: str = "logs", incarnation: Incarnation = LOGS) -> Archive:
    """An archive of a stream that nobody has, from sequence 1 on."""
    return workspace.catalog.archives.create(spec(name, bucket=bucket), state(incarnation))


def add_chunk(
    workspace: Workspace,
    archive: Archive,
    messages: Iterable[dict[str, Any]],
    *,
    covers: tuple[int, int] | None = None,
    reason: Reason = "deleted",
    incarnation: Incarnation = LOGS,
    group_rows: int | None = None,
    config: dict[str, Any] | None = None,
) -> Chunk:
    """Write a chunk of these messages, and commit it. `group_rows`: rows of each row group, as far as its bytes go."""
    rows = list(messages)
    hour = hour_of(rows[0]["time_ns"])
    bucket = archive.spec.bucket
    writer = ChunkWriter(archive.name, incarnation, hour, bucket, archive.spec.prefix, 3, config or {"name": "LOGS"})
    step = group_rows or len(rows)
    for at in range(0, len(rows), step):
        part = rows[at : at + step]
        texts, raw = subject_columns(pa.array([r["subject"] for r in part], pa.binary()))
        exact = {"subject": texts, "subject_bytes": raw}
        arrays = [exact[f.name] if f.name in exact else pa.array([r[f.name] for r in part], f.type) for f in MESSAGES]
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=MESSAGES))
        if at + step < len(rows):
            writer._write_row_group()
    data, meta = writer.finish(SeqRange(*(covers or (rows[0]["seq"], rows[-1]["seq"]))), reason)
    workspace.bucket(bucket).put_new(meta.key, data, meta.sha256)
    workspace.catalog.chunks.commit(archive, [meta])
    chunk = workspace.catalog.chunks.by_key(meta.bucket, meta.key)
    assert chunk is not None
    return chunk


def as_read(row: dict[str, Any], incarnation: Incarnation = LOGS) -> Message:
    """The message that a read of this row answers with."""
    return Message(incarnation, row["seq"], row["time_ns"], row["subject"].decode(), None, row["headers"], row["data"])


def large(first: int, last: int, size: int = 2000) -> list[dict[str, Any]]:
    """Messages that do not compress: an object of a few hundred is longer than what is read of its end."""
    noise = random.Random(first)
    return [message(seq, data=noise.randbytes(size)) for seq in range(first, last + 1)]
