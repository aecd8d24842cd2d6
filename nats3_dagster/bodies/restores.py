"""The body that has a stream made again from its archive: the HTTP API's, and the config of Dagster's job."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, Strict

from nats3_dagster.bodies.base import Body, Sequence, Text, checked_time
from nats3_dagster.errors import calling
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Selection, SeqRange

if TYPE_CHECKING:
    from nats3_dagster.archive.restore.plan import RestoreSpec

Time = Annotated[str, AfterValidator(checked_time), Field(json_schema_extra={"format": "date-time"})]
_FIELDS: Mapping[str, str] = {"from_ns": "from_time", "to_ns": "to_time"}


class RestoreStream(Body):
    """A stream to be made again from its archive. All fields that select messages narrow the selection together."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"archive": "orders"},
                {"archive": "orders", "name": "MONDAY", "to_time": "2026-11-24T00:00:00Z", "consumers": ["all"]},
            ]
        }
    )

    archive: Text = Field(description="Name of the archive.")
    name: Text | None = Field(None, description="Name of the new stream; null for that of the old one.")
    from_time: Time | None = Field(None, description="From this store time on.")
    to_time: Time | None = Field(None, description="Up to before this store time.")
    sequences: Annotated[tuple[Sequence, Sequence], Strict(False)] | None = Field(
        None, description="Sequences of the archived stream, the first and the last."
    )
    subjects: list[Text] = Field([], description="Only subjects that one of these NATS filters matches.")
    replicas: int | None = Field(None, ge=1, le=5, description="Number of replicas; null for those that it had.")
    storage: Literal["file", "memory"] | None = Field(None, description="Null for that which it had.")
    limits: bool = Field(False, description="Give it the limits that the old one had, though they may remove messages.")
    over_gaps: bool = Field(False, description="Restore what is archived although messages between were lost.")
    consumers: list[Text] = Field([], description="Durables that come back at the position they had; `all` for each.")
    incarnation: Text | None = Field(
        None, description="The incarnation of the stream, as in keys of chunks, where the archive has several."
    )
    verify: bool = Field(True, description="Compare every message with the archive afterwards.")

    def spec(self) -> "RestoreSpec":
        """The restore that is asked for. Raises OperatorError if a field is invalid."""
        # It imports nats and pyarrow, which a load of the definitions does without.
        from nats3_dagster.archive.restore.plan import RestoreSpec

        with calling(_FIELDS):
            selection = Selection(
                from_ns=None if self.from_time is None else parse_time(self.from_time),
                to_ns=None if self.to_time is None else parse_time(self.to_time),
                sequences=SeqRange(*self.sequences) if self.sequences else None,
                subjects=tuple(self.subjects),
            )
        return RestoreSpec(
            self.archive,
            self.name,
            selection,
            replicas=self.replicas,
            storage=self.storage,
            limits=self.limits,
            over_gaps=self.over_gaps,
            consumers=tuple(self.consumers),
            incarnation=self.incarnation,
        )

    def config(self) -> dict[str, Any]:
        """The fields that were given, as JSON has them."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
