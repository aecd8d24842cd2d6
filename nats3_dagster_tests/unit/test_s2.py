"""S2 as the format describes it: blocks written out by hand, and whole frames of any size."""

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.jetstream.consumers.s2 import Reader, decoded


def literal(data: bytes) -> bytes:
    return bytes([(len(data) - 1) << 2]) + data


@pytest.mark.parametrize(
    ("elements", "content"),
    [
        (literal(b"abcd"), b"abcd"),
        (bytes([60 << 2, 99]) + b"x" * 100, b"x" * 100),
        (bytes([61 << 2]) + (299).to_bytes(2, "little") + b"x" * 300, b"x" * 300),
        # A copy of one byte's offset: 4 to 11 bytes, from 1 to 2,047 before.
        (literal(b"abcd") + bytes([(7 - 4) << 2 | 1, 4]), b"abcd" + b"abcdabc"),
        (literal(b"0123456789") + bytes([0 << 2 | 1, 10]), b"01234567890123"),
        # Of two and four bytes.
        (literal(b"abcd") + bytes([(20 - 1) << 2 | 2, 2, 0]), b"abcd" + b"cd" * 10),
        (literal(b"abcd") + bytes([(5 - 1) << 2 | 3, 3, 0, 0, 0]), b"abcdbcdbc"),
        # Repeats of the last offset: 4 to 8, from 8, from 260 and from 65,540 bytes.
        (literal(b"abcd") + bytes([1 << 2 | 1, 2, 0 << 2 | 1, 0]), b"abcd" + b"cdcdc" + b"dcdc"),
        (literal(b"ab") + bytes([0 << 2 | 1, 2, 4 << 2 | 1, 0]), b"ab" * 7),
        (literal(b"ab") + bytes([0 << 2 | 1, 2, 5 << 2 | 1, 0, 2]), b"ab" * 8),
        (literal(b"ab") + bytes([0 << 2 | 1, 2, 6 << 2 | 1, 0, 2, 1]), b"ab" * (3 + 259)),
        (literal(b"ab") + bytes([0 << 2 | 1, 2, 7 << 2 | 1, 0, 2, 0, 0]), b"ab" * (3 + 32_771)),
    ],
)
def test_elements(elements: bytes, content: bytes) -> None:
    size = len(content)
    head = b""
    while size > 127:
        head, size = head + bytes([size % 128 + 128]), size // 128
    assert decoded(head + bytes([size]) + elements) == content


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x80",
        b"\x05" + literal(b"abcd"),  # another size
        b"\x04" + literal(b"abcd")[:3],
        b"\x08" + literal(b"abcd") + bytes([0 << 2 | 1, 5]),  # from before its beginning
        b"\x08" + literal(b"abcd") + bytes([0 << 2 | 1, 0]),  # a repeat of no offset
        b"\xff\xff\xff\x7f",
    ],
)
def test_damaged_blocks(block: bytes) -> None:
    with pytest.raises(ValueError, match="block"):
        decoded(block)


@given(st.lists(st.binary(max_size=5_000), max_size=4), st.integers(1, 700))
def test_frames_in_parts(contents: list[bytes], part: int) -> None:
    """Framed snappy is a part of the format, and parts may be put together. An index is skipped."""
    skipped = b"\x99\x03\0\0abc"
    data = skipped.join(bytes(cramjam.snappy.compress(content)) for content in contents) + skipped
    reader = Reader()
    read = b"".join(reader.feed(data[at : at + part]) for at in range(0, len(data), part))
    assert read == b"".join(contents)


def test_another_form() -> None:
    with pytest.raises(ValueError, match="type 31"):
        Reader().feed(b"\x1f\x8b\x08\x00\x00" + bytes(1 << 20))
