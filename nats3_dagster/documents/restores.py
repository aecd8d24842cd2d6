"""Restores: a stream made again from its archive, planned or done."""

from typing import Self

from pydantic import Field

from nats3_dagster.archive.restore.consumers import PlannedConsumer
from nats3_dagster.archive.restore.folder import Written
from nats3_dagster.archive.restore.plan import RestorePlan
from nats3_dagster.archive.restore.run import Restored
from nats3_dagster.documents.base import Document, time_of
from nats3_dagster.hours import format_time


class RestoredConsumer(Document):
    """A durable of a restored stream."""

    name: str
    kept_at: str = Field(description="When it was kept: its position is that of then, and not of later.")
    exact: bool = Field(
        description="False if it begins at its acknowledgement floor, and what it acknowledged after that is unknown."
    )
    delivered_seq: int = Field(description="The last sequence that counts as delivered.")
    ack_floor_seq: int = Field(description="Everything up to this sequence counts as acknowledged.")
    again: int = Field(description="Messages that were delivered and come again; at most, if it is not exact.")
    left_out: list[str] = Field(description="Settings that the consumer had, and this one has not, or others.")

    @classmethod
    def of(cls, one: PlannedConsumer) -> Self:
        return cls(
            name=one.name,
            kept_at=format_time(one.observed_ns),
            exact=one.kept.exact,
            delivered_seq=one.position.delivered.stream,
            ack_floor_seq=one.position.ack_floor.stream,
            again=one.again,
            left_out=list(one.left_out),
        )


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
    consumers: list[RestoredConsumer] = Field(description="Durables that come back at their position.")
    removed: list[str] = Field(description="What was removed from the archive on purpose, and is not in the stream.")
    folder: str | None = Field(
        default=None, description="Where it was written as a backup; null for a stream, and for a plan."
    )

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
            consumers=[RestoredConsumer.of(one) for one in planned.consumers],
            removed=[part.text for part in planned.removed],
        )

    @classmethod
    def written(cls, planned: RestorePlan, done: Written) -> Self:
        """The document of a stream that was written as a backup."""
        state = done.state
        return cls.of(planned, None).model_copy(
            update={
                "messages": done.messages,
                "folder": str(done.folder),
                **{name: state[name] for name in ("first_seq", "last_seq")},
                "first_time": state["first_ts"],
                "last_time": state["last_ts"],
            }
        )


class StartedRestore(Document):
    """A restore that was started; the stream is there when it has ended."""

    run_id: str | None = Field(description="The run of Dagster that restores it; null for a process.")
    log: str | None = Field(description="The file that the process writes, on its machine; null for a run of Dagster.")
    plan: RestoredStream
