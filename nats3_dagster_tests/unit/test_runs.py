"""Which chunks of an hour a compaction merges, by what the catalog knows of them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nats3_dagster.archive.keep.runs import runs_of
from nats3_dagster.model import Chunk, ChunkMeta, Incarnation
from nats3_dagster_tests.support.catalog import LOGS, chunk

MIB = 1 << 20
BELOW = 32 * MIB
AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)


def bounds(*metas: ChunkMeta, below: int = BELOW) -> list[list[tuple[int, int]]]:
    chunks = [Chunk(n, meta, datetime.now(UTC), None) for n, meta in enumerate(metas)]
    return [[(one.meta.covers.first, one.meta.covers.last) for one in run] for run in runs_of(chunks, below)]


def of(first: int, last: int, mib: int = 1, **fields: Any) -> ChunkMeta:
    return chunk(first, last, payload_bytes=mib * MIB, **fields)


ONE = [(1, 10), (11, 20)]


@pytest.mark.parametrize(
    ("metas", "expected"),
    [
        ([], []),
        ([of(1, 10)], []),
        ([of(1, 10), of(11, 20)], [ONE]),
        # A hole, a gap, or another hour's chunk lies between them.
        ([of(1, 10), of(12, 20)], []),
        ([of(1, 10), of(11, 20), of(22, 30), of(31, 40)], [ONE, [(22, 30), (31, 40)]]),
        ([of(1, 10), of(11, 20, incarnation=AGAIN)], []),
        ([of(1, 10), of(11, 20, hour="2026-11-21-08:00")], []),
        # One that is not small ends a run, and is in none.
        ([of(1, 10), of(11, 20), of(21, 30, 32), of(31, 40)], [ONE]),
        # Together they are no larger than a chunk may be.
        ([of(1, 10, 31), of(11, 20, 31), of(21, 30, 3), of(31, 40)], [ONE, [(21, 30), (31, 40)]]),
        ([of(1, 10, 32), of(11, 20, 32)], []),
        ([of(1, 10, 31), of(11, 20, 32)], []),
        ([of(1, 10, 31), of(11, 20, 31), of(21, 30, 2)], [[(1, 10), (11, 20), (21, 30)]]),
        ([of(1, 500_000), of(500_001, 1_000_000)], [[(1, 500_000), (500_001, 1_000_000)]]),
        ([of(1, 500_000), of(500_001, 1_000_001)], []),
        ([of(1, 400_000), of(400_001, 800_000), of(800_001, 1_200_000)], [[(1, 400_000), (400_001, 800_000)]]),
        # A chunk names one reason for all that is absent in it.
        ([chunk(1, 10, 5, deleted=(), absent_reason="expired"), of(11, 20)], [ONE]),
        (
            [chunk(1, 10, 5, absent_reason="expired"), chunk(11, 20, 5, absent_reason="deleted"), of(21, 30)],
            [[(11, 20), (21, 30)]],
        ),
    ],
)
def test_runs(metas: list[ChunkMeta], expected: list[list[tuple[int, int]]]) -> None:
    assert bounds(*metas) == expected


@pytest.mark.parametrize(
    "sizes", [[20] * 7, [1] * 200, [31, 1, 31, 1, 31, 1], [30, 30, 5, 30, 30, 5], [40, 1, 1, 40, 1]]
)
def test_what_was_merged_is_left_alone(sizes: list[int]) -> None:
    """Whatever the sizes are, a second compaction of an hour finds nothing."""
    metas = [of(n * 10 + 1, n * 10 + 10, size) for n, size in enumerate(sizes)]
    left: list[int] = []
    for _ in range(2):
        chunks = [Chunk(n, meta, datetime.now(UTC), None) for n, meta in enumerate(metas)]
        runs = runs_of(chunks, BELOW)
        left.append(len(runs))
        merged = {one.id for run in runs for one in run}
        new = [
            replace(
                run[0].meta,
                covers=type(run[0].meta.covers)(run[0].meta.covers.first, run[-1].meta.covers.last),
                messages=sum(one.meta.messages for one in run),
                payload_bytes=sum(one.meta.payload_bytes for one in run),
            )
            for run in runs
        ]
        metas = sorted([*new, *(one.meta for one in chunks if one.id not in merged)], key=lambda meta: meta.covers)
    assert left[1] == 0
