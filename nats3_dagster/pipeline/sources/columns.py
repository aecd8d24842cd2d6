"""Columns of a read of a stream: batches of MESSAGES as the batches that Spark was promised.

Invariant: nothing here touches single messages but the map of headers.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StructType

from nats3_dagster.errors import OperatorError, SourceError
from nats3_dagster.jetstream.read.breaks import UNKNOWN_FORM
from nats3_dagster.pipeline.pyspark_features import arrow_schema
from nats3_dagster.pipeline.sources.header_maps import as_maps
from nats3_dagster.settings.names import nearest

# What a server adds to the headers of a message that it sends without its payload, at their end. A message without
# headers gets a block of its own.
_SIZE = rb"(?s)(?P<before>.*\r\n)Nats-Msg-Size: ?(?P<size>\d+)\r\n\r\n$"
_EMPTY = b"NATS/1.0\r\n"
# The types that each column may have.
ColumnTypes = Mapping[str, Sequence[DataType]]


def needs_payloads(schema: StructType) -> bool:
    """True if the payloads must be sent. Without them a block of headers that holds none is none: so who asks for exact
    blocks gets payloads sent as well."""
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    return "data" in types or types.get("headers") == "binary"


class Columns:
    """Makes batches of one schema. It pickles."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        self.headers_only = not needs_payloads(schema)

    def batch(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of messages of the schema MESSAGES, which were read with payloads unless `headers_only`."""
        target = arrow_schema(self._schema)
        sizes = None
        if self.headers_only and {"headers", "size"} & set(target.names):
            messages, sizes = _without_size(messages)
        return pa.RecordBatch.from_arrays([_column(messages, field, sizes) for field in target], schema=target)


def _column(messages: pa.RecordBatch, field: pa.Field, sizes: pa.Array | None) -> pa.Array:
    if field.name == "time":
        # Cut to the microsecond: no stream has messages from before 1970.
        return messages.column("time_ns").cast(pa.timestamp("ns", "UTC")).cast(field.type, safe=False)
    if field.name == "size":
        column = sizes if sizes is not None else pc.binary_length(messages.column("data"))
    elif field.name == "headers" and pa.types.is_map(field.type):
        return as_maps(messages.column("headers"), field.type)
    else:
        column = messages.column(field.name)
    return column.cast(field.type)


def _without_size(messages: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
    """The messages with the headers that they were published with, and the sizes of their payloads."""
    parts = pc.extract_regex(messages.column("headers"), pattern=_SIZE)
    if parts.null_count:
        seq = messages.column("seq").filter(pc.is_null(parts))[0].as_py()
        raise SourceError(f"The server does not say how large the payload of message {seq} is", UNKNOWN_FORM)
    before, sizes = pc.struct_field(parts, "before"), pc.struct_field(parts, "size")
    blocks = pc.binary_join_element_wise(before, pa.scalar(b"\r\n"), pa.scalar(b""))
    blocks = pc.if_else(pc.equal(before, pa.scalar(_EMPTY)), pa.scalar(None, pa.binary()), blocks)
    at = messages.schema.get_field_index("headers")
    return messages.set_column(at, messages.schema.field(at), blocks), sizes.cast(pa.string()).cast(pa.int32())


def check_names(source: str, names: Sequence[str], columns: ColumnTypes) -> None:
    """Raises OperatorError unless the option `columns` names columns of the source, and each once."""
    for name in names:
        if name not in columns:
            raise _unknown(f"The option columns of {source} names {name!r}, which it does not have", name, columns)
    for name in names:
        if names.count(name) > 1:
            raise OperatorError(f"The option columns of {source} names {name} twice", "Name it once", field="columns")


def check_schema(source: str, schema: StructType, columns: ColumnTypes) -> None:
    """Raises OperatorError unless a schema that the user gave has columns of the source, in types that they may have.
    It makes no difference if a column takes nulls."""
    for column in schema.fields:
        if column.name not in columns:
            raise _unknown(f"{source} has no column {column.name!r}, which the schema names", column.name, columns)
        types = [type_.simpleString() for type_ in columns[column.name]]
        if column.dataType.simpleString() not in types:
            raise OperatorError(
                f"The column {column.name} of {source} is {' or '.join(types)}, and the schema says "
                f"{column.dataType.simpleString()}",
                "Give it that type in the schema, and cast it afterwards",
            )


def _unknown(what: str, name: str, columns: ColumnTypes) -> OperatorError:
    near = nearest(name, columns)
    return OperatorError(what, f"Did you mean {near}?" if near else f"There are {', '.join(columns)}", field="columns")
