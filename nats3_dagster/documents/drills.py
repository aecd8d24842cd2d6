"""Drills: messages restored into a server of our own and compared, with what that says of a real restore."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from nats3_dagster.archive.account_restore.drill import ArchiveDrill
from nats3_dagster.documents.base import Document, Words, stamp_of
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


class DrilledArchive(Document):
    """An archive of a drill."""

    archive: str
    stream: str
    messages: int = Field(description="Messages that were restored and compared with the archive.")
    live: int = Field(description="Messages that the live stream still had, and that were the same.")
    seconds: float
    rpo_s: float | None = Field(description="How old the moment is up to which all is archived, in seconds.")
    error: str | None = Field(description="What was not as it should be; null where all was.")


class AccountDrill(Document):
    """A drill of the archives of a rule."""

    rule: str
    messages: int
    seconds: float
    failed: int
    archives: list[DrilledArchive]

    @classmethod
    def of(cls, rule: str, found: Sequence[ArchiveDrill], words: Words) -> Self:
        archives = [
            DrilledArchive(
                archive=one.archive.name,
                stream=one.archive.spec.stream,
                messages=one.result.messages,
                live=one.result.live,
                seconds=round(one.result.seconds, 3),
                rpo_s=None if one.result.rpo_s is None else round(one.result.rpo_s, 3),
                error=one.result.error.text_in(words) if one.result.error else None,
            )
            for one in found
        ]
        return cls(
            rule=rule,
            messages=sum(one.messages for one in archives),
            seconds=round(sum(one.seconds for one in archives), 3),
            failed=sum(one.error is not None for one in archives),
            archives=archives,
        )
