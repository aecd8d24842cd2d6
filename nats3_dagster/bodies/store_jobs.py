"""The body that creates a store job."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from nats3_dagster.archive.lifecycle.job_names import archive_name
from nats3_dagster.bodies.base import Body, Text, named, with_settings
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.archive_options import MOST_BYTES, MOST_MESSAGES
from nats3_dagster.model.archive_spec import with_mode
from nats3_dagster.model.spec_table import by_key

# Of nats-s3-connector, for a body whose `batch` has one of the two only.
_MAX_BYTES, _MAX_COUNT = 1_000_000, 1_000
Messages = Annotated[int, Field(ge=1, le=MOST_MESSAGES)]
Bytes = Annotated[int, Field(ge=1, le=MOST_BYTES)]


class Batch(Body):
    """The limits at which a capture is due: the names of nats-s3-connector."""

    max_bytes: Bytes = Field(_MAX_BYTES, description="Bytes of waiting messages; the same as `max_bytes`.")
    max_count: Messages = Field(_MAX_COUNT, description="Waiting messages; the same as `max_messages`.")


class Encoding(Body):
    """An encoding, taken for clients of nats-s3-connector. It changes nothing: chunks are Parquet, and payloads are
    kept as they came."""

    codec: Literal["binary", "json", "Binary", "bin", "Json", "JSON"] = "binary"


# What the body has beside the settings of an archive.
_BESIDE = {"subject", "batch", "encoding", "create_bucket"}


class CreateStoreJob(with_settings("StoreJobSettings", Body, ArchiveSpec)):
    """A new archive. `name`, `stream` and `bucket` must be given."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "job-1", "stream": "jobs", "subject": "subject-1", "bucket": "bucket-1"},
                {
                    "name": "orders",
                    "stream": "ORDERS",
                    "subjects": ["orders.eu.>", "orders.us.>"],
                    "bucket": "archive",
                    "prefix": "team/orders",
                    "max_age_s": 300,
                    "create_bucket": True,
                },
            ]
        }
    )

    if TYPE_CHECKING:
        name: str

    subject: Text | None = Field(None, description="Archive only this subject (NATS filter). Default: all.")
    batch: Batch | None = None
    encoding: Encoding | None = None
    create_bucket: bool = Field(False, description="Create the bucket, and those of copies, that do not exist.")

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        subjects, messages, size = (getattr(self, name) for name in ("subjects", "max_messages", "max_bytes"))
        pairs = [("subject", self.subject, subjects)]
        if self.batch:
            pairs += [("batch", self.batch, messages), ("batch", self.batch, size)]
        for name, one, other in pairs:
            if one is not None and other is not None:
                raise ValueError(f"Give {name}, or the fields of this archive in its place, not both")
        return self

    def named(self) -> AbstractContextManager[None]:
        """Has errors of the block name fields as this body has them."""
        return named(ArchiveSpec, {"subjects": "subject"} if self.subject else None)

    def spec(self) -> ArchiveSpec:
        """Raises OperatorError if a field is invalid."""
        document = self.model_dump(by_alias=True, exclude_none=True, exclude=_BESIDE)
        with self.named():
            given = by_key(ArchiveSpec, document) | {"name": archive_name(self.name)}
            if self.subject:
                given["subjects"] = (self.subject,)
            if self.batch:
                given |= {"max_messages": self.batch.max_count, "max_bytes": self.batch.max_bytes}
            return ArchiveSpec(**with_mode(given))
