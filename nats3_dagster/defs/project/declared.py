"""Fields of declarations: their types in Python, and what `dg check yaml` says of their values.

Invariant: a value that a template gives may be any text in YAML; what it stands for is checked when it is loaded.
"""

from collections.abc import Container, Iterable
from typing import Annotated, Any, Self, get_args

from dagster import Model, ResolutionContext, Resolvable, Resolver
from pydantic import BaseModel, ValidationError, ValidationInfo, field_validator

from nats3_dagster.defs.instance.internals import ResolutionException
from nats3_dagster.defs.jobs.failures import CannotLoad
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.spec_table import Kind, Setting, by_key, settings_of

# A text with a template in it: `{{ env.AGE }}`.
_TEMPLATE = {"type": "string", "pattern": r"\{\{"}


class CannotResolve(CannotLoad, ResolutionException):
    """A value in YAML is wrong. Dagster wraps each error of a field but those of the second class."""


def doc(description: str, schema: dict[str, Any] | None = None) -> Resolver:
    """Returns the resolver of a field. Dagster takes descriptions of fields with a default from here alone. `schema`:
    of a value without templates, in JSON Schema."""
    return Resolver.default(description=description, json_schema_extra=schema and unless_template(schema))


def unless_template(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a value that may be a template: by `if`, so that an error says what is wrong. With `anyOf`,
    which Dagster writes, it would say that nothing fits."""
    return {"if": _TEMPLATE, "then": {}, "else": schema}


def text_schema(pattern: Pattern | str) -> dict[str, Any]:
    """The JSON schema of a text of this form, or of none."""
    regex, longest = (pattern, None) if isinstance(pattern, str) else (pattern.regex, pattern.longest)
    return {"type": ["string", "null"], "pattern": f"^(?:{regex})$"} | ({"maxLength": longest} if longest else {})


def fields_of(spec: type[Any], *, optional: Container[str] = ()) -> dict[str, Any]:
    """A field for each setting of a spec; see `fields_for`."""
    return fields_for(settings_of(spec), optional=optional)


def fields_for(settings: Iterable[Setting], *, optional: Container[str] = ()) -> dict[str, Any]:
    """A field for each of the settings; that of a file says so in its name. `optional`: keys of required settings that
    may be left out."""
    fields: dict[str, Any] = {}
    for one in settings:
        name = f"{one.key}_file" if one.kind is Kind.FILE else one.key
        resolver = doc(one.description, _schema(one))
        must = one.required and one.key not in optional
        fields[name] = (Annotated[one.type, resolver], ...) if must else (Annotated[one.type | None, resolver], None)
    return fields


class Declared(Model, Resolvable):
    """The base of declarations: what is wrong in one is said by the schema, and at load in one line."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        derived = super().model()
        extra = derived.model_config.get("json_schema_extra")
        if isinstance(extra, dict):

            def strict(schema: dict[str, Any]) -> None:
                schema |= extra
                for field in schema["properties"].values():
                    cls.schema_of_field(field)

            derived.model_config["json_schema_extra"] = strict
        return derived

    @classmethod
    def schema_of_field(cls, field: dict[str, Any]) -> None:
        """Has the schema of one field name what is wrong in its value."""
        tables = [one for one in field.get("anyOf", ()) if "$ref" in one or "$ref" in one.get("items", ())]
        if "if" in field:  # the table of settings says it
            field.pop("anyOf", None)
            field.pop("type", None)
        elif len(tables) == 1:
            none = [one for one in field.pop("anyOf") if one.get("type") == "null"]
            (table,) = tables
            field |= unless_template({"if": {"type": "null"}, "then": {}, "else": table} if none else table)

    @classmethod
    def resolve_from_model(cls, context: ResolutionContext, model: BaseModel) -> Self:
        """Raises CannotResolve for a value that its field cannot have, as a template may give it."""
        try:
            return super().resolve_from_model(context, model)
        except ValidationError as error:
            raise CannotResolve(wrong_value(error, getattr(model, "name", None))) from None

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_number(cls, value: Any, field: ValidationInfo) -> Any:
        """Refuses true and false for a number: pydantic takes them for 1 and 0."""
        kinds = get_args(cls.model_fields[field.field_name or ""].annotation)
        if isinstance(value, bool) and {int, float} & {*kinds} and bool not in kinds:
            raise ValueError("a number is wanted, not true or false")
        return value

    def given(self, spec: type[Any], settings: Iterable[Setting]) -> dict[str, Any]:
        """Returns the spec's settings that are written, by their fields in it."""
        settings = tuple(settings)
        keys = {f"{one.key}_file": one.key for one in settings if one.kind is Kind.FILE}
        written = self.model_dump(include={*fields_for(settings)}, exclude_none=True)
        return by_key(spec, {keys.get(name, name): value for name, value in written.items()})


def wrong_value(error: ValidationError, named: str | None = None) -> OperatorError:
    """The first error of pydantic in one line. The value is not repeated: the environment may have given it. `named`:
    what has the field."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return OperatorError(f"{where}{f' of {named}' if named else ''}: {first['msg']}", "Correct it where it is given")


def _schema(one: Setting) -> dict[str, Any]:
    """The JSON schema of a setting's value in YAML, where it stands without a template."""
    if one.choices:
        return {"enum": [*one.choices, None]}
    if one.kind.is_list:
        return {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": one.limit}
    if one.pattern is not None:
        return text_schema(one.pattern)
    limits = {"minimum": one.least, "maximum": one.most}
    if one.kind in (Kind.RATE, Kind.BYTE_RATE):
        limits["exclusiveMinimum"] = 0
    type_ = {int: "integer", float: "number", bool: "boolean"}.get(one.kind.type, "string")
    return {"type": [type_, "null"]} | {key: limit for key, limit in limits.items() if limit is not None}
