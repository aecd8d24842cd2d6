"""The OpenAPI document: complete, and valid by the rules of JSON Schema. No server is asked."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nats3_dagster.api.app import create_app
from nats3_dagster.settings import Settings

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(Settings.load()).openapi()


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{m} {path}", one) for path, methods in document["paths"].items() for m, one in methods.items()]


def errors(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    whole = schema | {"components": document["components"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(value)]


def test_each_operation_is_documented(document: dict[str, Any]) -> None:
    every = operations(document)
    assert len(every) == 44
    assert len({one["operationId"] for _, one in every}) == len(every)
    for name, one in every:
        assert one["summary"], name
        assert one["description"], name
        assert one["tags"], name
        for status in ("400", "404", "409", "413", "422", "500", "503"):
            if (name, status) != ("get /api/v1/ready", "503"):
                assert one["responses"][status]["content"] == PROBLEM, (name, status)
        for parameter in one.get("parameters", []):
            assert parameter["in"] == "header" or parameter.get("description"), (name, parameter)
            assert not parameter["required"] or _examples(parameter["schema"]), (name, parameter)


def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    seen = 0
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
        for example in schema.get("examples", []):
            # FastAPI leaves null out of examples.
            assert errors(document, schema, dict.fromkeys(schema.get("required", ())) | example) == []
            seen += 1
    for name, one in operations(document):
        for parameter in one.get("parameters", []):
            assert all(errors(document, parameter["schema"], value) == [] for value in _examples(parameter["schema"]))
        for content in one.get("requestBody", {}).get("content", {}).values():
            body = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
            assert body["examples"], name
    assert seen >= 4


def _examples(schema: dict[str, Any]) -> list[Any]:
    return schema.get("examples", [])
