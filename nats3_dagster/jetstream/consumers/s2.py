"""S2, the compression of a server's backup: framed snappy with longer and repeated copies (klauspost/compress, s2).

Written after the format's description. A backup is read to the end of its consumers only, some KB of it. Checksums of
frames are not looked at: the connection has its own, and what comes out is JSON that has to parse.
"""

from typing import Final

# Types of frames.
_COMPRESSED, _PLAIN, _FIRST_SKIPPED = 0x00, 0x01, 0x80
# Bytes before a frame's content: its type and its size; and of the checksum before its block.
_HEADER, _CHECKSUM = 4, 4
# Bytes of a block at most, by the format.
_MOST: Final = 4 << 20
# Kinds of elements, the lowest two bits of each.
_LITERAL, _COPY_1, _COPY_2 = 0, 1, 2
# Copies of one byte's offset that repeat the last offset: bytes of the length, and what is added to it.
_REPEATS: Final = {5: (1, 8), 6: (2, 260), 7: (3, 65_540)}


class Reader:
    """Frames as they come in; their content as far as it is known."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Returns the content of the frames that are whole now. Raises ValueError for anything but S2."""
        self._rest += data
        out = bytearray()
        while len(self._rest) >= _HEADER:
            kind, end = self._rest[0], _HEADER + int.from_bytes(self._rest[1:_HEADER], "little")
            if len(self._rest) < end:
                break
            content = bytes(self._rest[_HEADER:end])
            del self._rest[:end]
            if kind == _COMPRESSED:
                out += decoded(content[_CHECKSUM:])
            elif kind == _PLAIN:
                out += content[_CHECKSUM:]
            elif kind < _FIRST_SKIPPED:
                raise ValueError(f"a frame of the type {kind}")
        return bytes(out)


def decoded(block: bytes) -> bytes:
    """Returns the content of one block. Raises ValueError for one that is damaged."""
    try:
        size, at = _uvarint(block)
        if size > _MOST:
            raise ValueError("a block that is too large")
        out, offset = bytearray(), 0
        while at < len(block):
            tag, at = block[at], at + 1
            kind, number = tag & 3, tag >> 2
            if kind == _LITERAL:
                if number >= 60:
                    width = number - 59
                    number, at = int.from_bytes(block[at : at + width], "little"), at + width
                out += block[at : at + number + 1]
                at += number + 1
                continue
            if kind == _COPY_1:
                length, high = number & 7, tag >> 5 << 8
                near, at = high | block[at], at + 1
                if near:
                    offset, length = near, length + 4
                else:
                    width, more = _REPEATS.get(length, (0, length + 4))
                    length, at = more + int.from_bytes(block[at : at + width], "little"), at + width
            else:
                width = 2 if kind == _COPY_2 else 4
                offset, at, length = int.from_bytes(block[at : at + width], "little"), at + width, number + 1
            _copy(out, offset, length)
    except IndexError as error:
        raise ValueError("a block that ends early") from error
    if len(out) != size:
        raise ValueError(f"a block of {len(out)} bytes that says {size}")
    return bytes(out)


def _copy(out: bytearray, offset: int, length: int) -> None:
    """Append bytes that lie `offset` before the end, and may reach into what is appended. Raises ValueError."""
    begin = len(out) - offset
    if offset < 1 or begin < 0 or len(out) + length > _MOST:
        raise ValueError("a copy from outside the block")
    part = bytes(out[begin : begin + length])
    out += (part * (length // len(part) + 1))[:length]


def _uvarint(data: bytes) -> tuple[int, int]:
    """The number, and where it ends. Raises IndexError."""
    number = at = 0
    while data[at] >= 0x80:
        number, at = number | (data[at] & 0x7F) << 7 * at, at + 1
    return number | data[at] << 7 * at, at + 1
