"""Reading an archive in Spark's executors: each chunk is fetched with our own client, proven, and given on in Arrow.

Invariant: an executor asks the object store alone, and gives on nothing that is not proven against the catalog's row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.errors import ObjectMissing
from nats3_dagster.model import Chunk, Selection
from nats3_dagster.model.messages import exact_subjects, subject_names
from nats3_dagster.objects import Bucket, StoreOptions
from nats3_dagster.pipeline.pyspark_features import arrow_schema
from nats3_dagster.pipeline.sources.archive_partitions import ChunkGroup, partitions_of
from nats3_dagster.pipeline.sources.header_maps import as_maps
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Columns of every message of a chunk alike. The others are the chunk's own.
_OF_CHUNK = ("hour", "stream_created_ns")
# Chunks that are fetched while one is read: at 64 MiB a chunk, each costs the worker memory.
_AHEAD = 1


@dataclass(frozen=True, slots=True)
class ArchiveRead:
    """The selection of a read, from its options."""

    archive: str
    selection: Selection
    fail_on_data_loss: bool
    # Of subjects, headers and payloads that a partition has, unless one chunk has more.
    partition_bytes: int


class ArchiveReader(DataSourceReader):
    """The partitions of a read, and their messages. `schema`: columns of Nats3DataSource, in any order."""

    def __init__(self, read: ArchiveRead, settings: Settings, schema: StructType) -> None:
        self._read = read
        # It travels to the executors with this reader: see StoreOptions.
        self._store: StoreOptions = settings.store
        self._schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        """Returns the partitions; Spark asks for them on the driver. Raises OperatorError, CatalogError,
        SourceError."""
        with Workspace(Settings.load()) as workspace:
            return list(
                partitions_of(
                    workspace,
                    self._read.archive,
                    self._read.selection,
                    fail_on_data_loss=self._read.fail_on_data_loss,
                    partition_bytes=self._read.partition_bytes,
                )
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a partition, a batch for each row group. Raises StoreError, ObjectMissing, ChunkError."""
        if isinstance(partition, ChunkGroup):  # Spark makes one of its own where there is none
            yield from self._batches(partition)

    def _batches(self, group: ChunkGroup) -> Iterator[pa.RecordBatch]:
        buckets: dict[str, Bucket] = {}

        def bucket_of(name: str) -> Bucket:
            return buckets.setdefault(name, Bucket(self._store, name))

        names = {"seq", *(name for name in self._schema.names if name not in _OF_CHUNK)}
        by_subject = bool(self._read.selection.subjects)
        if by_subject:
            names |= {"subject", "subject_bytes"}
        try:
            for chunk, reader in fetch_chunks(bucket_of, group.chunks, _AHEAD):
                for batch in reader.batches(sorted(names), seqs=group.seqs, times=group.times, dictionary=by_subject):
                    rows = self._of_subjects(batch) if by_subject else batch
                    if rows.num_rows:
                        yield self._columns(rows, chunk)
        except ObjectMissing as error:
            raise ObjectMissing(
                error.what,
                "If its chunk was removed from the archive or rewritten after this read was planned, load the archive "
                "again; if not, verify the archive: the object was deleted outside nats3",
            ) from error

    def _of_subjects(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        subjects, takes = exact_subjects(batch), self._read.selection.selects_subject
        taken = np.array([takes(name) for name in subject_names(subjects)], bool)
        return batch.filter(pa.array(taken[subjects.indices.to_numpy()]))

    def _columns(self, batch: pa.RecordBatch, chunk: Chunk) -> pa.RecordBatch:
        """The batch with the columns that Spark asks for, in its types."""
        constants: dict[str, Any] = {
            "hour": chunk.meta.hour,
            "stream_created_ns": chunk.meta.incarnation.created_ns,
        }
        columns: list[pa.Array] = []
        for field in self._schema:
            if field.name in _OF_CHUNK:
                columns.append(pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows))
                continue
            column = batch.column(field.name)
            if pa.types.is_map(field.type):
                column = as_maps(column, field.type)
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
