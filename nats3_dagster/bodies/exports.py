"""The body that creates an export."""

from typing import Any

from pydantic import ConfigDict, Field

from nats3_dagster.bodies.base import Body, Text
from nats3_dagster.model import ExportSpec


class CreateExport(Body):
    """A new export. `to` must be given."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "to": "s3://lake/pizza", "decode": "json", "key": "subject:2", "format": "csv",
                    "columns": ["order", "price"],
                },
            ]
        }
    )  # fmt: skip

    name: Text | None = Field(None, description="Lower-case letters, digits and _.")
    to: Text = Field(description="Where the files go: s3://bucket/prefix, gs://, az:// or file:///folder.")
    subjects: list[Text] | None = Field(
        None, description="Export only these subjects (NATS filters). Default: all of the archive.", max_length=256
    )
    decode: Text | None = Field(
        None, description="raw, text, json, msgpack, avro, protobuf, or your function package.module:function."
    )
    schema_: Text | None = Field(
        None, alias="schema", description="A file: JSON Schema, Avro schema, or descriptors.pb#package.Message."
    )
    key: Text | None = Field(
        None, description="What files are split by: subject:2, header:Name, field:a.b or decoder. Default: no split."
    )
    format: Text | None = Field(None, description="ndjson (the default), csv, parquet, raw or messages.")
    compression: Text | None = Field(None, description="gzip (the default), zstd, snappy (Parquet alone) or none.")
    columns: list[Text] | None = Field(None, description="The fields to take, for csv and parquet.", max_length=2000)
    path: Text | None = Field(None, description="The path of a file below `to`, with names in braces.")
    interval_minutes: int | None = Field(None, description="1, 5, 15 or 60: minutes whose messages share a file.")
    max_undecoded: int | None = Field(None, description="More messages of an hour that do not decode fail its run.")

    escape_formulas: bool | None = Field(
        None, description="Put an apostrophe before fields that a spreadsheet would run as a formula; for csv."
    )

    def spec(self, name: str) -> ExportSpec:
        """The export of this name. Raises OperatorError if a field is invalid."""
        return ExportSpec(name=name, **spec_fields(self.model_dump(by_alias=True, exclude_none=True)))


def spec_fields(document: dict[str, Any]) -> dict[str, Any]:
    """The fields of ExportSpec that a document has, without the name."""
    fields = {("destination" if field == "to" else field): value for field, value in document.items()}
    fields.pop("name", None)
    return {field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
