"""Parts of bodies: a base that names unknown fields, values that every place checks alike, and fields made from the
table of settings of a spec."""

from collections.abc import Container
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    create_model,
)
from pydantic import model_validator as validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.spec_table import Setting, settings_of
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
Count = Annotated[int, Field(ge=1, le=BIGGEST)]


def with_settings(name: str, base: type[B], spec: type[Any], *, optional: Container[str] = ()) -> type[B]:
    """A body with a field for each setting of a spec, by its key. `optional`: keys of required settings that the body
    may leave out."""
    fields: dict[str, Any] = {}
    for one in settings_of(spec):
        attribute, alias = attribute_of(one.key)
        fields[attribute] = _field(one, alias, one.required and one.key not in optional)
    return create_model(name, __base__=base, __doc__=base.__doc__, **fields)


def attribute_of(key: str) -> tuple[str, str | None]:
    """The attribute of a model for a key, and the alias that it then needs: models have attributes of their own."""
    return (f"{key}_", key) if hasattr(BaseModel, key) else (key, None)


def _field(one: Setting, alias: str | None, required: bool) -> tuple[Any, Any]:
    """The type of a field, and what pydantic is told of it."""
    kind: Any = {str: Text, list[str]: list[Text]}.get(one.kind.type, one.kind.type)
    default: Any = ... if required else None
    field = Field(default, alias=alias, description=one.description, max_length=one.limit if one.kind.is_list else None)
    return (kind if required else kind | None), field
