"""The body that creates a load job."""

import re
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from nats3_dagster.bodies.base import Body, Text
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Order, Pace, ReplaySpec, Selection, SeqRange
from nats3_dagster.model.replay import LEAST_PACE, MOST_PACE
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.replay.jobs import JobSource

_SECOND_NS = 1_000_000_000


def _time(text: str) -> str:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", text):
        raise PydanticCustomError("time", "write it in RFC 3339 with its offset: 2026-11-21T07:00:00Z")
    try:
        parse_time(text.upper().replace(" ", "T"))
    except OperatorError as error:
        raise PydanticCustomError("time", "{text}", {"text": str(error)}) from None
    return text.upper().replace(" ", "T")


Time = Annotated[str, AfterValidator(_time), Field(json_schema_extra={"format": "date-time"})]
Sequence = Annotated[int, Field(ge=1, le=MAX_SEQUENCE)]
Limit = Annotated[float, Field(ge=LEAST_PACE, le=MOST_PACE, allow_inf_nan=False)]


class Duration(Body):
    """A time span."""

    secs: int = Field(0, ge=0, le=31_536_000, description="Whole seconds.")
    nanos: int = Field(0, ge=0, lt=_SECOND_NS, description="Nanoseconds beside them.")

    @property
    def seconds(self) -> float:
        return self.secs + self.nanos / _SECOND_NS if self.nanos else self.secs


class CreateLoadJob(Body):
    """A replay of archived messages into NATS. All fields that select messages narrow the selection together."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"bucket": "bucket-1", "read_stream": "jobs", "read_subject": "subject-1", "write_subject": "copy"},
                {"archive": "jobs", "write_subject": "replay.>", "from_time": "2026-11-21T07:00:00Z", "rate": 1000},
            ]
        },
    )

    name: Text | None = Field(None, description="What the client calls the job.")
    archive: Text | None = Field(None, description="Name of the archive; else bucket, read_stream and prefix find it.")
    bucket: Text | None = Field(None, description="The bucket that the archive is in.")
    prefix: str | None = Field(None, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$", description="Of its object keys.")
    read_stream: Text | None = Field(None, description="The stream that was archived.")
    read_consumer: Text | None = Field(
        None, description="The consumer through which the archive takes its messages. A replay needs none."
    )
    read_subject: Text = Field(">", description="NATS filter of the archived subjects.")
    write_subject: Text = Field(
        description="Where messages go: one subject, or a pattern that takes over wildcards of read_subject."
    )
    write_stream: Text | None = Field(
        None,
        description="The stream that is to take the messages: refused if another one, or one more, captures "
        "write_subject. The archived stream itself may be named.",
    )
    poll_interval: Duration | None = Field(
        None, description="Go on with new chunks as they are committed, and look for them this often."
    )
    delete_chunks: bool = Field(
        False,
        description="After success, delete the archived chunks that were replayed whole. There is no second question.",
    )
    delete_unexported: bool = Field(
        False, description="Delete also chunks of hours that an export of the archive has not exported."
    )
    from_time: Time | None = Field(None, description="First store time, RFC 3339 with offset, to the nanosecond.")
    to_time: Time | None = Field(None, description="Up to before this store time.")
    start: Sequence | None = Field(None, description="First sequence of the archived stream.")
    end: Sequence | None = Field(None, description="Last sequence of the archived stream.")
    sequences: Annotated[tuple[Sequence, Sequence] | None, Strict(False)] = Field(
        None, description="Both, instead of start and end."
    )
    hours: list[Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d-\d\d:00$")]] | None = Field(
        None, max_length=10_000, description="Archived hours, each as 2026-11-21-07:00."
    )
    order: Order = Field("stream", description="The order that is kept: of all messages, of each subject, or none.")
    rate: Limit | None = Field(None, description="Messages a second at most.")
    byte_rate: Limit | None = Field(None, description="Bytes a second at most.")
    speed: Limit | None = Field(None, description="The original timing, so many times as fast.")
    create_stream: Text | None = Field(None, description="Create a stream of this name if none captures write_subject.")
    like_source: bool = Field(False, description="Create it with the settings of the archived stream.")
    into_own_stream: bool = Field(False, description="Publish even into the stream that the archive captures.")
    over_gaps: bool = Field(False, description="Replay what there is although messages in between were lost.")
    live: bool = Field(False, description="Let rollup, TTL, counter and schedule headers act again.")
    marks: bool = Field(True, description="Add headers that say where a message comes from; only live may go without.")
    dry_run: bool = Field(False, description="Answer with the plan: nothing is published, created or recorded.")

    @model_validator(mode="after")
    def _agreeing(self) -> "CreateLoadJob":
        if self.archive is None and (self.bucket is None or self.read_stream is None):
            raise PydanticCustomError("source", "give the archive, or its bucket and read_stream")
        if self.sequences and (self.start or self.end):
            raise PydanticCustomError("sequences", "give sequences, or start and end")
        if self.poll_interval and not self.poll_interval.seconds:
            raise PydanticCustomError("poll_interval", "poll_interval must be above 0")
        return self

    @property
    def source(self) -> JobSource:
        """Which archive is meant."""
        return JobSource(self.archive, self.bucket, self.read_stream, self.prefix, self.read_consumer)

    def spec(self) -> ReplaySpec:
        """The replay, its archive still empty. Raises OperatorError if a field is invalid."""
        selection = Selection(
            hours=tuple(sorted(set(self.hours or ()))),
            from_ns=None if self.from_time is None else parse_time(self.from_time),
            to_ns=None if self.to_time is None else parse_time(self.to_time),
            sequences=self._range(), subjects=(self.read_subject,),
        )  # fmt: skip
        return ReplaySpec(
            "", self.write_subject, selection, order=self.order, pace=Pace(self.rate, self.byte_rate, self.speed),
            create_stream=self.create_stream, into_own_stream=self.into_own_stream, over_gaps=self.over_gaps,
            delete_chunks=self.delete_chunks, delete_unexported=self.delete_unexported,
            live=self.live, marks=self.marks, like_source=self.like_source,
            poll_interval_s=self.poll_interval.seconds if self.poll_interval else None,
        )  # fmt: skip

    def _range(self) -> SeqRange | None:
        if self.sequences:
            return SeqRange(*self.sequences)
        if self.start is None and self.end is None:
            return None
        return SeqRange(self.start or 1, self.end or MAX_SEQUENCE)
