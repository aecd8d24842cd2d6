"""Seals in the catalog: which hours are complete, to the sequence, and what a seal of one has to account for."""

from dataclasses import replace
from typing import Any

import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import Conflict
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, HourPart
from nats3_dagster_tests.support.catalog import LOGS, spec, state
from nats3_dagster_tests.support.sealed import AGAIN, H6, H7, H8, H9, H10, Pair, gap, of, seal


@pytest.fixture
def logs(catalog: Catalog) -> Archive:
    """An archive of a stream whose newest message is of ten o'clock."""
    return catalog.archives.create(spec(), replace(state(), last_ns=hour_start(H10)))


def unsealed(catalog: Catalog, logs: Archive, bound: int | None = None, **fields: Any) -> list[str]:
    """Returns the hours from 6 to 10 that may be sealed, by their numbers."""
    bounds = None if bound is None else (LOGS, bound)
    return [hour[11:13] for hour in catalog.seals.unsealed(logs, H6, H10, bound=bounds, **fields)]


@pytest.mark.parametrize(
    ("chunks", "bound", "hours"),
    [
        # Without a chunk nothing says where the messages of a stream are.
        ([], None, ["06", "07", "08", "09", "10"]),
        ([], 0, ["06", "07", "08", "09", "10"]),
        ([], 1, []),
        # Everything from the first sequence on: each hour, also quiet ones.
        ([(H7, 1, 10), (H8, 11, 20)], 20, ["06", "07", "08", "09", "10"]),
        ([(H7, 1, 10), (H8, 11, 20)], None, ["06", "07", "08", "09", "10"]),
        # The first sequence is missing: the hours up to that of the first chunk are open.
        ([(H7, 2, 10), (H8, 11, 20)], 20, ["08", "09", "10"]),
        # One after the last: the hour of the last chunk, and those after it.
        ([(H7, 1, 10), (H8, 11, 20)], 21, ["06", "07"]),
        # A hole between two hours touches both, and those between them.
        ([(H7, 1, 10), (H8, 12, 20)], 20, ["06", "09", "10"]),
        ([(H7, 1, 10), (H9, 12, 20)], 20, ["06", "10"]),
        # A hole inside an hour touches it alone.
        ([(H7, 1, 10), (H8, 11, 14), (H8, 16, 20), (H9, 21, 21)], 21, ["06", "07", "09", "10"]),
        ([(H7, 1, 10), (H7, 12, 20), (H8, 21, 30), (H9, 32, 40)], 40, ["06", "10"]),
        # The bound does not hide what is there.
        ([(H7, 1, 10), (H8, 12, 20)], 5, ["06", "09", "10"]),
    ],
)
def test_hours_that_touch_no_hole(
    catalog: Catalog, logs: Archive, chunks: list[tuple[str, int, int]], bound: int | None, hours: list[str]
) -> None:
    catalog.chunks.commit(logs, [of(*one) for one in chunks])
    assert unsealed(catalog, logs, bound) == hours


def test_a_gap_fills_a_hole(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H8, 13, 20)], [gap((11, 11))])
    assert unsealed(catalog, logs) == ["06", "09", "10"]
    catalog.chunks.commit(logs, [], [gap((12, 12), reason="deleted")])
    assert unsealed(catalog, logs) == ["06", "07", "08", "09", "10"]


def test_where_a_clock_stepped_the_hours_of_both_sides_wait(catalog: Catalog, logs: Archive) -> None:
    """Sequences 1 to 10 are of nine o'clock, 12 to 20 of seven, and 11 is missing."""
    catalog.chunks.commit(logs, [of(H9, 1, 10), of(H7, 12, 20)])
    assert unsealed(catalog, logs) == ["06", "10"]
    catalog.chunks.commit(logs, [of(H8, 11, 11)])
    assert unsealed(catalog, logs) == ["06", "07", "08", "09", "10"]


def test_hours_that_interleave_wait_with_the_hole_between_them(catalog: Catalog, logs: Archive) -> None:
    """Chunks of nine o'clock lie before and after one of eight: a hole beside that touches nine o'clock too."""
    catalog.chunks.commit(logs, [of(H9, 1, 5), of(H8, 7, 10), of(H9, 11, 20)])
    assert unsealed(catalog, logs) == ["06", "07", "10"]


def test_all_hours_around_a_hole_wait_with_it(catalog: Catalog, logs: Archive) -> None:
    """Chunks of six and of ten o'clock lie around those of eight, which have the hole between them."""
    hours = [(H6, 1, 2), (H10, 3, 4), (H8, 5, 14), (H8, 16, 27), (H10, 28, 29), (H6, 30, 31)]
    catalog.chunks.commit(logs, [of(*one) for one in hours])
    other = catalog.archives.create(spec("other"), state())
    catalog.chunks.commit(other, [of(H8, 1, 100, archive="other")])
    assert unsealed(catalog, logs) == []
    catalog.chunks.commit(logs, [], [gap((15, 15), reason="deleted")])
    assert unsealed(catalog, logs) == ["06", "07", "08", "09", "10"]


