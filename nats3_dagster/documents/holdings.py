"""Holdings: the contents of an archive, the lag of its stream, and the losses."""

from typing import Literal, Self

from pydantic import ConfigDict, Field

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.lifecycle.jobs import Lag
from nats3_dagster.archive.source.loss import Loss, time_to_loss
from nats3_dagster.archive.source.requirements import unmatched_filters
from nats3_dagster.documents.archives import EXAMPLE, Archive, fields_of
from nats3_dagster.documents.base import Document, Words, rate, ratio, stamp_of, time_of
from nats3_dagster.documents.chunks import ChunkFacts
from nats3_dagster.documents.holds import Hold
from nats3_dagster.hours import format_time
from nats3_dagster.model import Coverage as Covered
from nats3_dagster.model import Gap as Missing
from nats3_dagster.model import Reason
from nats3_dagster.replay.overview import Overview

_HELD = {
    "oldest_uncaptured_s": 4.2,
    "time_to_loss": {
        "level": "ok",
        "used": 0.01,
        "limit": "max_age",
        "gone": 0,
        "early": "A limit per subject removes messages before they are captured",
        "text": "The oldest uncaptured message has gone 1% of its way to deletion by max_age",
    },
    "losses": {"expired": 3},
    "removed": {},
    "unmatched_subjects": [],
    "coverage": [
        {
            "stream_created": "2026-11-20T09:00:00.000000000Z",
            "stream_restored": "2026-11-21T05:00:00.000000000Z",
            "first_seq": 1,
            "complete_to_seq": 4003,
            "last_seq": 4003,
            "unknown_after_seq": 4003,
            "messages": 4000,
            "chunks": 3,
            "first_time": "2026-11-21T06:00:00.000000001Z",
            "last_time": "2026-11-21T06:59:59.999999999Z",
        }
    ],
    "gaps": [
        {
            "stream_created": "2026-11-20T09:00:00.000000000Z",
            "reason": "expired",
            "sequences": 3,
            "ranges": [[1, 3]],
        }
    ],
    "hours": 1,
    "hours_covered": 1,
    "hours_sealed": 1,
    "hours_replayed": 0,
    "unswept": {"objects": 2, "bytes": 2048, "until": "2026-11-21T08:00:00.000Z"},
    "incomplete_copies": [
        {"bucket": "other", "objects": 1, "bytes": 1024, "since": "2026-11-21T07:30:00.000Z", "removals": 0}
    ],
    "holds": [
        {
            "name": "case-17",
            "reason": "court order 17",
            "placed_by": "ann@host-1",
            "created": "2026-11-21T07:00:00.000Z",
            "first_hour": "2026-11-21-06:00",
            "last_hour": "2026-11-21-06:00",
            "first_seq": 1,
            "last_seq": 4003,
        }
    ],
}


class TimeToLoss(Document):
    """The nearness of a loss: how soon the stream deletes messages that are not captured."""

    level: Literal["ok", "paused", "warn", "error"]
    used: float = Field(description="The share of the way to deletion that the oldest uncaptured message has gone.")
    limit: str | None = Field(description="By this limit: max_age, max_msgs or max_bytes; null: none deletes.")
    gone: int = Field(description="Sequences that were deleted before they were captured, and are in no gap yet.")
    early: str | None = Field(description="What the stream removes however little its limits are used.")
    text: str

    @classmethod
    def of(cls, loss: Loss) -> Self:
        return cls(
            level=loss.level,
            used=round(loss.used, 4),
            limit=loss.limit or None,
            gone=loss.gone,
            early=loss.early or None,
            text=loss.text,
        )


class ArchiveLag(Document):
    """The messages that an archive has not captured yet."""

    id: str
    archive: str
    paused: bool
    messages: int = Field(description="Sequences that the stream still has and the archive has not.")
    seconds: float | None = Field(description="Since the oldest of them was stored; null where there is none.")
    ahead: int = Field(description="Those of hours that have not begun by our clock.")
    time_to_loss: TimeToLoss

    @classmethod
    def of(cls, now: Lag) -> Self:
        waiting = now.waiting
        return cls(
            id=str(now.archive.job_id),
            archive=now.archive.name,
            paused=now.archive.paused,
            messages=waiting.behind,
            seconds=round(waiting.behind_s, 3) if waiting.behind else None,
            ahead=waiting.ahead,
            time_to_loss=TimeToLoss.of(now.loss),
        )


class Gap(Document):
    """Sequences without a message in the archive, and why."""

    stream_created: str
    reason: Reason
    sequences: int
    ranges: list[list[int]]

    @classmethod
    def of(cls, gap: Missing) -> Self:
        return cls(
            stream_created=format_time(gap.incarnation.created_ns),
            reason=gap.reason,
            sequences=gap.size,
            ranges=[list(r) for r in gap.ranges],
        )


