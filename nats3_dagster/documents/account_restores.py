"""Restores of accounts: each stream of one, planned or done; and drills of them."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field

from nats3_dagster.archive.account_restore.drill import ArchiveDrill
from nats3_dagster.archive.account_restore.run import StreamRestored
from nats3_dagster.archive.account_restore.spec import AccountRestorePlan, Action, StreamRestore
from nats3_dagster.documents.base import Document, Words, stamp_of, time_of


class AccountStreamRestore(Document):
    """A stream of an account's restore."""

    stream: str
    action: Action = Field(
        description="restore: it comes out of its archive. make: it has none, and the server fills it from its mirror "
        "or its sources. done: an earlier run has made it. compare: a stream of the name is there, and is compared "
        "with the archive. left_out: it was not there at that moment. refused: it cannot be restored so."
    )
    archive: str | None = Field(description="Null for one that is made from others.")
    messages: int = Field(description="Messages that come out of the archive; of a plan at most.")
    payload_bytes: int
    last_seq: int | None = Field(description="The last sequence that the stream has given.")
    consumers: list[str] = Field(description="Its durables that come back.")
    archived_up_to: str | None = Field(description="All that the stream had up to then is archived.")
    notes: list[str] = Field(description="What of it will not be as it was.")
    why: str | None = Field(description="Why it is left out, or cannot be restored.")
    next: str | None = Field(description="What to do so that it can.")
    # All null in a plan.
    state: Literal["whole", "failed"] | None = Field(description="Null in a plan, as are all below it.")
    compared: int | None = Field(description="Messages that were compared with the archive, and are equal.")
    ended: int | None = Field(description="Messages that their own time to live or a limit of the stream removed.")
    seconds: float | None
    error: str | None

    @classmethod
    def of(cls, one: StreamRestore, done: StreamRestored | None, words: Words) -> Self:
        """`done`: None in a plan."""
        end = None if one.action == "left_out" else done
        return cls(
            stream=one.stream,
            action=one.action,
            archive=one.archive or None,
            messages=end.messages if end and one.action == "restore" else one.messages,
            payload_bytes=one.payload_bytes,
            last_seq=one.planned.last_seq if one.planned else None,
            consumers=[consumer.name for consumer in one.planned.consumers] if one.planned else [],
            archived_up_to=stamp_of(one.archived_up_to) if one.archived_up_to else None,
            notes=list(one.notes),
            why=one.reason.what if one.reason else None,
            next=one.reason.hint_in(words) or None if one.reason else None,
            state=("failed" if end.error else "whole") if end else None,
            compared=end.compared if end else None,
            ended=end.ended if end else None,
            seconds=round(end.seconds, 3) if end else None,
            error=end.error.text_in(words) if end and end.error else None,
        )


class AccountRestore(Document):
    """An account made again from its archives, or the plan of that."""

    rule: str
    server: str = Field(description="The NATS server that it is restored into.")
    to_time: str | None = Field(description="Each stream is as it was right before; null: all that is archived.")
    refusal: str | None = Field(description="Why nothing of it can begin; null where it can.")
    messages: int
    payload_bytes: int
    streams: list[AccountStreamRestore] = Field(description="In the order in which they are made.")

    @classmethod
    def of(cls, planned: AccountRestorePlan, done: Sequence[StreamRestored] | None, words: Words) -> Self:
        """`done`: None for a plan."""
        ends = {one.one.stream: one for one in done or ()}
        made = [one for one in planned.streams if one.action in ("restore", "compare", "done")]
        return cls(
            rule=planned.kept.name,
            server=planned.server,
            to_time=time_of(planned.spec.to_ns),
            refusal=planned.refusal.text_in(words) if planned.refusal else None,
            messages=sum(one.messages for one in made),
            payload_bytes=sum(one.payload_bytes for one in made),
            streams=[AccountStreamRestore.of(one, ends.get(one.stream), words) for one in planned.streams],
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
