"""Real chunks in a bucket and in the catalog, made without a stream; and an archive's table as others read it."""

import uuid
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2

from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, Chunk, ChunkMeta, Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.tables import tables
from nats3_dagster.tables.catalogs import opened
from nats3_dagster.tables.sync import Synced, sync
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, LOGS, spec, state

LATER = "2026-11-21-09:00"
Row = tuple[int, int, str | tuple[str, bytes], bytes | None, bytes]


def logs(workspace: Workspace, bucket: str, name: str = "logs", **fields: Any) -> Archive:
    return workspace.catalog.archives.create(spec(name, bucket=bucket, **fields), state())


def rows(first: int, last: int, hour: str = HOUR) -> list[Row]:
    """A message a second of the hour from its start on."""
    return [(n, hour_start(hour) + n * 10**9, f"logs.{n % 3}", None, b"%d" % n) for n in range(first, last + 1)]


def made(
    archive: Archive,
    messages: Sequence[Row],
    *,
    covers: SeqRange | None = None,
    hour: str = HOUR,
    incarnation: Incarnation = LOGS,
    reason: Any = "deleted",
) -> tuple[bytes, ChunkMeta]:
    """A chunk of these messages: (sequence, nanoseconds, subject or its text and bytes, header block, payload)."""
    spec = archive.spec
    writer = ChunkWriter(spec.name, incarnation, hour, spec.bucket, spec.prefix, 3, {"name": incarnation.stream})
    plain = [
        (seq, ns, *((subject, None) if isinstance(subject, str) else subject), headers, data)
        for seq, ns, subject, headers, data in messages
    ]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*plain, strict=True), MESSAGES, strict=True)]
    writer.write(pa.record_batch(columns, schema=MESSAGES))
    data, meta = writer.finish(covers or SeqRange(messages[0][0], messages[-1][0]), reason)
    return data.to_pybytes(), meta


def put(workspace: Workspace, archive: Archive, messages: Sequence[Row], **fields: Any) -> ChunkMeta:
    """The chunk in the store and in the catalog."""
    data, meta = made(archive, messages, **fields)
    workspace.bucket(meta.bucket).put_new(meta.key, data, meta.sha256)
    workspace.catalog.chunks.commit(archive, [meta])
    return meta


def tabled(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs` of two chunks of 10 messages, with a table that has both."""
    found = logs(workspace, bucket)
    put(workspace, found, rows(1, 10))
    put(workspace, found, rows(11, 20))
    tables.create(workspace, "logs")
    synced(workspace)
    return found


def of_two_hours(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs` of 10 messages in the hour HOUR, and of 10 in the hour LATER."""
    found = logs(workspace, bucket)
    put(workspace, found, rows(1, 10))
    put(workspace, found, rows(11, 20, LATER), hour=LATER)
    return found


def live(workspace: Workspace, archive: Archive) -> tuple[Chunk, ...]:
    return workspace.catalog.chunks.select(archive)


def synced(workspace: Workspace, name: str = "logs", **options: Any) -> Synced:
    return sync(workspace, tables.find(workspace, name), **options)


@contextmanager
def iceberg(workspace: Workspace, name: str = "logs") -> Any:
    """The table as pyiceberg has it."""
    known = tables.find(workspace, name)
    with opened(workspace.settings, known.catalog) as catalog:
        yield catalog.load_table(known.identifier)


def seqs(workspace: Workspace, name: str = "logs", **scan: Any) -> list[int]:
    """The sequences that a scan of the table gives."""
    with iceberg(workspace, name) as table:
        return sorted(table.scan(selected_fields=("seq", "hour", "incarnation"), **scan).to_arrow()["seq"].to_pylist())


def numbers(*ranges: tuple[int, int]) -> list[int]:
    return [n for first, last in ranges for n in range(first, last + 1)]


def files(workspace: Workspace, name: str = "logs") -> set[str]:
    """The paths that the table lists."""
    with iceberg(workspace, name) as table:
        paths: Iterable[Any] = table.inspect.files()["file_path"].to_pylist()
        return set(paths)


def down(monkeypatch: pytest.MonkeyPatch, name: str, port: int) -> None:
    """Let the Iceberg catalog `name` be one of SQL at a port where nobody listens."""
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__URI", f"postgresql+psycopg://u:s3cret@127.0.0.1:{port}/db")


def delete_by_position(table: Any) -> None:
    """Delete the first row of a file as engines with merge-on-read do: by a delete file."""
    file = next(iter(table.scan().plan_files())).file
    path = f"{table.location()}/data/{uuid.uuid4().hex}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(pa.table({"file_path": [file.file_path], "pos": [0]}), stream)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        record_count=1,
        file_size_in_bytes=len(table.io.new_input(path)),
    )
    deletes.spec_id = 0
    with table.transaction() as other, other.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(deletes)
        plain = snapshot.new_manifest_writer

        def writer(*args: Any, **options: Any) -> Any:
            made = plain(*args, **options)
            made.__class__ = _DeletesWriter
            return made

        snapshot.new_manifest_writer = writer


class _DeletesWriter(ManifestWriterV2):
    """Writes a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}