class Coverage(Document):
    """The contents of an archive for one incarnation of its stream."""

    stream_created: str
    stream_restored: str | None
    first_seq: int = Field(description="The first sequence that the archive accounts for.")
    complete_to_seq: int
    last_seq: int
    unknown_after_seq: int | None = Field(
        description="Set where the stream was removed and may have had more: the last sequence it was seen with."
    )
    messages: int
    chunks: int
    first_time: str | None
    last_time: str | None

    @classmethod
    def of(cls, covered: Covered) -> Self:
        return cls(
            stream_created=format_time(covered.incarnation.created_ns),
            stream_restored=time_of(covered.incarnation.restored_ns or None),
            first_seq=covered.start,
            complete_to_seq=covered.frontier,
            last_seq=covered.last,
            unknown_after_seq=covered.unknown_after,
            messages=covered.messages,
            chunks=covered.chunks,
            first_time=time_of(covered.first_ns),
            last_time=time_of(covered.last_ns),
        )


class Unswept(Document):
    """Objects of retired chunks that are still in the store."""

    objects: int
    bytes: int
    until: str | None = Field(description="Until when they stay at least.")


class IncompleteCopy(Document):
    """A copy of an archive that misses objects, or has some to lose."""

    bucket: str
    objects: int = Field(description="That are missing.")
    bytes: int
    since: str | None = Field(description="Since when the oldest of them is missing.")
    removals: int = Field(description="Objects that the archive's own bucket lost on purpose.")


class ArchiveDetail(Archive):
    """An archive with what it holds, by life of its stream, and what was lost."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE | _HELD]})

    oldest_uncaptured_s: float | None = Field(description="Since the oldest uncaptured message was stored.")
    time_to_loss: TimeToLoss | None = Field(description="Null where the stream's state is not known.")
    losses: dict[Reason, int] = Field(description="Sequences that were lost, by reason.")
    removed: dict[Reason, int] = Field(
        description="Sequences that were removed from the archive on purpose, by reason: erased, retired after a "
        "replay, or not kept any longer."
    )
    unmatched_subjects: list[str] | None = Field(description="Filters that match no subject of the stream any more.")
    coverage: list[Coverage]
    gaps: list[Gap]
    hours: int = Field(description="Hours with messages.")
    hours_covered: int
    hours_sealed: int
    hours_replayed: int
    unswept: Unswept
    incomplete_copies: list[IncompleteCopy]
    holds: list[Hold] = Field(description="What must not leave it. `rebuilt` is that of a rebuild: see disaster.md.")

    @classmethod
    def of_overview(cls, seen: Overview, words: Words) -> Self:
        report, archive, waiting = seen.holdings, seen.job.archive, seen.job.condition.waiting
        unmatched = unmatched_filters(archive.spec, waiting.state) if waiting else None
        return cls(
            **fields_of(seen.job, words),
            oldest_uncaptured_s=round(waiting.behind_s, 3) if waiting and waiting.behind else None,
            time_to_loss=TimeToLoss.of(time_to_loss(waiting, paused=archive.paused)) if waiting else None,
            losses=report.losses,
            removed=report.removed,
            unmatched_subjects=None if unmatched is None else list(unmatched),
            coverage=[Coverage.of(one) for one in report.coverages],
            gaps=[Gap.of(one) for one in report.gaps],
            hours=report.hours,
            hours_covered=report.covered(nothing_waits=bool(waiting and waiting.is_empty)),
            hours_sealed=report.sealed,
            hours_replayed=seen.replayed,
            unswept=Unswept(
                objects=report.unswept.objects, bytes=report.unswept.bytes, until=stamp_of(report.kept_until)
            ),
            incomplete_copies=[IncompleteCopy.by_name(one, since=stamp_of(one.oldest)) for one in report.copies],
            holds=[Hold.of(one) for one in report.holds],
        )


class CapturedHour(Document):
    """The result of a capture of one hour."""

    archive: str
    hour: str
    window: list[int] | None
    already_captured: int
    messages: int
    payload_bytes: int
    stored_bytes: int
    ratio: float | None
    lost: int
    seconds: float
    messages_per_s: int | None
    chunks: list[ChunkFacts]
    gaps: list[Gap]

    @classmethod
    def of(cls, result: CaptureResult) -> Self:
        return cls(
            archive=result.archive,
            hour=result.hour,
            window=list(result.window) if result.window else None,
            already_captured=result.found,
            messages=result.messages,
            payload_bytes=result.payload_bytes,
            stored_bytes=result.stored_bytes,
            ratio=ratio(result.payload_bytes, result.stored_bytes),
            lost=result.lost,
            seconds=round(result.seconds, 3),
            messages_per_s=rate(result.messages, result.seconds),
            chunks=[ChunkFacts.of_meta(one) for one in result.chunks],
            gaps=[Gap.of(one) for one in result.gaps],
        )
