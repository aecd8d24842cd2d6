"""Parts of documents: their base, settings of a spec as fields, and how times and ratios are written."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from nats3_dagster.bodies.base import Interval, attribute_of
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import format_time
from nats3_dagster.model.spec_table import Kind, settings_of
from nats3_dagster.steps import Next

# The texts of a face for the next steps of errors.
Words = Mapping[Next, str]


# Values of the kinds that a document has in another form than their Python type.
_TYPES: Mapping[Kind, Any] = {Kind.INTERVAL: Interval, Kind.SEQUENCES: list[int]}


class Document(BaseModel):
    """A JSON document about one thing. Its keys are an interface: snake case, plain numbers, times in RFC 3339 in
    UTC."""

    model_config = ConfigDict(serialize_by_alias=True)

    def plain(self) -> dict[str, Any]:
        """The document as JSON has it."""
        return self.model_dump(mode="json")

    @classmethod
    def by_name(cls, record: object, **others: object) -> Self:
        """The document of a record: each field is the record's attribute of its name. `others`: the fields that are
        made in another way."""
        return cls(**{name: getattr(record, name) for name in cls.model_fields if name not in others}, **others)

    @classmethod
    def read(cls, document: object, source: str) -> Self:
        """The document that a server sent. Keys of a newer server are left out. Raises Nats3Error."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            where = ".".join(map(str, error.errors(include_input=False, include_url=False)[0]["loc"]))
            raise Nats3Error(
                f"{source} answers with another document than this release reads: see {where or 'the document'}",
                "Use the same release of nats3 at both ends",
            ) from None


def with_settings(name: str, spec: type[Any]) -> type[Document]:
    """A document with the settings of a spec, by their keys in bodies."""
    fields: dict[str, Any] = {}
    for one in settings_of(spec):
        kind = _TYPES.get(one.kind, one.type)
        attribute, alias = attribute_of(one.body_key)
        fields[attribute] = (kind | None if one.default is None else kind, Field(alias=alias, description=one.help))
    return create_model(name, __base__=Document, **fields)


def time_of(time_ns: int | None) -> str | None:
    """A time in RFC 3339 with nanoseconds."""
    return None if time_ns is None else format_time(time_ns)


def stamp_of(moment: datetime | None) -> str | None:
    """A time from Postgres, in RFC 3339 with milliseconds."""
    return None if moment is None else stamp(moment)


def stamp(moment: datetime) -> str:
    """A time in RFC 3339 with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"


def ratio(payload_bytes: int, stored_bytes: int) -> float | None:
    """Returns how many times smaller the messages are in the store; None if nothing is stored."""
    return round(payload_bytes / stored_bytes, 2) if stored_bytes else None


def rate(count: int, seconds: float) -> int | None:
    """Returns the count per second; None if no time was measured."""
    return round(count / seconds) if seconds else None
