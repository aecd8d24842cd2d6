"""Drills: what the last one of an archive says of a real restore."""

from typing import Self

from pydantic import Field

from nats3_dagster.documents.base import Document, stamp_of
from nats3_dagster.model.drill import Drill as Result


class Drill(Document):
    """The last drill of an archive."""

    at: str | None
    proven_at: str | None = Field(description="When a drill last found all as it should be.")
    error: str | None = Field(description="What was not as it should be; null where all was.")
    messages: int = Field(description="Messages that were restored and compared with the archive.")
    live: int = Field(description="Messages that the live stream still had, and that were the same.")
    seconds: float
    rto_s: float | None = Field(
        description="Seconds that a restore of all messages would take at that speed; null where none was restored."
    )
    rpo_s: float | None = Field(
        description="How old the moment was up to which all is archived, in seconds: what a loss would have cost then."
    )

    @classmethod
    def of(cls, one: Result, messages: int, payload_bytes: int) -> Self:
        """`messages`, `payload_bytes`: of the whole archive."""
        rto_s = one.rto_s(messages, payload_bytes)
        return cls(
            at=stamp_of(one.drilled_at),
            proven_at=stamp_of(one.proven_at),
            error=one.error.what if one.error else None,
            messages=one.messages,
            live=one.live,
            seconds=round(one.seconds, 3),
            rto_s=None if rto_s is None else round(rto_s, 3),
            rpo_s=None if one.rpo_s is None else round(one.rpo_s, 3),
        )
