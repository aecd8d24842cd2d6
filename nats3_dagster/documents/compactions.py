"""Compactions: the hours of an archive whose small chunks are merged, or would be."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from nats3_dagster.archive.keep.compaction import Compacted, HourPlan
from nats3_dagster.documents.base import Document


class CompactedHour(Document):
    """An hour with chunks to merge."""

    hour: str = Field(examples=["2026-11-21-07:00"])
    chunks_before: int
    chunks_after: int
    merged_messages: int = Field(description="Of the chunks that were merged.")
    merged_bytes: int = Field(description="Of these chunks' objects, which stay for the time of grace.")
    new_bytes: int | None = Field(description="Of the objects in their place; null in a dry run.")


class CompactedArchive(Document):
    """A compaction of an archive."""

    archive: str
    dry_run: bool
    looked_at: int = Field(description="Hours.")
    chunks_before: int = Field(description="In the hours with chunks to merge.")
    chunks_after: int
    hours: list[CompactedHour] = Field(description="Those with chunks to merge.")

    @classmethod
    def of(cls, name: str, done: Sequence[Compacted], looked_at: int) -> Self:
        """`looked_at`: how many hours were."""
        return cls._of(
            name,
            [
                CompactedHour(
                    hour=one.hour,
                    chunks_before=one.before,
                    chunks_after=one.after,
                    merged_messages=one.messages,
                    merged_bytes=one.old_bytes,
                    new_bytes=one.new_bytes,
                )
                for one in done
                if one.new
            ],
            looked_at,
            dry_run=False,
        )

    @classmethod
    def of_plans(cls, name: str, plans: Sequence[HourPlan]) -> Self:
        return cls._of(
            name,
            [
                CompactedHour(
                    hour=one.hour,
                    chunks_before=one.chunks,
                    chunks_after=one.after,
                    merged_messages=sum(chunk.meta.messages for chunk in one.merged),
                    merged_bytes=sum(chunk.meta.stored_bytes for chunk in one.merged),
                    new_bytes=None,
                )
                for one in plans
                if one.runs
            ],
            len(plans),
            dry_run=True,
        )

    @classmethod
    def _of(cls, name: str, hours: list[CompactedHour], looked_at: int, *, dry_run: bool) -> Self:
        return cls(
            archive=name,
            dry_run=dry_run,
            looked_at=looked_at,
            chunks_before=sum(hour.chunks_before for hour in hours),
            chunks_after=sum(hour.chunks_after for hour in hours),
            hours=hours,
        )
