"""The digest of rows: the same however they are cut, and another one for each difference."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from nats3_dagster.chunks.rows_digest import RowsDigest
from nats3_dagster.model.messages import MESSAGES

ROWS: list[dict[str, Any]] = [
    {"seq": n, "time_ns": n * 7, "subject": f"a.{n % 3}", "subject_bytes": None, "headers": h, "data": b"%d" % n}
    for n, h in enumerate([None, b"", b"H", None, b"", b"HH"], 1)
]


def digest(rows: list[dict[str, Any]], *cuts: int) -> str:
    batch = pa.RecordBatch.from_pylist(rows, MESSAGES)
    made, ends = RowsDigest(), [0, *cuts, len(rows)]
    for first, end in pairwise(ends):
        made.add(batch.slice(first, end - first))
    assert made.messages == len(rows)
    return made.hexdigest()


def test_cuts_do_not_count() -> None:
    assert len({digest(ROWS), digest(ROWS, 1), digest(ROWS, 2, 2, 5), digest(ROWS, *range(1, 6))}) == 1


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (0, {"headers": b""}),
        (1, {"headers": None}),
        (2, {"headers": b"I"}),
        (3, {"data": b""}),
        (3, {"data": b"45", "seq": 4}),
        (4, {"subject": "a.9"}),
        (4, {"subject_bytes": b"a\xff"}),
        (5, {"time_ns": 1}),
        (5, {"seq": 7}),
    ],
)
def test_each_difference_counts(row: int, change: dict[str, Any]) -> None:
    other = [dict(one) for one in ROWS]
    other[row] |= change
    assert digest(other) != digest(ROWS)


def test_order_and_borders_of_values_count() -> None:
    assert digest(ROWS[::-1]) != digest(ROWS)
    moved = [dict(one) for one in ROWS]
    moved[0]["data"], moved[1]["data"] = b"12", b""
    assert digest(moved) != digest(ROWS)
