"""Chunks of made-up messages."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.model import ChunkMeta, Incarnation, Reason, SeqRange
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.subjects import encoded

LOGS = Incarnation("LOGS", 1_790_000_000_123_456_789)
HOUR = "2026-11-15-07:00"
START = 1_794_726_000_000_000_000
Message = tuple[int, int, str, bytes | None, bytes]


def batch_of(rows: Sequence[Message]) -> pa.RecordBatch:
    seqs, times, names, *bodies = list(zip(*rows, strict=True)) or [[]] * 5
    raw = pa.array([encoded(name) for name in names], pa.binary())
    return pa.record_batch([seqs, times, *subject_columns(raw), *bodies], schema=MESSAGES)


def new_writer(level: int = 3, **config: Any) -> ChunkWriter:
    return ChunkWriter("logs", LOGS, HOUR, "cold", "team", level, config)


def write(rows: Sequence[Message], covers: SeqRange, absent_reason: Reason = "deleted") -> tuple[bytes, ChunkMeta]:
    writer = new_writer()
    writer.write(batch_of(rows))
    data, meta = writer.finish(covers, absent_reason)
    return data.to_pybytes(), meta
