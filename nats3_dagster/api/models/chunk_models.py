"""Answers about chunks."""

from pydantic import Field

from nats3_dagster.api.models.bodies import Answer
from nats3_dagster.model import Reason


class Chunk(Answer):
    """One immutable Parquet object: the messages of one range of sequences within one hour."""

    id: int
    archive: str
    hour: str = Field(examples=["2026-11-21-07:00"])
    first_seq: int
    last_seq: int
    messages: int
    absent: int = Field(description="Sequences in its range that it has no message of.")
    absent_reason: Reason | None
    payload_bytes: int
    stored_bytes: int
    ratio: float | None
    first_time: str | None
    last_time: str | None
    stream: str
    stream_created: str
    bucket: str
    key: str
    sha256: str
    committed_at: str
    dagster_run: str | None


class ChunkPage(Answer):
    """Chunks in the order of the stream."""

    chunks: list[Chunk]
    next: str | None = Field(description="The cursor of the next page; null after the last one.")


class ChunkReplay(Answer):
    """What one replay did with a chunk."""

    replay: str
    state: str
    selected: int | None
    published: int | None
    found: int | None
    duplicates: int | None
    expired: int | None
    attempt: int | None
    dagster_run: str | None
    dagster_run_url: str | None
    finished_at: str | None


class ChunkDetail(Chunk):
    """A chunk with its subjects, its absent sequences and its replays."""

    dagster_run_url: str | None
    dagster_partition_url: str | None
    subjects: dict[str, int] | None = Field(description="Messages by subject; null where there are too many.")
    absent_ranges: list[list[int]] | None
    replays: list[ChunkReplay]


