"""The body that creates a store job."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from nats3_dagster.archive.job_names import archive_name
from nats3_dagster.bodies.base import Body, Text
from nats3_dagster.model import ArchiveSpec, Mode
from nats3_dagster.model.archive_spec import MOST_AGE_S, MOST_BYTES, MOST_MESSAGES

# Of nats-s3-connector, for a body whose `batch` has one of the two only.
_MAX_BYTES, _MAX_COUNT = 1_000_000, 1_000
Messages = Annotated[int, Field(ge=1, le=MOST_MESSAGES)]
Bytes = Annotated[int, Field(ge=1, le=MOST_BYTES)]
Seconds = Annotated[int, Field(ge=1, le=MOST_AGE_S)]


class Batch(Body):
    """When a capture is due: the names of nats-s3-connector."""

    max_bytes: Bytes = Field(_MAX_BYTES, description="Bytes of waiting messages; the same as `max_bytes`.")
    max_count: Messages = Field(_MAX_COUNT, description="Waiting messages; the same as `max_messages`.")


class Encoding(Body):
    """Taken for clients of nats-s3-connector. It changes nothing: chunks are Parquet, and payloads are kept as they
    came."""

    codec: Literal["binary", "json", "Binary", "bin", "Json", "JSON"] = "binary"


class CreateStoreJob(Body):
    """A new archive. `name`, `stream` and `bucket` must be given."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "job-1", "stream": "jobs", "subject": "subject-1", "bucket": "bucket-1"},
                {
                    "name": "orders", "stream": "ORDERS", "subjects": ["orders.eu.>", "orders.us.>"],
                    "bucket": "archive", "prefix": "team/orders", "max_age_s": 300, "create_bucket": True,
                },
            ]
        }
    )  # fmt: skip

    name: Text = Field(description="Any name; the archive's own has _ for what is no letter, digit or _.")
    stream: Text = Field(description="The JetStream stream to archive.")
    bucket: Text = Field(description="The bucket that takes the chunks.")
    subject: Text | None = Field(None, description="Archive only this subject (NATS filter). Default: all.")
    subjects: list[Text] | None = Field(None, description="Several filters, in place of `subject`.", max_length=256)
    consumer: Text | None = Field(
        None, description="Take the messages through this durable consumer of yours (mode `consumer`)."
    )
    prefix: Annotated[str, Field(max_length=1024)] | None = Field(
        None, description="Key prefix of the chunks, like team/logs."
    )
    batch: Batch | None = None
    encoding: Encoding | None = None
    mode: Mode | None = Field(
        None, description="`stream`: read it. `consumer`: take the messages through a durable, and acknowledge them "
        "once they are in a chunk. Default: `consumer` if `consumer` is given.",
    )  # fmt: skip
    max_messages: Messages | None = Field(None, description="A capture is due at this many uncaptured messages ...")
    max_bytes: Bytes | None = Field(None, description="... or at this many bytes of them ...")
    max_age_s: Seconds | None = Field(None, description="... or when the oldest is this many seconds old.")
    zstd_level: Annotated[int, Field(ge=1, le=22)] | None = Field(None, description="1 (fast) to 22 (small).")
    create_bucket: bool = Field(False, description="Create the bucket if there is none.")

    @model_validator(mode="after")
    def _given_once(self) -> "CreateStoreJob":
        pairs = [("subject", self.subject, self.subjects)]
        if self.batch:
            pairs += [("batch", self.batch, self.max_messages), ("batch", self.batch, self.max_bytes)]
        for name, one, other in pairs:
            if one is not None and other is not None:
                raise ValueError(f"Give {name}, or the fields of this archive in its place, not both")
        return self

    def spec(self) -> ArchiveSpec:
        """Raises OperatorError if a field is invalid."""
        subjects = self.subjects if self.subjects is not None else [self.subject or ">"]
        thresholds: dict[str, Any] = {
            name: value for name in ("max_messages", "max_bytes", "max_age_s", "zstd_level")
            if (value := getattr(self, name)) is not None
        }  # fmt: skip
        if self.batch:
            thresholds |= {"max_messages": self.batch.max_count, "max_bytes": self.batch.max_bytes}
        return ArchiveSpec(
            name=archive_name(self.name), stream=self.stream, bucket=self.bucket, prefix=self.prefix or "",
            subjects=() if ">" in subjects else tuple(subjects), durable=self.consumer,
            mode=self.mode or ("consumer" if self.consumer else "stream"), **thresholds,
        )  # fmt: skip
