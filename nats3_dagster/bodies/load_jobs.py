"""The body that creates a load job."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from nats3_dagster.bodies.base import Body, Sequence, Text, named, with_settings
from nats3_dagster.model import ReplaySpec
from nats3_dagster.model.spec_table import by_key, settings_of
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.replay.job_request import JobRequest, JobSource

_KEYS = {one.key for one in settings_of(ReplaySpec)}


class CreateLoadJob(with_settings("ReplaySettings", Body, ReplaySpec, defaults=True)):
    """A replay of archived messages into NATS. All fields that select messages narrow the selection together. With
    delete_chunks there is no second question."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"bucket": "bucket-1", "read_stream": "jobs", "read_subject": "subject-1", "write_subject": "copy"},
                {"archive": "jobs", "write_subject": "replay.>", "from_time": "2026-11-21T07:00:00Z", "rate": 1000},
            ]
        },
    )
    if TYPE_CHECKING:
        sequences: tuple[int, int] | None

    name: Text | None = Field(None, description="What the client calls the job.")
    archive: Text | None = Field(None, description="Name of the archive; else bucket, read_stream and prefix find it.")
    bucket: Text | None = Field(None, description="The bucket that the archive is in.")
    prefix: str | None = Field(None, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$", description="Of its object keys.")
    read_stream: Text | None = Field(None, description="The stream that was archived.")
    read_consumer: Text | None = Field(
        None, description="The consumer through which the archive takes its messages. A replay needs none."
    )
    write_stream: Text | None = Field(
        None,
        description="The stream that is to take the messages: refused if another one, or one more, captures "
        "write_subject. The archived stream itself may be named.",
    )
    start: Sequence | None = Field(None, description="First sequence of the archived stream.")
    end: Sequence | None = Field(None, description="Last sequence of the archived stream.")
    dry_run: bool = Field(False, description="Answer with the plan: nothing is published, created or recorded.")

    @model_validator(mode="after")
    def _agreeing(self) -> "CreateLoadJob":
        if self.archive is None and (self.bucket is None or self.read_stream is None):
            raise PydanticCustomError("source", "give the archive, or its bucket and read_stream")
        if self.sequences and (self.start or self.end):
            raise PydanticCustomError("sequences", "give sequences, or start and end")
        return self

    def named(self) -> AbstractContextManager[None]:
        """Has errors of the block name fields as this body has them."""
        end = "start" if self.end is None else "end"
        return named(ReplaySpec, {} if self.sequences else {"sequences": end})

    def spec(self) -> ReplaySpec:
        """The replay, its archive still empty. Raises OperatorError if a field is invalid."""
        given: dict[str, Any] = self.model_dump(include=_KEYS, exclude_none=True)
        if self.start is not None or self.end is not None:
            given["sequences"] = (self.start or 1, self.end or MAX_SEQUENCE)
        with self.named():
            return ReplaySpec("", **by_key(ReplaySpec, given))

    def request(self) -> JobRequest:
        """The load job that is asked for. Raises OperatorError if a field is invalid."""
        source = JobSource(self.archive, self.bucket, self.read_stream, self.prefix, self.read_consumer)
        return JobRequest(source, self.spec(), self.write_stream, self.name)
