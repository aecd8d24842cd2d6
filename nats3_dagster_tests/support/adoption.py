"""An archive of numbered messages, and objects that its catalog does not have."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.archive.captures.plan import CapturePlan
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire


def archive_of(workspace: Workspace, bucket: str, *subjects: str) -> Archive:
    return create(workspace, ArchiveSpec("events", "EV", bucket, subjects=subjects))


def publish(wire: Wire, first: int, last: int, **config: Any) -> None:
    """Messages whose payload is their sequence, on ev.x and ev.y in turn."""
    if first == 1:
        wire.create_stream("EV", "ev.>", **config)
    wire.publish([(f"ev.{'xy'[n % 2]}", b"", b"%d" % n) for n in range(first, last + 1)])


def stored(workspace: Workspace, archive: Archive) -> dict[int, bytes]:
    """The payload of each message of the archive, by its sequence."""
    messages: dict[int, bytes] = {}
    for chunk in workspace.catalog.chunks.select(archive):
        table = pq.read_table(io.BytesIO(workspace.bucket(chunk.meta.bucket).get(chunk.meta.key)))
        rows = table.select(["seq", "data"]).to_pydict()
        assert messages.keys().isdisjoint(rows["seq"])
        messages |= dict(zip(rows["seq"], rows["data"], strict=True))
    return messages


def gaps(workspace: Workspace, archive: Archive) -> dict[str, int]:
    return {gap.reason: gap.size for gap in workspace.catalog.gaps.select(archive)}


def other_history(workspace: Workspace, archive: Archive, planned: CapturePlan, count: int, same: int = 0) -> ChunkMeta:
    """Put an object of sequences 1 to `count`; the payloads of those after `same` the stream never had."""
    incarnation, spec = planned.job.state.incarnation, archive.spec
    writer = ChunkWriter(spec.name, incarnation, planned.hours[0], spec.bucket, spec.prefix, 3, {"name": "EV"})
    for batch in read_batches(workspace.settings.nats, ReadSpec(incarnation, SeqRange(1, count))):
        payloads = [b"%d" % seq if seq <= same else b"former%d" % seq for seq in batch.column("seq").to_pylist()]
        former = pa.array(payloads, pa.binary())
        writer.write(batch.set_column(batch.schema.get_field_index("data"), "data", former))
    data, meta = writer.finish(SeqRange(1, count), "deleted")
    workspace.bucket(spec.bucket).put_new(meta.key, data, meta.sha256)
    return meta
