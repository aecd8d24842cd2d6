"""Reads of a socket come as the loop delivered them: every byte once, in its order, and the sender is held back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.jetstream.blocks import read_block

LIMIT = 10


class Transport:
    """Counts how often reading was stopped and goes on."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


@given(st.binary(max_size=20), st.lists(st.lists(st.binary(min_size=1, max_size=30))))
def test_every_byte_comes_once_in_its_order(line: bytes, deliveries: list[list[bytes]]) -> None:
    line = line.replace(b"\n", b"")

    async def go() -> bytes:
        reader = asyncio.StreamReader(limit=LIMIT * 4)
        reader.feed_data(line + b"\r\n" + b"before")
        assert await reader.readline() == line + b"\r\n"
        got = []
        for pieces in filter(None, deliveries):
            for piece in pieces:
                reader.feed_data(piece)
            got.append(await read_block(reader))
        reader.feed_eof()
        while block := await read_block(reader):
            got.append(block)
        assert reader.at_eof()
        return b"".join(got)

    assert asyncio.run(go()) == b"before" + b"".join(piece for pieces in deliveries for piece in pieces)


def test_a_read_waits_for_what_comes_and_ends_with_the_connection() -> None:
    async def go() -> None:
        reader = asyncio.StreamReader()
        waiting = asyncio.create_task(read_block(reader))
        await asyncio.sleep(0)
        reader.feed_data(b"later")
        assert await waiting == b"later"
        reader.set_exception(ConnectionResetError())
        with pytest.raises(ConnectionResetError):
            await read_block(reader)

    asyncio.run(go())


def test_a_piece_is_not_copied() -> None:
    async def go() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"first")
        assert await read_block(reader) == b"first"
        reader.feed_data(piece := b"x" * 100)
        assert await read_block(reader) is piece

    asyncio.run(go())


def test_a_sender_that_is_ahead_is_stopped_and_goes_on_when_there_is_room() -> None:
    async def go() -> None:
        reader, transport = asyncio.StreamReader(limit=LIMIT), Transport()
        reader.set_transport(transport)  # type: ignore[arg-type]
        reader.feed_data(b"first")
        assert await read_block(reader) == b"first"
        reader.feed_data(b"x" * LIMIT)
        reader.feed_data(b"y" * LIMIT)
        assert transport.calls == []
        reader.feed_data(b"z")
        assert transport.calls == ["pause"]
        assert await read_block(reader) == b"x" * LIMIT
        assert transport.calls == ["pause"]
        assert await read_block(reader) == b"y" * LIMIT
        assert transport.calls == ["pause", "resume"]
        assert await read_block(reader) == b"z"

    asyncio.run(go())
