"""Manifests: a proof in themselves, or refused."""

import json
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import zstandard

from nats3_dagster.archive.proof.manifests import (
    StrayManifest,
    baseless_manifests,
    highest_hours,
    highest_manifests,
    stray_manifests,
)
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
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import archive

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


# Manifests in a bucket


class FoundBucket:
    """A bucket with these objects."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = objects

    def list(self, folder: str) -> list[tuple[str, int]]:
        return [(key, len(data)) for key, data in self._objects.items() if key.startswith(f"{folder}/")]

    def get(self, key: str) -> bytes:
        if key not in self._objects:
            raise ObjectMissing(f"{key} is gone")
        return self._objects[key]


def key_of(number: int, hour: str = HOUR, mark: str = "a", name: str = "logs") -> str:
    folder = f"team/archive={name}/date={hour[:10]}/hour={hour[11:13]}"
    return f"{folder}/manifest-{number:04}-{mark * 12}.json.zst"


EIGHT, NINE = "2026-11-21-08:00", "2026-11-21-09:00"
TEAM: Archive = archive(prefix="team", bucket="cold")


def workspace_of(objects: Mapping[str, bytes], known: Sequence[str], seals: Mapping[str, int]) -> Workspace:
    """A workspace whose catalog knows these keys, and the number of the newest seal of these hours."""
    seals_of = SimpleNamespace(
        sealed_keys=lambda bucket, keys: {*known} & {*keys} if bucket == "cold" else set(),
        select=lambda _: [SimpleNamespace(hour=hour, number=number) for hour, number in seals.items()],
    )
    bucket = FoundBucket(objects)
    return cast("Workspace", SimpleNamespace(bucket=lambda _: bucket, catalog=SimpleNamespace(seals=seals_of)))


@pytest.mark.parametrize(
    ("numbers", "at_least", "highest"),
    [
        ([], 1, []),
        ([1], 1, ["1a"]),
        ([1], 2, []),
        ([2], 2, ["2a"]),
        ([1, 3, 2], 2, ["3a"]),
        ([1, 3, 2], 3, ["3a"]),
        ([1, 3, 2], 4, []),
    ],
)
def test_the_highest_manifests_of_an_hour(numbers: list[int], at_least: int, highest: list[str]) -> None:
    """Two of one number may be there, those of other hours and archives do not count, nor do chunks."""
    keys = [key_of(number) for number in numbers]
    others = [key_of(9, EIGHT), key_of(9, name="logs2"), key_of(1).rsplit("/", 1)[0] + "/x.parquet"]
    folder: Any = SimpleNamespace(archive=TEAM, bucket=FoundBucket(dict.fromkeys([*keys, *others], b"")))
    found = [key_of(int(name[0]), mark=name[1]) for name in highest]
    assert highest_manifests(folder, HOUR, at_least=at_least) == found
    twins = [key_of(number, mark="b") for number in numbers]
    folder.bucket = FoundBucket(dict.fromkeys([*keys, *twins, *others], b""))
    assert len(highest_manifests(folder, HOUR, at_least=at_least)) == 2 * len(highest)


def test_manifests_that_the_catalog_does_not_know() -> None:
    """The seal of seven o'clock has the number 2, and nine o'clock has none."""
    keys = [key_of(n) for n in (3, 1, 2)] + [
        key_of(2, mark="b"),
        key_of(1, NINE),
        key_of(4, EIGHT),
        key_of(7, name="x"),
    ]
    objects = dict.fromkeys([*keys, key_of(1).rsplit("/", 1)[0] + "/x.parquet"], b"")
    workspace = workspace_of(objects, [key_of(2), key_of(4, EIGHT)], {HOUR: 2, EIGHT: 4})
    expected = [
        StrayManifest(key_of(1), HOUR, 1, False),
        StrayManifest(key_of(2, mark="b"), HOUR, 2, True),
        StrayManifest(key_of(3), HOUR, 3, True),
        StrayManifest(key_of(1, NINE), NINE, 1, True),
    ]
    assert stray_manifests(workspace, TEAM) == expected
    assert stray_manifests(workspace, TEAM, [NINE]) == expected[3:]
    assert stray_manifests(workspace, TEAM, [EIGHT, HOUR]) == expected[:3]
    assert highest_hours(expected) == [HOUR, NINE]
    assert highest_hours(expected[:1]) == []


def test_strays_from_which_nothing_can_be_taken() -> None:
    """No manifest at all, or none of whose objects is there; not one of a newer release, nor one of an empty hour."""
    folder = key_of(1).rsplit("/", 1)[0]
    chunks = [replace(held(1, 3), key=f"{folder}/1.parquet"), replace(held(4, 6), key=f"{folder}/4.parquet")]
    whole = manifest(ManifestPart(5, 1, 6, tuple(chunks)))
    empty = manifest(ManifestPart(5, 1, 3, (), (ManifestGap(1, 3, "deleted"),)))
    contents = {
        key_of(1): whole.encode()[0],
        key_of(2): b"no manifest",
        key_of(3): stored(fields(manifest_version=MANIFEST_VERSION + 1)),
        key_of(4): empty.encode()[0],
    }
    strays = [StrayManifest(key, HOUR, number, True) for number, key in enumerate(contents, 1)]

    def baseless(strays: list[StrayManifest], *there: str) -> list[int]:
        made = workspace_of({**contents, **dict.fromkeys(there, b"")}, [], {})
        return [stray.number for stray in baseless_manifests(made, TEAM, strays)]

    assert baseless(strays) == [1, 2]
    assert baseless(strays, chunks[1].key) == [2]
    assert baseless(strays, chunks[0].key, chunks[1].key) == [2]
    assert baseless([replace(stray, is_highest=False) for stray in strays]) == []
    # It was removed since the bucket was listed.
    assert baseless([*strays, StrayManifest(key_of(5), HOUR, 5, True)]) == [1, 2]
