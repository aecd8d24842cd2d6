"""Records of erasures, and the arithmetic of their sequences, against sets of numbers."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.archive.stored.erasure_record import decode_record, encode_record, record_digest, record_key
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import SeqRange, shared, without
from nats3_dagster.model.erasure import ErasureRecord, all_sequences, joined

FOLDER = "of/logs/archive=logs"
RECORD = ErasureRecord(
    UUID(int=7), 3, "a" * 64, datetime(2026, 11, 28, 10, 34, 1, 5, UTC), {5: (SeqRange(2, 2), SeqRange(4, 9)), 1: ()}
)


def disjoint(most: int = 40) -> Any:
    """Ranges that do not overlap, in any order; some touch."""
    cuts = st.sets(st.integers(1, most), max_size=16).map(sorted)
    pairs = cuts.map(lambda c: [SeqRange(a, b - 1) for a, b in zip(c[::2], c[1::2], strict=False)])
    return pairs.flatmap(st.permutations)


def numbers(ranges: Any) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


@given(disjoint(), disjoint())
def test_ranges_are_sets(one: list[SeqRange], other: list[SeqRange]) -> None:
    for found, expected in (
        (shared(one, other), numbers(one) & numbers(other)),
        (without(one, other), numbers(one) - numbers(other)),
        (joined([*one, *other]), numbers(one) | numbers(other)),
    ):
        assert numbers(found) == expected
        assert list(found) == sorted(found)
        assert sum(part.size for part in found) == len(expected)


@given(disjoint(), st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), max_size=8))
def test_what_is_taken_away_may_overlap(one: list[SeqRange], gone: list[tuple[int, int]]) -> None:
    removed = [SeqRange(first, first + more) for first, more in gone]
    assert numbers(without(one, removed)) == numbers(one) - numbers(removed)


@given(disjoint(2000), st.integers(0, 2**63 - 1), st.none() | st.just("b" * 64))
def test_a_record_comes_back_with_the_same_bytes(ranges: list[SeqRange], created_ns: int, previous: str | None) -> None:
    record = ErasureRecord(UUID(int=9), 1, previous, RECORD.decided_at, {created_ns: joined(ranges)})
    data, digest = encode_record(record)
    key = record_key(FOLDER, 1, digest)
    assert decode_record(key, data) == record
    assert (record_digest(key), encode_record(decode_record(key, data))[1]) == (digest, digest)


def test_nothing_else_is_a_record() -> None:
    """Another program's object under such a name, another version, numbers that cannot be."""
    fields = json.loads(encode_record(RECORD)[0])
    sequences = [{"created_ns": 5, "sequences": [[3, 2]]}]
    for changed in (
        b"",
        b"[]",
        b"{}",
        b"\xff",
        *(
            json.dumps(fields | change).encode()
            for change in (
                {"record_version": 2},
                {"number": 0},
                {"number": "x"},
                {"decided_at": 5},
                {"incarnations": sequences},
                {"incarnations": [{"created_ns": 5, "sequences": [[0, 2]]}]},
                {"incarnations": [{"created_ns": 5, "sequences": [[1, 2**63]]}]},
                {"incarnations": 5},
            )
        ),
    ):
        with pytest.raises(ChunkError):
            decode_record(record_key(FOLDER, 3, hashlib.sha256(changed).hexdigest()), changed)
    data, digest = encode_record(RECORD)
    with pytest.raises(ChunkError):
        decode_record(record_key(FOLDER, 3, digest), data + b" ")
    for name in ("x.json", f"3-{digest}.json", f"00000003-{digest[:12]}.json", f"00000003-{digest}.json.tmp"):
        assert record_digest(f"{FOLDER}/_erasures/{name}") == ""


def test_erasures_add_up() -> None:
    again = ErasureRecord(UUID(int=8), 4, None, RECORD.decided_at, {5: (SeqRange(3, 3),), 6: (SeqRange(1, 1),)})
    assert all_sequences([RECORD, again]) == {5: (SeqRange(2, 9),), 1: (), 6: (SeqRange(1, 1),)}
    assert (RECORD.messages, again.messages) == (7, 2)


def test_a_record_comes_back_as_it_was_written() -> None:
    largest = ErasureRecord(UUID(int=7), 1, None, RECORD.decided_at, {5: (SeqRange(1, 1), SeqRange(3, 2**63 - 2))})
    for record in (RECORD, largest):
        data, digest = encode_record(record)
        assert decode_record(record_key(FOLDER, record.number, digest), data) == record
    fields = json.loads(encode_record(RECORD)[0])
    assert [*fields] == sorted(fields)
    assert fields["record_version"] == 1
