"""The bloom filter of a chunk with too many subjects to count."""

import hashlib

import pytest

from nats3_dagster.chunks.bloom import bloom_of, hashes_of, may_have


def filter_of(count: int) -> bytes:
    return bloom_of(hashes_of(b"logs.%d" % n for n in range(count)))


@pytest.mark.parametrize("count", [1, 25, 26, 10_001, 1_000_000])
def test_what_is_in_it_is_found_and_little_else(count: int) -> None:
    blocks = filter_of(count)
    assert len(blocks) % 32 == 0
    assert len(blocks) <= 32 + count * 10 // 8
    assert all(may_have(blocks, f"logs.{n}") for n in range(0, count, max(1, count // 5000)))
    wrong = sum(may_have(blocks, f"none.{n}") for n in range(20_000))
    assert wrong / 20_000 < 0.02


def test_order_and_repetitions_do_not_change_it() -> None:
    names = [b"a.%d" % n for n in range(1000)]
    assert bloom_of(hashes_of(names)) == bloom_of(hashes_of(names[::-1] + names[:10]))


def test_its_bytes_are_part_of_the_format() -> None:
    """Those in a catalog are read by later releases."""
    digest = hashlib.sha256(filter_of(1000)).hexdigest()
    assert digest == "08f902d7293dce172e03496bd6e1cd7f84f0a349be17ff4458c211295000d277"
