"""Parts of bodies: a base that names unknown fields, values that every place checks alike, and fields made from the
table of settings of a spec."""

import re
from collections.abc import Container, Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    Strict,
    ValidationError,
    create_model,
)
from pydantic import model_validator as validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from nats3_dagster.errors import OperatorError, calling
from nats3_dagster.hours import SECOND_NS, parse_time
from nats3_dagster.model.replay_spec import LEAST_PACE, MOST_PACE
from nats3_dagster.model.spec_table import Kind, Setting, settings_of
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.settings.names import ALIKE, nearest

B = TypeVar("B", bound=BaseModel)
# What Postgres' bigint holds.
BIGGEST = 2**63 - 1


class Body(BaseModel):
    """A body, or an object in one. A field that it does not have is refused, with the one that was meant."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @validator(mode="wrap")
    @classmethod
    def _refuse_unknown(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        given: list[str] = [*map(str, cast("dict[object, object]", data))] if isinstance(data, dict) else []
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValidationError.from_exception_data(cls.__name__, [_unknown(name, known) for name in unknown])
        return handler(data)


def validated(model: type[B], document: object, source: str) -> B:
    """The body that a document is, refused in the words of the API. `source`: where it comes from. Raises
    OperatorError."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = [
            (".".join(map(str, one["loc"])) or "the body", one["msg"].removeprefix("Value error, "))
            for one in error.errors(include_input=False, include_url=False)
        ]
        text = "; ".join(f"{field}: {message}" for field, message in faults)
        hint = "Correct it; the API's document has all fields"
        raise OperatorError(f"{source} is not valid: {text}", hint) from None


def _unknown(name: str, known: list[str]) -> InitErrorDetails:
    near = nearest(name, known, ALIKE)
    text = f"There is no such field; {f'did you mean {near}?' if near else 'there are ' + ', '.join(known)}"
    kind = PydanticCustomError("unknown_field", "{text}", {"text": text})
    return InitErrorDetails(type=kind, loc=(name,), input=None)


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("It has a NUL character")
    return text


# Postgres takes no NUL.
Text = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_storable)]
AnyText = Annotated[str, Field(max_length=1024), AfterValidator(_storable)]
Count = Annotated[int, Field(ge=1, le=BIGGEST)]


def checked_time(text: str) -> str:
    """A time as documents have it."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", text):
        raise PydanticCustomError("time", "write it in RFC 3339 with its offset: 2026-11-21T07:00:00Z")
    try:
        parse_time(text.upper().replace(" ", "T"))
    except OperatorError as error:
        raise PydanticCustomError("time", "{text}", {"text": str(error)}) from None
    return text.upper().replace(" ", "T")


Sequence = Annotated[int, Field(ge=1, le=MAX_SEQUENCE)]


class Interval(Body):
    """A time span."""

    secs: int = Field(0, ge=0, le=31_536_000, description="Whole seconds.")
    nanos: int = Field(0, ge=0, lt=SECOND_NS, description="Nanoseconds beside them.")


def _above_0(interval: Interval) -> Interval:
    if not interval.secs and not interval.nanos:
        raise PydanticCustomError("interval", "it must be above 0")
    return interval


_Pace = Annotated[float, Field(ge=LEAST_PACE, le=MOST_PACE, allow_inf_nan=False)]
# Values of the kinds that a document has in another form than their Python type.
_TYPES: Mapping[Kind, Any] = {
    Kind.RATE: _Pace,
    Kind.BYTE_RATE: _Pace,
    Kind.TIME: Annotated[str, AfterValidator(checked_time), Field(json_schema_extra={"format": "date-time"})],
    Kind.INTERVAL: Annotated[Interval, AfterValidator(_above_0)],
    Kind.SEQUENCES: Annotated[tuple[Sequence, Sequence], Strict(False)],
    Kind.HOURS: list[Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d-\d\d:00$")]],
}


def with_settings(
    name: str, base: type[B], spec: type[Any], *, optional: Container[str] = (), defaults: bool = False
) -> type[B]:
    """A body with a field for each setting of a spec, by its key. `optional`: keys of required settings that the body
    may leave out. `defaults`: a field that is left out has the default of its setting, and null is refused for it; else
    null stands for the default."""
    fields: dict[str, Any] = {}
    for one in settings_of(spec):
        attribute, alias = attribute_of(one.body_key)
        fields[attribute] = _field(one, alias, one.required and one.body_key not in optional, defaults)
    return create_model(name, __base__=base, __doc__=base.__doc__, **fields)


def named(spec: type[Any], other: Mapping[str, str] | None = None) -> AbstractContextManager[None]:
    """Has an OperatorError of the block name a field of a spec by its key in bodies. `other`: by another key, because
    the body gives it so."""
    return calling({one.name: one.body_key for one in settings_of(spec)} | dict(other or {}))


def attribute_of(key: str) -> tuple[str, str | None]:
    """The attribute of a model for a key, and the alias that it then needs: models have attributes of their own."""
    return (f"{key}_", key) if hasattr(BaseModel, key) else (key, None)


def _field(one: Setting, alias: str | None, required: bool, defaults: bool) -> tuple[Any, Any]:
    """The type of a field, and what pydantic is told of it."""
    text = AnyText if one.default == "" else Text
    kind: Any = {str: text, list[str]: list[Text]}.get(one.kind.type, one.kind.type)
    kind = one.type if one.choices else _TYPES.get(one.kind, kind)
    default: Any = ... if required else one.to_document(one.default) if defaults and not one.kind.is_list else None
    field = Field(
        default,
        alias=alias,
        description=one.description,
        max_length=one.limit if one.kind.is_list else None,
        ge=one.least,
        le=one.most,
    )
    return (kind if default is not None else kind | None), field