def test_a_hole_of_an_earlier_incarnation_counts(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10)])
    catalog.coverage.begin(logs, state(AGAIN, first=1, last=9))
    catalog.chunks.commit(logs, [of(H9, 2, 9, incarnation=AGAIN)])
    assert unsealed(catalog, logs) == ["10"]
    catalog.chunks.commit(logs, [of(H9, 1, 1, incarnation=AGAIN)])
    assert unsealed(catalog, logs) == ["06", "07", "08", "09", "10"]
    # The bound is of the incarnation given alone.
    assert catalog.seals.unsealed(logs, H6, H10, bound=(AGAIN, 10)) == (H6, H7, H8)
    assert catalog.seals.unsealed(logs, H6, H10, bound=(LOGS, 11)) == (H6,)
    assert catalog.seals.unsealed(logs, H6, H10, bound=(LOGS, 10)) == (H6, H7, H8, H9, H10)
    assert catalog.seals.unsealed(logs, H6, H10, bound=(AGAIN, 9)) == (H6, H7, H8, H9, H10)


def test_hours_are_asked_for_from_first_to_last_up_to_a_limit(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10)])
    assert catalog.seals.unsealed(logs, H7, H9) == (H7, H8, H9)
    assert catalog.seals.unsealed(logs, H7, H7) == (H7,)
    assert catalog.seals.unsealed(logs, H6, H10, limit=2) == (H6, H7)


def test_a_sealed_hour_is_sealed_again_when_it_changed(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H8, 11, 20)])
    assert seal(catalog, logs, H7).number == 1
    seal(catalog, logs, H9)
    assert unsealed(catalog, logs) == ["06", "08", "10"]
    # Another hour's chunk, and a gap after the last one, change neither.
    catalog.chunks.commit(logs, [of(H8, 21, 30)])
    assert unsealed(catalog, logs) == ["06", "08", "10"]
    catalog.chunks.commit(logs, [of(H7, 31, 40)])
    assert unsealed(catalog, logs) == ["06", "07", "08", "10"]
    assert [(one.hour, one.valid) for one in catalog.seals.select(logs)] == [(H7, False), (H9, True)]
    assert [*catalog.seals.hours(logs)] == [H9]
    assert seal(catalog, logs, H7).number == 2
    assert unsealed(catalog, logs) == ["06", "08", "10"]
    assert [(one.hour, one.number, one.valid) for one in catalog.seals.select(logs)] == [(H7, 2, True), (H9, 1, True)]
    assert catalog.seals.hours(logs)[H9].is_empty
    assert not catalog.seals.hours(logs)[H7].is_empty


def test_a_loss_beside_a_sealed_hour_changes_it(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H9, 21, 30)], [gap((11, 15), reason="deleted")])
    catalog.chunks.commit(logs, [], [gap((16, 16), (18, 20), reason="deleted")])
    catalog.chunks.commit(logs, [of(H8, 17, 17)])
    for hour in (H6, H7, H8, H9, H10):
        seal(catalog, logs, hour)
    assert unsealed(catalog, logs) == []
    catalog.chunks.commit(logs, [], [gap((31, 32))])
    assert unsealed(catalog, logs) == ["09", "10"]
    row, _ = catalog.seals.next(logs, H9)
    assert row.losses == 2


def test_an_hour_that_is_again_as_it_was_sealed_is_sealed_once_more(catalog: Catalog) -> None:
    """A loss that may be of an hour without messages changes it, and the message that is found takes the loss back. The
    hour is not known as sealed then, so it is offered: else no export and no compaction would ever see it."""
    logs = catalog.archives.create(spec(), replace(state(), last_ns=hour_start(H8)))
    catalog.chunks.commit(logs, [of(H7, 1, 10)])
    seal(catalog, logs, H8)
    catalog.chunks.commit(logs, [], [gap((11, 12))])
    assert unsealed(catalog, logs) == ["06", "07", "08", "09", "10"]
    catalog.chunks.commit(logs, [of(H7, 11, 12)])
    assert [(one.hour, one.valid) for one in catalog.seals.select(logs)] == [(H8, True)]
    assert catalog.seals.hours(logs) == {}
    assert unsealed(catalog, logs) == ["06", "07", "08", "09", "10"]
    assert seal(catalog, logs, H8).number == 2
    assert [*catalog.seals.hours(logs)] == [H8]
    assert unsealed(catalog, logs) == ["06", "07", "09", "10"]


@pytest.mark.parametrize("field", ["revision", "chunks", "losses"])
def test_a_seal_of_an_hour_that_changed_meanwhile_is_refused(catalog: Catalog, logs: Archive, field: str) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10)])
    row, _ = catalog.seals.next(logs, H7)
    with pytest.raises(Conflict, match="changed while it was sealed"):
        seal(catalog, logs, H7, **{field: getattr(row, field) + 1})
    assert catalog.seals.select(logs) == ()


