"""Object keys: the same chunk always has the same key, keys sort as ranges do, and nothing else passes for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.chunks import ChunkKey, archive_prefix, object_key, parse_key
from nats3_dagster.errors import ChunkError
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Incarnation, SeqRange

CREATED = 1_795_247_804_123_456_789
KEY = (
    "team/logs/archive=logs_all/date=2026-11-21/hour=07/"
    "20261121T075644123456789Z-00000000000000000001-00000000000000008192-0123456789ab.parquet"
)
seqs = st.integers(1, 2**63 - 1)
times = st.integers(0, 4_000_000_000 * 10**9)
prefixes = st.one_of(st.just(""), st.from_regex(r"[a-z0-9=._-]{1,9}(/[a-z0-9=._-]{1,9}){0,2}", fullmatch=True))


def test_a_key_reads_as_specified() -> None:
    incarnation = Incarnation("LOGS", CREATED)
    sha256 = "0123456789ab" + "c" * 52
    assert object_key("team/logs", "logs_all", "2026-11-21-07:00", incarnation, SeqRange(1, 8192), sha256) == KEY
    assert object_key("", "logs_all", "2026-11-21-07:00", incarnation, SeqRange(1, 8192), sha256) == KEY[10:]
    assert KEY.startswith(archive_prefix("team/logs", "logs_all") + "/")


@given(prefixes, st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True), times, times, seqs, seqs)
def test_a_key_is_read_back(prefix: str, archive: str, created: int, time_ns: int, first: int, last: int) -> None:
    key = object_key(prefix, archive, hour_of(time_ns), Incarnation("S", created), SeqRange(first, last), "ab" * 32)
    assert parse_key(key) == ChunkKey(prefix, archive, hour_of(time_ns), created, SeqRange(first, last), "ab" * 6)


@given(st.lists(st.tuples(seqs, seqs), min_size=2, max_size=9))
def test_keys_sort_as_ranges_do(ranges: list[tuple[int, int]]) -> None:
    incarnation = Incarnation("S", CREATED)
    keys = [object_key("", "a", "2026-11-21-07:00", incarnation, SeqRange(*r), "0" * 64) for r in sorted(ranges)]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    "key",
    ["", "x.parquet", KEY + "x", KEY.upper(), KEY[:-1], KEY.replace("hour=07", "hour=24"), "/" + KEY[10:],
     KEY.replace("2026-11-21", "2026-02-30"), KEY.replace("20261121T", "20261321T"), KEY.replace("archive=", ""),
     KEY.replace("789Z", "78Z"), KEY.replace("0000001-", "000001-"), KEY.replace("0123456789ab", "0123456789aG")],
)  # fmt: skip
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ChunkError, match="is not the key of a chunk"):
        parse_key(key)
