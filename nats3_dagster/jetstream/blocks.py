"""Pieces of a stream as the socket delivered them: the buffer of a reader that does not copy them.

Invariant: what was put in comes out in its order, each byte once.
"""

from asyncio import StreamReader
from collections import deque
from typing import Any


class Blocks:
    """The part of bytearray's interface that StreamReader.feed_data uses of its buffer. With a bytearray each byte is
    copied into it and out of it."""

    def __init__(self, data: bytes = b"") -> None:
        self._blocks: deque[bytes] = deque([data] if data else [])
        self._size = len(data)

    def __len__(self) -> int:
        return self._size

    def extend(self, data: bytes) -> None:
        """Add what came."""
        self._blocks.append(bytes(data))
        self._size += len(data)

    def take(self) -> bytes:
        """Take out the first piece; empty if there is none."""
        block = self._blocks.popleft() if self._blocks else b""
        self._size -= len(block)
        return block


async def read_block(reader: StreamReader) -> bytes:
    """Returns the next piece as the loop delivered it; empty at the end. Nothing else can be read from this reader
    afterwards. It does what StreamReader.read does, with the same parts of asyncio."""
    of_asyncio: Any = reader
    if not isinstance(of_asyncio._buffer, Blocks):
        of_asyncio._buffer = Blocks(bytes(of_asyncio._buffer))
    if of_asyncio._exception is not None:
        raise of_asyncio._exception
    if not of_asyncio._buffer and not of_asyncio._eof:
        await of_asyncio._wait_for_data("read")
    block = of_asyncio._buffer.take()
    of_asyncio._maybe_resume_transport()
    return block
