"""A cut takes out each message that is to be erased, and no other one; a search finds what has one of them."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.captures.rewrite import table_of
from nats3_dagster.archive.keep import cut as cutting
from nats3_dagster.archive.keep.cut import Cut, cut
from nats3_dagster.archive.keep.erased_search import count_in
from nats3_dagster.chunks import open_chunk
from nats3_dagster.errors import ChunkError, Nats3Error
from nats3_dagster.model import Chunk, SeqRange
from nats3_dagster.objects import StoreOptions
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import archive, ranges
from nats3_dagster_tests.support.chunks import START, write


@pytest.fixture
def workspace(file_store: StoreOptions, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("NATS3_STORE_URL", str(file_store.url))
    return Workspace(Settings.load())


def cut_out(workspace: Workspace, seqs: Sequence[int], covers: tuple[int, int], *erased: tuple[int, int]) -> Cut:
    """Writes a chunk with a message for each of the sequences, and cuts from it."""
    rows = [(seq, START + seq, f"logs.{seq}", None, b"payload %d" % seq) for seq in seqs]
    data, meta = write(rows, SeqRange(*covers), "expired")
    meta = replace(meta, bucket="archive")
    workspace.bucket("archive").put_new(meta.key, data, meta.sha256)
    return cut(workspace, archive(prefix="team"), Chunk(1, meta, datetime.now(UTC), None), ranges(*erased))


def left(workspace: Workspace, rest: Cut) -> list[int]:
    """Returns the sequences of the messages that the new objects have, in the order of the chunks."""
    return [
        seq
        for meta in rest.metas
        for batch in open_chunk(workspace.bucket(meta.bucket).get(meta.key), meta).batches(["seq"])
        for seq in batch.column("seq").to_pylist()
    ]


@pytest.mark.parametrize(
    ("erased", "gone"),
    [
        ([(3, 3)], [3]),
        ([(2, 2)], [2]),
        ([(9, 9)], [9]),
        # One before the first and one after the last message of a range stay.
        ([(3, 5)], [3, 4, 5]),
        ([(4, 4), (6, 6)], [4, 6]),
        ([(1, 2)], [2]),
        ([(9, 12)], [9]),
        ([(1, 2), (5, 5), (9, 20)], [2, 5, 9]),
        ([(2, 8)], [2, 3, 4, 5, 6, 7, 8]),
        ([(1, 20)], [2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_each_message_that_is_erased_and_no_other(
    workspace: Workspace, erased: list[tuple[int, int]], gone: list[int]
) -> None:
    seqs = range(2, 10)
    rest = cut_out(workspace, seqs, (1, 10), *erased)
    assert left(workspace, rest) == [seq for seq in seqs if seq not in gone]
    assert [seq for part in rest.erased for seq in range(part.first, part.last + 1)] == gone
    # Each sequence of the chunk is in one new chunk or gap.
    parts = sorted([meta.covers for meta in rest.metas] + [part for gap in rest.gaps for part in gap.ranges])
    assert [seq for part in parts for seq in range(part.first, part.last + 1)] == list(range(1, 11))


def test_each_absence_keeps_its_reason(workspace: Workspace) -> None:
    """Sequences 1, 4 and 10 had expired; 6 is erased. A chunk has one reason for all that is absent in it."""
    rest = cut_out(workspace, [2, 3, 5, 6, 7, 8, 9], (1, 10), (6, 6))
    reasons = {
        **{seq: gap.reason for gap in rest.gaps for part in gap.ranges for seq in range(part.first, part.last + 1)},
        **{
            seq: meta.absent_reason
            for meta in rest.metas
            for part in meta.deleted or ()
            for seq in range(part.first, part.last + 1)
        },
    }
    assert reasons == {1: "expired", 4: "expired", 6: "erased", 10: "expired"}


def test_absent_sequences_are_erased_too(workspace: Workspace) -> None:
    """The catalog does not know which sequences a filter left out."""
    rest = cut_out(workspace, range(2, 10), (1, 10), (1, 1))
    assert rest.erased == ranges((1, 1))
    assert left(workspace, rest) == list(range(2, 10))


def test_messages_after_an_erased_one_are_in_the_chunk_of_their_reason(workspace: Workspace) -> None:
    """Sequences 4 and 10 had expired; 6 is erased."""
    rest = cut_out(workspace, [1, 2, 3, 5, 6, 7, 8, 9, 11, 12], (1, 12), (6, 6))
    assert left(workspace, rest) == [1, 2, 3, 5, 7, 8, 9, 11, 12]
    assert [(tuple(meta.covers), meta.messages, meta.absent_reason) for meta in rest.metas] == [
        ((1, 5), 4, "expired"),
        ((6, 9), 3, "erased"),
        ((10, 12), 2, "expired"),
    ]


def test_a_cut_that_would_lose_something_is_no_cut(workspace: Workspace) -> None:
    """Each part of it is needed: chunks and gaps that tile the sequences, and every other message."""
    seqs, old = [3, 4, 7, 8], SeqRange(1, 10)
    rest = cut_out(workspace, seqs, old, (4, 4))
    kept = table_of(
        batch
        for meta in rest.metas
        for batch in open_chunk(workspace.bucket(meta.bucket).get(meta.key), meta).batches()
    )
    meta = replace(rest.metas[0], covers=old)
    cutting._prove(workspace, meta, kept, rest)
    wrong = [
        replace(rest, metas=rest.metas[1:]),
        replace(rest, metas=rest.metas[:-1]),
        replace(rest, gaps=()),
        replace(rest, gaps=(*rest.gaps, rest.gaps[0])),
    ]
    assert len(rest.metas) > 1
    assert rest.gaps
    for one in wrong:
        with pytest.raises(ChunkError, match="would not have the others as they are"):
            cutting._prove(workspace, meta, kept, one)
    for covers in (SeqRange(0, 10), SeqRange(1, 11), SeqRange(1, 9)):
        with pytest.raises(ChunkError, match="would not have the others as they are"):
            cutting._prove(workspace, replace(meta, covers=covers), kept, rest)
    with pytest.raises(ChunkError, match="would not have the others as they are"):
        cutting._prove(workspace, meta, kept.slice(1), rest)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_new_object_that_the_store_lost_or_damaged_takes_no_place(
    workspace: Workspace, tmp_path: Path, number: int, is_there: bool
) -> None:
    """It is read again after it was put, and before the catalog hears of it."""
    root, held = workspace.settings.store.folder, tmp_path / "held"
    assert root
    fault_points.arm(f"erase.put:hold={held}")
    try:
        with ThreadPoolExecutor(1) as pool:
            cutting = pool.submit(cut_out, workspace, [1, 2, 3, 5, 6, 7, 8], (1, 8), (6, 6))
            while not held.exists():
                assert not cutting.done(), cutting.result()
                time.sleep(0.001)
            new = sorted(path for path in root.rglob("*.parquet") if "00001-00000000000000000008" not in path.name)
            assert len(new) == 2
            data = bytearray(new[number].read_bytes())
            data[len(data) // 3] ^= 1
            new[number].unlink()
            if is_there:
                new[number].write_bytes(data)
            Path(f"{held}.go").touch()
            with pytest.raises(Nats3Error):
                cutting.result()
    finally:
        fault_points.arm("")


def test_a_chunk_without_another_message_becomes_gaps(workspace: Workspace) -> None:
    rest = cut_out(workspace, [5], (4, 6), (5, 5))
    assert rest.metas == ()
    assert [(gap.reason, gap.ranges) for gap in rest.gaps] == [
        ("expired", ranges((4, 4))),
        ("erased", ranges((5, 5))),
        ("expired", ranges((6, 6))),
    ]


@pytest.mark.parametrize(
    ("erased", "count"),
    [
        ([(1, 2)], 0),
        ([(1, 3)], 1),
        ([(3, 3)], 1),
        ([(4, 4)], 0),
        ([(9, 9)], 1),
        ([(9, 20)], 1),
        ([(10, 20)], 0),
        ([(3, 5)], 2),
        ([(4, 8)], 3),
        ([(1, 1), (5, 6), (9, 9)], 3),
        ([(1, 20)], 5),
        ([(4, 4), (7, 7), (10, 12)], 0),
    ],
)
def test_a_search_counts_the_erased_messages_of_an_object(erased: list[tuple[int, int]], count: int) -> None:
    """An object of the sequences 3 to 9, with the messages 3, 5, 6, 8 and 9."""
    rows = [(seq, START + seq, "a", None, b"") for seq in (3, 5, 6, 8, 9)]
    data, meta = write(rows, SeqRange(3, 9))
    assert count_in(open_chunk(data, meta), ranges(*erased)) == count
