"""JSON that fits a JSON Schema, and the types of its properties."""

import json
from collections.abc import Mapping
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.base import EachDecoder, missing_library
from nats3_dagster.exports.decoding.column import DOUBLE, JSON, TEXT, TRUTH, Column, list_of, struct_of, whole
from nats3_dagster.exports.decoding.json_text import json_decode
from nats3_dagster.exports.decoding.message import Message, Undecodable, reason_of

_TYPES: Mapping[str, Column] = {"integer": whole(64), "number": DOUBLE, "boolean": TRUTH, "string": TEXT}


def json_schema_decoder(schema: bytes, *, exact: bool) -> EachDecoder:
    """The decoder for a content of the schema's file; `exact` as of `json_decode`. Raises OperatorError."""
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        raise missing_library("jsonschema") from None

    try:
        document = json.loads(schema)
        kind = validator_for(document, Draft202012Validator)
        kind.check_schema(document)
        # A registry of its own: a reference to another document is never fetched from the internet.
        validator: Any = kind(document, registry=Registry())
    except (ValueError, SchemaError, TypeError, AttributeError, RecursionError) as error:
        raise OperatorError(
            f"The schema is not a JSON Schema: {reason_of(error)}", "Correct the file", field="schema"
        ) from None
    decode_json, plain_json = json_decode(exact=exact), json_decode(exact=False)

    def decode(message: Message) -> dict[Any, Any]:
        try:
            error = next(iter(validator.iter_errors(plain_json(message))), None)
        except Unresolvable as unresolvable:
            raise OperatorError(
                f"The schema refers to what is not in it: {unresolvable}", "Put all of it in one file", field="schema"
            ) from None
        if error is not None:
            raise Undecodable(f"The schema does not fit at {error.json_path}: {error.message}"[:500])
        return decode_json(message)

    properties = document.get("properties", {}) if isinstance(document, dict) else {}
    types = {name: _column(each, document, ()) for name, each in properties.items()}
    return EachDecoder(decode, tuple(properties), types)


def _column(schema: Any, document: Mapping[str, Any], inside: tuple[str, ...]) -> Column:
    """The column of a schema; `inside`: the references that led to it. JSON where it says no type, or several."""
    if not isinstance(schema, Mapping):
        return JSON
    if (reference := schema.get("$ref")) is not None:
        target = _resolved(reference, document)
        return JSON if target is None or reference in inside else _column(target, document, (*inside, reference))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            branches = [branch for branch in schema[several] if branch not in ({"type": "null"}, {"const": None})]
            return _column(branches[0], document, inside) if len(branches) == 1 and "type" not in schema else JSON
    kinds = schema.get("type", _kind_of_values(schema))
    kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind != "null"]
    if set(kinds) == {"integer", "number"}:
        return DOUBLE
    if len(kinds) != 1:
        return JSON
    if kinds[0] == "array":
        return list_of(_column(schema["items"], document, inside)) if "items" in schema else JSON
    if kinds[0] == "object":
        fields = schema.get("properties", {})
        return struct_of({name: _column(each, document, inside) for name, each in fields.items()})
    return _TYPES.get(kinds[0], JSON)


def _kind_of_values(schema: Mapping[str, Any]) -> str | None:
    """The type of the values that a schema lists, where it names no type."""
    values = [value for value in schema.get("enum", [schema.get("const")]) if value is not None]
    return "string" if values and all(isinstance(value, str) for value in values) else None


def _resolved(reference: Any, document: Mapping[str, Any]) -> Any:
    """The part of the document that a reference in it names; None for any other reference."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    place: Any = document
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        place = place.get(name) if isinstance(place, Mapping) else None
    return place
