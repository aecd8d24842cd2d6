"""Restores: a stream made again from its archive, planned or done."""

from typing import Self

from pydantic import Field

from nats3_dagster.archive.restore.plan import RestorePlan
from nats3_dagster.archive.restore.run import Restored
from nats3_dagster.documents.base import Document, time_of
from nats3_dagster.hours import format_time


class RestoredStream(Document):
    """A stream made again from its archive, or the plan of one."""

    archive: str
    stream: str
    of_life: str = Field(description="When the archived stream was created.")
    messages: int = Field(description="Messages that were restored; of a plan at most.")
    payload_bytes: int
    first_seq: int | None = Field(description="Null in a plan, as are all below it.")
    last_seq: int | None
    first_time: str | None
    last_time: str | None
    proven: int | None = Field(description="Messages that were compared with the archive; null where none was.")
    ended: int | None = Field(description="Messages that their own time to live or a limit of the stream removed.")
    left_out: list[str] = Field(description="Settings that the archived stream has, and this one has not, or others.")
    removed: list[str] = Field(description="What was removed from the archive on purpose, and is not in the stream.")

    @classmethod
    def of(cls, planned: RestorePlan, done: Restored | None) -> Self:
        """`done`: None for a plan."""
        state = done.state if done else None
        return cls(
            archive=planned.archive.name,
            stream=planned.stream,
            of_life=format_time(planned.incarnation.created_ns),
            messages=done.messages if done else planned.messages,
            payload_bytes=planned.payload_bytes,
            first_seq=state.first_seq if state else None,
            last_seq=state.last_seq if state else None,
            first_time=time_of(state.first_ns or None) if state else None,
            last_time=time_of(state.last_ns or None) if state else None,
            proven=done.proof.equal if done and done.proof else None,
            ended=done.proof.ended if done and done.proof else None,
            left_out=list(planned.left_out),
            removed=[part.text for part in planned.removed],
        )
