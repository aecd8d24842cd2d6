"""Chunks: the archive's file format, which `docs/chunk-format.md` specifies.

Invariant: bytes in, bytes out. No module here opens a socket, a file or a database.
"""

from nats3_dagster.chunks.columns import SCHEMA
from nats3_dagster.chunks.read import ChunkReader, open_chunk
from nats3_dagster.chunks.write import ChunkWriter

__all__ = ["SCHEMA", "ChunkReader", "ChunkWriter", "open_chunk"]
