"""The cache of footers: bounded, and never another object's."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from nats3_dagster.chunks.footer_cache import FooterCache, ParsedFooter
from nats3_dagster.chunks.read import parse_footer

GOLDEN = sorted((Path(__file__).parents[1] / "data" / "v1").glob("*.parquet"))[0].read_bytes()


@pytest.fixture(scope="module")
def parsed() -> ParsedFooter:
    return parse_footer(pa.py_buffer(GOLDEN), len(GOLDEN))


def test_those_not_used_for_longest_are_dropped(parsed: ParsedFooter) -> None:
    cache = FooterCache(3 * parsed.cost)
    for key in ("a", "b", "c"):
        cache.put("bucket", key, "0" * 64, parsed)
    assert cache.get("bucket", "a", "0" * 64) is parsed
    cache.put("bucket", "d", "0" * 64, parsed)
    assert len(cache) == 3
    assert cache.get("bucket", "b", "0" * 64) is None
    assert all(cache.get("bucket", key, "0" * 64) for key in ("a", "c", "d"))


def test_one_that_is_put_twice_counts_once(parsed: ParsedFooter) -> None:
    cache = FooterCache(2 * parsed.cost)
    for _ in range(5):
        cache.put("bucket", "a", "0" * 64, parsed)
    cache.put("bucket", "b", "0" * 64, parsed)
    assert len(cache) == 2


def test_one_that_is_too_large_is_not_kept(parsed: ParsedFooter) -> None:
    cache = FooterCache(parsed.cost - 1)
    cache.put("bucket", "a", "0" * 64, parsed)
    assert len(cache) == 0


def test_another_object_is_another_entry(parsed: ParsedFooter) -> None:
    cache = FooterCache()
    cache.put("bucket", "key", "0" * 64, parsed)
    for place in (("other", "key", "0" * 64), ("bucket", "other", "0" * 64), ("bucket", "key", "1" * 64)):
        assert cache.get(*place) is None


def test_threads_leave_it_bounded(parsed: ParsedFooter) -> None:
    cache = FooterCache(10 * parsed.cost)

    def use(number: int) -> None:
        for n in range(300):
            key = str((number * 7 + n) % 40)
            if cache.get("bucket", key, "0" * 64) is None:
                cache.put("bucket", key, "0" * 64, parsed)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert len(cache) == 10