def test_an_hour_is_sealed_once(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10)])
    seal(catalog, logs, H7)
    with pytest.raises(Conflict, match="was sealed by another process"):
        seal(catalog, logs, H7, number=1)
    assert seal(catalog, logs, H7, number=5, key="another").number == 5
    row, _ = catalog.seals.next(logs, H7)
    assert row.number == 6
    row, _ = catalog.seals.next(logs, H8)
    assert (row.revision, row.chunks, row.losses, row.number) == (0, 0, 0, 1)


def test_a_seal_whose_manifest_is_being_removed_is_refused(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H8, 11, 20), of(H9, 21, 30)])
    catalog.removals.reserve("archive", ["manifest"])
    with pytest.raises(Conflict, match="The object manifest is being removed"):
        seal(catalog, logs, H7, key="manifest")
    # Another key, and the same in another bucket, are other objects.
    seal(catalog, logs, H8, key="another")
    seal(catalog, logs, H9, key="manifest", bucket="elsewhere")
    catalog.removals.finish("archive", ["manifest"])
    seal(catalog, logs, H7, key="manifest")
    assert catalog.seals.messages(logs) == 0


def test_seals_are_listed_by_hours(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H8, 11, 20), of(H9, 21, 30)])
    for hour, messages in ((H7, 10), (H8, 20), (H9, 40)):
        seal(catalog, logs, hour, messages=messages)
    assert catalog.seals.messages(logs) == 70
    seal(catalog, logs, H8, messages=7, number=2)
    assert catalog.seals.messages(logs) == 57
    assert [one.hour for one in catalog.seals.select(logs, hours=[H9, H7])] == [H7, H9]
    assert catalog.seals.select(logs, hours=[H10]) == ()
    keys = [f"{H7}-1.json", f"{H8}-1.json", "other"]
    assert catalog.seals.sealed_keys("archive", keys) == {*keys[:2]}
    assert catalog.seals.sealed_keys("elsewhere", keys) == set()


# What an hour accounts for


def parts(catalog: Catalog, logs: Archive, hour: str) -> list[tuple[Pair, list[Pair], list[tuple[Pair, str]]]]:
    """Returns the sequences of an hour, the gaps beside its chunks and the sequences of other hours, by incarnation."""

    def plain(part: HourPart) -> tuple[Pair, list[Pair], list[tuple[Pair, str]]]:
        return part.seqs, [one.seqs for one in part.gaps], [(one.seqs, one.hour[11:13]) for one in part.others]

    return [plain(part) for part in catalog.hours.parts(logs, hour)]


def test_an_hour_begins_after_the_chunk_before_it(catalog: Catalog, logs: Archive) -> None:
    """The first hour begins with the archive's first sequence, others with the one after the earlier chunk's last."""
    catalog.chunks.commit(
        logs, [of(H7, 3, 10), of(H8, 12, 20), of(H8, 22, 30), of(H9, 31, 40)], [gap((1, 2), (11, 11), reason="deleted")]
    )
    catalog.chunks.commit(logs, [], [gap((21, 21), reason="deleted")])
    assert parts(catalog, logs, H7) == [((1, 10), [(1, 2)], [])]
    assert parts(catalog, logs, H8) == [((11, 30), [(11, 11), (21, 21)], [])]
    assert parts(catalog, logs, H9) == [((31, 40), [], [])]
    assert parts(catalog, logs, H10) == []


def test_hours_that_interleave_name_each_other(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H8, 11, 20), of(H7, 21, 30), of(H9, 31, 40), of(H7, 41, 50)])
    assert parts(catalog, logs, H7) == [((1, 50), [], [((11, 20), "08"), ((31, 40), "09")])]
    assert parts(catalog, logs, H8) == [((11, 20), [], [])]
    assert parts(catalog, logs, H9) == [((31, 40), [], [])]


def test_losses_belong_to_each_hour_that_they_may_be_of(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H9, 13, 20)])
    catalog.chunks.commit(logs, [], [gap((11, 12))])
    found = {hour: parts(catalog, logs, hour) for hour in (H6, H7, H8, H9, H10)}
    assert found == {
        H6: [],
        H7: [((1, 12), [(11, 12)], [])],
        H8: [((11, 12), [(11, 12)], [])],
        H9: [((11, 20), [(11, 12)], [])],
        H10: [],
    }


def test_each_incarnation_is_a_part_of_its_own(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [of(H7, 1, 10)])
    catalog.coverage.begin(logs, state(AGAIN, first=1, last=9))
    catalog.chunks.commit(logs, [of(H7, 1, 9, incarnation=AGAIN), of(H8, 10, 12, incarnation=AGAIN)])
    assert parts(catalog, logs, H7) == [((1, 10), [], []), ((1, 9), [], [])]
    assert parts(catalog, logs, H8) == [((10, 12), [], [])]
    assert [part.incarnation for part in catalog.hours.parts(logs, H7)] == [LOGS, AGAIN]
    # Its revision is that of the last change, in whichever incarnation.
    row, _ = catalog.seals.next(logs, H7)
    assert (row.revision, row.chunks) == (catalog.hours.revision(logs), 2)
