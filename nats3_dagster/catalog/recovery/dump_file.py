"""The file of a dump: its parts in their order, compressed and proven by a digest at its end.

A zstd stream of frames: four bytes of length, big-endian, then the bytes. The first frame is the head, JSON. For each
table follow a frame of JSON, with its name and columns, frames of Postgres' COPY text, and an empty frame. Last come
the sequences, JSON, and the SHA-256 of all frames before.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import IO, Any

import zstandard

from nats3_dagster.errors import CatalogError

FORMAT = 1
_MOST = 64 << 20
_DAMAGED = "Take another dump; nothing was loaded of this one"


class DumpWriter:
    """Writes frames into a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)
        self._hash = hashlib.sha256()

    def json(self, value: dict[str, Any]) -> None:
        self.data(json.dumps(value, sort_keys=True).encode())

    def data(self, frame: bytes | memoryview) -> None:
        for at in range(0, max(len(frame), 1), _MOST):
            part = bytes(frame[at : at + _MOST])
            whole = len(part).to_bytes(4, "big") + part
            self._hash.update(whole)
            self._stream.write(whole)

    def end(self) -> str:
        """Write the digest, which is returned, and what is left."""
        digest = self._hash.hexdigest()
        self.data(digest.encode())
        self._stream.close()  # pyright: ignore[reportUnknownMemberType]
        return digest


class DumpReader:
    """Reads frames. Raises CatalogError for a file that is no dump, or not whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=8 << 20).stream_reader(file)
        self._hash = hashlib.sha256()

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.data())
        except ValueError as error:
            raise CatalogError("The file is not a dump of a catalog", _DAMAGED) from error
        if not isinstance(value, dict):
            raise CatalogError("The file is not a dump of a catalog", _DAMAGED)
        return value  # pyright: ignore[reportUnknownVariableType]

    def data(self) -> bytes:
        length = self._read(4)
        size = int.from_bytes(length, "big")
        if size > _MOST:
            raise CatalogError("The file is not a dump of a catalog", _DAMAGED)
        frame = self._read(size)
        self._hash.update(length + frame)
        return frame

    def rows(self) -> Iterator[bytes]:
        """The COPY text of a table, up to its end."""
        while frame := self.data():
            yield frame

    def end(self) -> str:
        """The digest. Raises CatalogError unless it is that of all frames."""
        digest = self._hash.hexdigest()
        if self.data() != digest.encode():
            raise CatalogError("The dump does not match its own digest", _DAMAGED)
        return digest

    def _read(self, size: int) -> bytes:
        try:
            data = b""
            while len(data) < size:
                if not (part := self._stream.read(size - len(data))):
                    raise CatalogError("The dump ends before its end: it is not whole", _DAMAGED)
                data += part
        except zstandard.ZstdError as error:
            raise CatalogError("The file is not a dump of a catalog, or it is damaged", _DAMAGED) from error
        return data
