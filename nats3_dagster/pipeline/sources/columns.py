"""Columns of a read of a stream: batches of MESSAGES as the batches that Spark was promised.

Invariant: nothing here touches single messages but the map of headers.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.read.breaks import UNKNOWN_FORM
from nats3_dagster.pipeline.pyspark_features import arrow_schema
from nats3_dagster.pipeline.sources.header_maps import as_maps

# What a server adds to the headers of a message that it sends without its payload, at their end. A message without
# headers gets a block of its own.
_SIZE = rb"(?s)(?P<before>.*\r\n)Nats-Msg-Size: ?(?P<size>\d+)\r\n\r\n$"
_EMPTY = b"NATS/1.0\r\n"


def needs_payloads(schema: StructType) -> bool:
    """Whether the payloads must be sent. Without them a block of headers that holds none is none: so who asks for exact
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
