"""What a replay selects, asked of a real catalog: a hole in the selection is an error, a hole beside it is none."""

import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, Gap, Incarnation, ReplaySpec, SeqRange, StreamState
from nats3_dagster.replay.plan import select

LIFE = Incarnation("S", 1_700_000_000_000_000_000)
STATE = StreamState(LIFE, 1, 1000, 0, 0, 1000, 0, {})


@pytest.fixture
def catalog(postgres_url: str) -> Catalog:
    return Catalog.connect(postgres_url)


def archive_of(catalog: Catalog, *held: tuple[int, int, int]) -> Archive:
    """An archive with a chunk for each (hour of the day, first sequence, last sequence)."""
    archive = catalog.archives.create(ArchiveSpec(name="a", stream="S", bucket="bucket"), STATE)
    catalog.chunks.commit(archive, [chunk(*part) for part in held])
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


def hours(*wanted: int) -> ReplaySpec:
    return ReplaySpec("a", hours=tuple(hour_key(h) for h in wanted))


def test_an_hour_that_was_selected_and_never_captured_is_a_hole(catalog: Catalog) -> None:
    archive = archive_of(catalog, (10, 1, 100), (12, 201, 300))
    with catalog, pytest.raises(OperatorError, match="lacks the sequences 101-200"):
        select(catalog, archive, hours(10, 11, 12))


def test_an_hour_that_was_not_selected_is_none(catalog: Catalog) -> None:
    archive = archive_of(catalog, (10, 1, 100), (12, 201, 300))
    with catalog:
        assert [c.meta.covers for c in select(catalog, archive, hours(10, 12))] == [(1, 100), (201, 300)]


def test_a_quiet_hour_is_no_hole(catalog: Catalog) -> None:
    archive = archive_of(catalog, (10, 1, 100), (12, 101, 300))
    with catalog:
        assert len(select(catalog, archive, hours(10, 11, 12))) == 2


@pytest.mark.parametrize("reason", ["expired", "missing"])
def test_a_loss_beside_the_selection_counts_and_can_be_accepted(catalog: Catalog, reason: str) -> None:
    archive = archive_of(catalog, (10, 101, 200))
    catalog.chunks.commit(archive, [], [Gap(LIFE, (SeqRange(1, 100),), reason)])  # type: ignore[arg-type]
    with catalog:
        with pytest.raises(OperatorError, match="lacks the sequences 1-100"):
            select(catalog, archive, hours(10))
        accepted = ReplaySpec("a", hours=(hour_key(10),), over_gaps=True)
        assert len(select(catalog, archive, accepted)) == 1


def test_what_was_deleted_at_the_source_is_no_loss(catalog: Catalog) -> None:
    archive = archive_of(catalog, (10, 1, 100), (11, 201, 300))
    catalog.chunks.commit(archive, [], [Gap(LIFE, (SeqRange(101, 200),), "deleted")])
    with catalog:
        assert len(select(catalog, archive, hours(10, 11))) == 2


def test_a_subject_that_no_chunk_has_is_refused(catalog: Catalog) -> None:
    archive = archive_of(catalog, (10, 1, 100))
    with catalog, pytest.raises(OperatorError, match="has no subject"):
        select(catalog, archive, ReplaySpec("a", read_subject="other.>"))
