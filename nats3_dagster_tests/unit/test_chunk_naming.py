"""Object keys: the same chunk always has the same key, and keys sort as ranges do."""

from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.chunks.naming import archive_prefix, object_key
from nats3_dagster.model import Incarnation, SeqRange

CREATED = 1_795_247_804_123_456_789
KEY = (
    "team/logs/archive=logs_all/date=2026-11-21/hour=07/"
    "20261121T075644123456789Z-00000000000000000001-00000000000000008192-0123456789ab.parquet"
)
seqs = st.integers(1, 2**63 - 1)


def test_a_key_reads_as_specified() -> None:
    incarnation = Incarnation("LOGS", CREATED)
    sha256 = "0123456789ab" + "c" * 52
    assert object_key("team/logs", "logs_all", "2026-11-21-07:00", incarnation, SeqRange(1, 8192), sha256) == KEY
    assert object_key("", "logs_all", "2026-11-21-07:00", incarnation, SeqRange(1, 8192), sha256) == KEY[10:]
    assert KEY.startswith(archive_prefix("team/logs", "logs_all") + "/")


@given(st.lists(st.tuples(seqs, seqs), min_size=2, max_size=9))
def test_keys_sort_as_ranges_do(ranges: list[tuple[int, int]]) -> None:
    incarnation = Incarnation("S", CREATED)
    keys = [object_key("", "a", "2026-11-21-07:00", incarnation, SeqRange(*r), "0" * 64) for r in sorted(ranges)]
    assert keys == sorted(keys)
