"""The chunks that a selection takes, and its holes, asked of a real catalog."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.uncovered import uncovered
from nats3_dagster.model import (
    Archive,
    ArchiveSpec,
    ChunkMeta,
    Gap,
    Incarnation,
    Reason,
    Selection,
    SeqRange,
    StreamState,
)
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

LIFE = Incarnation("S", 1_700_000_000_000_000_000)
STATE = StreamState(LIFE, 1, 1000, 0, 0, 1000, 0, {})


@pytest.fixture
def ws(settings: Settings) -> Iterator[Workspace]:
    with Workspace(settings) as workspace:
        yield workspace


def archive_of(ws: Workspace, *parts: tuple[int, int, int]) -> Archive:
    """An archive with a chunk for each (hour of the day, first sequence, last sequence)."""
    archive = ws.catalog.archives.create(ArchiveSpec(name="a", stream="S", bucket="bucket"), STATE)
    ws.catalog.chunks.commit(archive, [chunk(*part) for part in parts])
    return archive


def chunk(hour: int, first: int, last: int) -> ChunkMeta:
    covers = SeqRange(first, last)
    return ChunkMeta(
        archive="a",
        incarnation=LIFE,
        hour=hour_key(hour),
        covers=covers,
        messages=covers.size,
        first_ns=hour,
        last_ns=hour,
        payload_bytes=1,
        largest_bytes=1,
        stored_bytes=1,
        sha256=f"{first:064x}",
        key=f"{first}",
        bucket="bucket",
        deleted=(),
        subjects={"s": covers.size},
    )


def hour_key(hour: int) -> str:
    return f"2026-11-21-{hour:02d}:00"


def hours(*chosen: int) -> Selection:
    return Selection(hours=tuple(hour_key(h) for h in chosen))


def missing(ws: Workspace, archive: Archive, selection: Selection) -> list[str]:
    selected = ArchiveSelection(ws, archive, selection)
    return [str(r) for r in uncovered(selected, Held.of_chunks(selected.chunks()))]


def test_an_hour_that_was_selected_and_never_captured_is_a_hole(ws: Workspace) -> None:
    archive = archive_of(ws, (10, 1, 100), (12, 201, 300))
    assert missing(ws, archive, hours(10, 11, 12)) == ["101-200"]


def test_an_hour_that_was_not_selected_is_none(ws: Workspace) -> None:
    archive = archive_of(ws, (10, 1, 100), (12, 201, 300))
    assert [c.meta.covers for c in ArchiveSelection(ws, archive, hours(10, 12)).chunks()] == [(1, 100), (201, 300)]
    assert missing(ws, archive, hours(10, 12)) == []


def test_a_quiet_hour_is_no_hole(ws: Workspace) -> None:
    archive = archive_of(ws, (10, 1, 100), (12, 101, 300))
    assert missing(ws, archive, hours(10, 11, 12)) == []


@pytest.mark.parametrize("reason", ["expired", "missing"])
def test_a_loss_beside_the_selection_counts(ws: Workspace, reason: Reason) -> None:
    archive = archive_of(ws, (10, 101, 200))
    ws.catalog.chunks.commit(archive, [], [Gap(LIFE, (SeqRange(1, 100),), reason)])
    assert missing(ws, archive, hours(10)) == ["1-100"]


def test_what_was_deleted_at_the_source_is_no_loss(ws: Workspace) -> None:
    archive = archive_of(ws, (10, 1, 100), (11, 201, 300))
    ws.catalog.chunks.commit(archive, [], [Gap(LIFE, (SeqRange(101, 200),), "deleted")])
    assert missing(ws, archive, hours(10, 11)) == []


@pytest.mark.parametrize(
    ("selection", "first_seqs"),
    [
        (Selection(), [1, 101, 201]),
        (Selection(sequences=SeqRange(100, 150)), [1, 101]),
        # The chunks' messages have the hour's number as their time.
        (Selection(from_ns=11), [101, 201]),
        (Selection(from_ns=11, to_ns=12), [101]),
        (Selection(hours=(hour_key(10), hour_key(12)), to_ns=12), [1]),
    ],
)
def test_hours_times_and_sequences_narrow_it_together(
    ws: Workspace, selection: Selection, first_seqs: list[int]
) -> None:
    archive = archive_of(ws, (10, 1, 100), (11, 101, 200), (12, 201, 300))
    assert [c.meta.covers.first for c in ArchiveSelection(ws, archive, selection).chunks()] == first_seqs


def test_chunks_without_a_selected_subject_are_left_out(ws: Workspace) -> None:
    archive = archive_of(ws, (10, 1, 100))
    chunks = ArchiveSelection(ws, archive, Selection()).chunks()
    other, either = (
        ArchiveSelection(ws, archive, Selection(subjects=subjects)) for subjects in (("other.>",), ("other.>", "*"))
    )
    assert either.with_subjects(chunks) == chunks
    assert other.with_subjects(chunks) == ()
    # Without counts by subject nothing says what is in it.
    unknown = [replace(c, meta=replace(c.meta, subjects=None)) for c in chunks]
    assert len(other.with_subjects(unknown)) == 1


@pytest.mark.parametrize("reason", ["superseded", "ttl", "deleted"])
def test_what_was_lost_between_the_messages_of_a_chunk_counts(ws: Workspace, reason: Reason) -> None:
    archive = archive_of(ws, (10, 1, 100))
    absent = (SeqRange(102, 103), SeqRange(150, 150))
    some = replace(chunk(11, 101, 200), messages=97, subjects={"s": 97}, deleted=absent, absent_reason=reason)
    ws.catalog.chunks.commit(archive, [some])
    is_loss = reason != "deleted"
    assert missing(ws, archive, Selection()) == (["102-103", "150-150"] if is_loss else [])
    assert missing(ws, archive, Selection(sequences=SeqRange(1, 101))) == []
    assert missing(ws, archive, Selection(sequences=SeqRange(1, 102))) == (["102-102"] if is_loss else [])
