"""Chunks: the archive's file format. `docs/chunk-format.md` specifies it.

The rule kept here: bytes in, bytes out. Nothing below this package opens a socket, a file or a database.
"""

from nats3_dagster.chunks.columns import FORMAT_VERSION, SCHEMA
from nats3_dagster.chunks.naming import ChunkKey, archive_prefix, object_key, parse_key
from nats3_dagster.chunks.read import ChunkReader, open_chunk
from nats3_dagster.chunks.write import ChunkWriter

__all__ = [
    "FORMAT_VERSION",
    "SCHEMA",
    "ChunkKey",
    "ChunkReader",
    "ChunkWriter",
    "archive_prefix",
    "object_key",
    "open_chunk",
    "parse_key",
]
