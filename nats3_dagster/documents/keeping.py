"""Keeping: hours that expired, holds, and the history of an archive."""

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field

from nats3_dagster.archive.keep import holds, retention
from nats3_dagster.archive.read.history import Entry
from nats3_dagster.archive.stored.copies import Copied
from nats3_dagster.archive.stored.copy_check import CheckedCopy
from nats3_dagster.documents.base import Document, Words, stamp
from nats3_dagster.documents.holds import Hold

What = Literal[
    "created",
    "rebuilt",
    "changed",
    "deleted",
    "held",
    "released",
    "expired",
    "removed",
    "swept",
    "repaired",
    "adopted",
    "compacted",
    "erased",
    "erasure_finished",
    "erasure_refused",
    "learned",
    "forgotten",
    "captured",
    "capture_failed",
    "sealed",
    "replayed",
    "replay_failed",
]


class ExpiredHours(Document):
    """Hours of an archive that expired, or would."""

    archive: str
    hours: int
    first: str | None = Field(description="The oldest of them.")
    last: str | None
    chunks: int
    messages: int
    bytes: int = Field(description="As stored. Objects go after delete_grace.")
    held_chunks: int = Field(description="Live chunks that stay because of a hold.")
    held_bytes: int
    dry_run: bool = Field(description="True if nothing was removed.")
    error: str | None = Field(description="Why hours were not sealed again: their objects stay until they are.")
    next: str | None

    @classmethod
    def of(cls, found: retention.Expired, words: Words, *, dry_run: bool) -> Self:
        problem = found.problem
        return cls.by_name(
            found,
            dry_run=dry_run,
            error=problem and problem.what,
            next=problem and (problem.hint_in(words) or None),
        )


class PlacedHold(Hold):
    """A hold that was placed."""

    archive: str
    held_chunks: int = Field(description="Live chunks that all holds of the archive cover.")
    held_bytes: int
    removed_before: int = Field(description="Messages of it that had been removed before: no hold brings them back.")

    @classmethod
    def of_placed(cls, placed: holds.Placed) -> Self:
        return cls.of(
            placed.hold,
            archive=placed.archive,
            held_chunks=placed.chunks,
            held_bytes=placed.bytes,
            removed_before=placed.removed,
        )


class DeletedHold(Document):
    """A hold that was deleted."""

    archive: str
    name: str
    reason: str = Field(description="Why it ended.")
    deleted: Literal[True] = True


class HistoryEntry(Document):
    """A line of the history of an archive."""

    time: str
    what: What
    hour: str | None = Field(description="Of a capture and a seal.")
    detail: dict[str, Any] = Field(
        description="Counts, names and settings. changed: [before, after] by setting. It has nothing of messages."
    )
    error: str | None = Field(description="What failed, and why.")
    next: str | None = Field(description="What to do about it.")
    who: str | None = Field(description="user@host; null where the catalog does not know it.")
    run_id: str | None = Field(description="The run of Dagster.")

    @classmethod
    def of(cls, entry: Entry, words: Words) -> Self:
        one = entry.happening
        return cls(
            time=stamp(one.happened_at),
            what=one.what,  # pyright: ignore[reportArgumentType]
            hour=one.hour,
            detail=one.detail,
            error=one.error and f"{one.error_kind}: {one.error}",
            next=entry.next and entry.next.worded(words),
            who=one.actor,
            run_id=one.dagster_run_id,
        )


class ForgottenCopy(Document):
    """A former copy that erasures do not look at any more."""

    archive: str
    bucket: str


class CopiedObjects(Document):
    """The changes that were made to a copy of an archive."""

    archive: str
    bucket: str = Field(description="The copy's bucket.")
    objects: int = Field(description="Objects that were missing there, and are there now.")
    bytes: int = Field(description="Their size.")
    removed: int = Field(description="Objects that the first bucket lost, and this one now as well.")
    verified: int = Field(description="Objects that were read again there; 0 if that was not asked for.")
    mended: int = Field(description="Those of them that were missing or damaged, and were put again.")

    @classmethod
    def of(cls, archive: str, copied: Copied, checked: CheckedCopy | None = None) -> Self:
        return cls(
            archive=archive,
            bucket=copied.bucket,
            objects=copied.objects,
            bytes=copied.bytes,
            removed=copied.removed,
            verified=checked.objects if checked else 0,
            mended=checked.mended if checked else 0,
        )

    @classmethod
    def of_all(cls, archive: str, copied: Sequence[Copied], checked: Sequence[CheckedCopy]) -> list[Self]:
        """One for each copy."""
        by_bucket = {one.bucket: one for one in checked}
        return [cls.of(archive, one, by_bucket.get(one.bucket)) for one in copied]
