"""Decoders with a schema: JSON Schema, Avro and Protobuf."""

from pathlib import Path

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.avro import avro_decoder
from nats3_dagster.exports.decoding.base import EachDecoder
from nats3_dagster.exports.decoding.json_schema import json_schema_decoder
from nats3_dagster.exports.decoding.protobuf import protobuf_decoder
from nats3_dagster.model import ExportSpec


def read_schema(spec: ExportSpec) -> bytes | None:
    """The content of the schema's file; None where the export has none. Raises OperatorError."""
    if spec.schema is None:
        return None
    path = Path(spec.schema.partition("#")[0] if spec.decode == "protobuf" else spec.schema)
    try:
        return path.read_bytes()
    except OSError as error:
        raise OperatorError(
            f"The schema {path} cannot be read: {error.strerror}", "Name a file that is there", field="schema"
        ) from None


def decoder_of(spec: ExportSpec, schema: bytes) -> EachDecoder:
    """The decoder for a content of the schema's file. Raises OperatorError."""
    if spec.decode == "avro":
        return avro_decoder(schema)
    if spec.decode == "protobuf":
        return protobuf_decoder(schema, (spec.schema or "").partition("#")[2], keeps_types=spec.format == "parquet")
    return json_schema_decoder(schema, exact=spec.format == "csv")
