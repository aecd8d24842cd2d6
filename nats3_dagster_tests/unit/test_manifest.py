"""Manifests: a proof in themselves, or refused."""

import json
import tracemalloc
from dataclasses import asdict, replace

import pytest
import zstandard

from nats3_dagster.chunks.manifest import (
    MANIFEST_VERSION,
    MOST_TEXT,
    Manifest,
    ManifestChunk,
    ManifestGap,
    ManifestOther,
    ManifestPart,
    decode_manifest,
)
from nats3_dagster.errors import ChunkError

SHA = "ab" * 32
HOUR = "2026-11-21-07:00"
EXPIRED = ManifestGap(11, 12, "expired", "2026-11-21-05:00", HOUR, 5, 9)


def held(first: int, last: int, messages: int | None = None) -> ManifestChunk:
    count = last - first + 1 if messages is None else messages
    return ManifestChunk(f"k/{first}", SHA, 100, first, last, count, 1000, 1, 2)


def manifest(*parts: ManifestPart) -> Manifest:
    return Manifest("logs", "LOGS", "cold", "team", HOUR, 1, parts)


TWO = manifest(
    ManifestPart(
        5,
        11,
        40,
        (held(13, 20, 7), held(22, 38)),
        (EXPIRED, ManifestGap(39, 40, "deleted")),
        (ManifestOther(21, 21, "2026-11-21-08:00"),),
    ),
    ManifestPart(9, 1, 3, (held(1, 3),)),
)


def stored(fields: object) -> bytes:
    return zstandard.ZstdCompressor().compress(json.dumps(fields).encode())


def fields(**changes: object) -> dict[str, object]:
    return {"manifest_version": MANIFEST_VERSION, **asdict(TWO), **changes}


def test_what_is_written_is_read_back() -> None:
    data, key = TWO.encode()
    assert decode_manifest(data) == TWO
    assert TWO.encode() == (data, key)
    assert key.startswith("team/archive=logs/date=2026-11-21/hour=07/manifest-0001-")
    assert key.endswith(".json.zst")
    assert (TWO.messages, TWO.gap_size, TWO.losses) == (27, 4, 2)
    assert decode_manifest(stored(fields())) == TWO


def test_an_hour_without_messages() -> None:
    assert decode_manifest(manifest().encode()[0]) == manifest()


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (ManifestPart(5, 1, 20, (held(1, 10), held(12, 20))), "between 10 and 12 are in no chunk"),
        (ManifestPart(5, 1, 20, (held(1, 10), held(10, 20))), "between 10 and 10 are there twice"),
        (ManifestPart(5, 1, 20, (held(2, 20),)), "between 0 and 2"),
        (ManifestPart(5, 1, 20, (held(1, 19),)), "between 19 and 21"),
        (ManifestPart(5, 1, 20, (held(1, 21),)), "between 21 and 21"),
        (ManifestPart(5, 1, 20, (held(1, 20),), (ManifestGap(5, 6, "deleted"),)), "are there twice"),
        (ManifestPart(5, 1, 20, (held(1, 20),), (), (ManifestOther(5, 6, "h"),)), "are there twice"),
        (ManifestPart(5, 11, 12, (), (replace(EXPIRED, last_hour="2026-11-21-06:00"),)), "is of another hour"),
        (ManifestPart(5, 11, 12, (), (ManifestGap(11, 12, "expired"),)), "is of another hour"),
        (ManifestPart(5, 11, 12, (), (replace(EXPIRED, reason="deleted"),)), "is of another hour"),
        (ManifestPart(5, 1, 20, (held(1, 19),), (), (ManifestOther(20, 20, HOUR),)), "is of another hour"),
        (ManifestPart(5, 1, 20, (held(1, 20, 21),)), "counts messages that cannot be"),
        (ManifestPart(5, 1, 20, (held(1, 20, 0),)), "counts messages that cannot be"),
    ],
)
def test_one_that_does_not_add_up_is_neither_written_nor_read(part: ManifestPart, what: str) -> None:
    wrong = manifest(part)
    with pytest.raises(ChunkError, match=what):
        wrong.encode()
    with pytest.raises(ChunkError, match=what):
        decode_manifest(stored({"manifest_version": MANIFEST_VERSION, **asdict(wrong)}))


def test_every_flipped_bit_is_noticed() -> None:
    data = bytearray(TWO.encode()[0])
    for at in range(len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            try:
                seen = decode_manifest(bytes(data))
            except ChunkError:
                seen = None
            assert seen in (None, TWO), (at, bit)
            data[at] ^= 1 << bit


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is not a manifest"),
        (b"PAR1", "is not a manifest"),
        (stored([]), "is not a manifest"),
        (stored({"a": 1}), "is not a manifest"),
        (stored(fields(manifest_version=2)), "has version 2"),
        (stored(fields(number="x")), "cannot be read: number"),
        (stored(fields(surprise=1)), "cannot be read: surprise"),
        (stored(fields(parts=[{"created_ns": 1}])), "cannot be read: parts.0.first_seq"),
        (
            stored(
                fields(parts=[{**asdict(TWO.parts[1]), "gaps": [{"first_seq": 4, "last_seq": 4, "reason": "lost"}]}])
            ),
            "cannot be read: parts.0.gaps.0.reason",
        ),
    ],
)
def test_anything_else_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(ChunkError, match=what):
        decode_manifest(data)


def bomb(size: int) -> bytes:
    """A frame of a few KB with so many bytes of JSON."""
    writer = zstandard.ZstdCompressor(level=19).compressobj()
    parts = [writer.compress(b'{"parts":"'), *(writer.compress(b" " * (1 << 20)) for _ in range(size >> 20))]
    return b"".join([*parts, writer.compress(b'"}'), writer.flush()])


def test_a_frame_that_holds_more_than_any_manifest_takes_no_memory() -> None:
    data = bomb(1 << 30)
    assert len(data) < 100_000
    tracemalloc.start()
    with pytest.raises(ChunkError, match="is not a manifest"):
        decode_manifest(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * MOST_TEXT
    nested = zstandard.ZstdCompressor().compress(b'{"parts":' + b"[" * 1_000_000)
    with pytest.raises(ChunkError, match="is not a manifest"):
        decode_manifest(nested)


def test_none_is_written_that_would_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(zstandard.ZstdDecompressor().decompress(TWO.encode()[0]))
    monkeypatch.setattr("nats3_dagster.chunks.manifest.MOST_TEXT", size)
    assert decode_manifest(TWO.encode()[0]) == TWO
    monkeypatch.setattr("nats3_dagster.chunks.manifest.MOST_TEXT", size - 1)
    with pytest.raises(ChunkError, match="more than"):
        TWO.encode()


def test_another_state_of_the_hour_has_another_key() -> None:
    assert replace(TWO, number=2).encode()[1] != TWO.encode()[1]
