"""Coverage in the catalog: where an archive begins, and what is covered and missing, to the sequence."""

from dataclasses import replace

import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import CatalogError
from nats3_dagster.model import Archive, Incarnation, SeqRange, Witness
from nats3_dagster_tests.support.catalog import LOGS, chunk, ranges, spec, state
from nats3_dagster_tests.support.sealed import AGAIN, Pair, gap

EARLIER = Incarnation("LOGS", LOGS.created_ns - 1)


@pytest.fixture
def logs(catalog: Catalog) -> Archive:
    """An archive that begins with sequence 11: the chunks 11 to 20 and 26 to 30, and a gap of 22 and 23."""
    archive = catalog.archives.create(spec(), state(first=11))
    catalog.chunks.commit(archive, [chunk(11, 20), chunk(26, 30)], [gap((22, 23))])
    return archive


@pytest.mark.parametrize(
    ("within", "covered", "missing"),
    [
        ((1, 10), [], []),
        ((1, 11), [(11, 11)], []),
        ((10, 12), [(11, 12)], []),
        ((20, 21), [(20, 20)], [(21, 21)]),
        ((21, 21), [], [(21, 21)]),
        ((20, 26), [(20, 20), (22, 23), (26, 26)], [(21, 21), (24, 25)]),
        ((23, 24), [(23, 23)], [(24, 24)]),
        ((30, 30), [(30, 30)], []),
        ((30, 31), [(30, 30)], [(31, 31)]),
        ((31, 40), [], [(31, 40)]),
        ((1, 31), [(11, 20), (22, 23), (26, 30)], [(21, 21), (24, 25), (31, 31)]),
    ],
)
def test_each_sequence_is_covered_or_missing(
    catalog: Catalog, logs: Archive, within: Pair, covered: list[Pair], missing: list[Pair]
) -> None:
    """Before its start an archive misses nothing."""
    assert catalog.coverage.covered(logs, LOGS, SeqRange(*within)) == ranges(*covered)
    assert catalog.coverage.missing(logs, LOGS, SeqRange(*within)) == ranges(*missing)


def test_each_archive_and_incarnation_has_coverage_of_its_own(catalog: Catalog, logs: Archive) -> None:
    other = catalog.archives.create(spec("other"), state(first=11))
    catalog.coverage.begin(other, state(AGAIN, last=30))
    catalog.chunks.commit(other, [chunk(13, 14, archive="other"), chunk(1, 3, archive="other", incarnation=AGAIN)])
    within = SeqRange(1, 15)
    assert catalog.coverage.covered(other, LOGS, within) == ranges((13, 14))
    assert catalog.coverage.missing(other, LOGS, within) == ranges((11, 12), (15, 15))
    assert catalog.coverage.covered(other, AGAIN, within) == ranges((1, 3))
    assert catalog.coverage.missing(other, AGAIN, within) == ranges((4, 15))
    assert catalog.coverage.covered(logs, LOGS, within) == ranges((11, 15))


def test_the_sums_of_an_incarnation(catalog: Catalog, logs: Archive) -> None:
    (one,) = catalog.coverage.all(logs)
    assert (one.start, one.frontier, one.last, one.chunks, one.messages) == (11, 20, 30, 2, 15)
    catalog.chunks.commit(logs, [], [gap((21, 21), (24, 25))])
    assert catalog.coverage.of(logs, LOGS).frontier == 30
    for other in (AGAIN, Incarnation("OTHER", LOGS.created_ns)):
        for ask in (catalog.coverage.of, catalog.coverage.start):
            with pytest.raises(CatalogError, match="does not archive the"):
                ask(logs, other)


@pytest.mark.parametrize(
    ("incarnation", "first", "start"),
    [
        # Made after the archive's first one: it is expected from its first sequence on, whatever expired.
        (AGAIN, 5, 1),
        # An earlier one begins with what it has.
        (EARLIER, 5, 5),
        # A stream that never had a message reports 0.
        (EARLIER, 0, 1),
    ],
)
def test_where_another_incarnation_begins(
    catalog: Catalog, logs: Archive, incarnation: Incarnation, first: int, start: int
) -> None:
    catalog.coverage.begin(logs, state(incarnation, first=first, last=9))
    assert catalog.coverage.start(logs, incarnation) == start
    assert catalog.coverage.start(logs, LOGS) == 11
    assert catalog.coverage.incarnations(logs) == tuple(sorted((LOGS, incarnation), key=lambda one: one.created_ns))
    # Once it has begun, it is not begun again.
    catalog.coverage.begin(logs, state(incarnation, first=7, last=9), 8)
    assert catalog.coverage.start(logs, incarnation) == start


@pytest.mark.parametrize(("config_first", "start", "begins"), [(1, 1, 1), (4, 1, 4), (1, 6, 6), (4, 6, 6), (4, 2, 4)])
def test_a_later_incarnation_may_begin_above_1(
    catalog: Catalog, logs: Archive, config_first: int, start: int, begins: int
) -> None:
    catalog.coverage.begin(logs, state(AGAIN, first=8, last=9, first_seq=config_first), start)
    assert catalog.coverage.start(logs, AGAIN) == begins


def test_the_first_observation_begins_and_later_ones_keep_the_state(catalog: Catalog, logs: Archive) -> None:
    catalog.coverage.observe(logs, state(first=15, last=200, max_age=9))
    assert catalog.coverage.start(logs, LOGS) == 11
    seen = catalog.coverage.last_state(LOGS)
    assert seen
    assert (seen.first_seq, seen.last_seq, seen.messages) == (15, 200, 186)
    # What removed messages at any time is remembered.
    catalog.coverage.observe(logs, state(first=15, last=200, max_msgs=5))
    assert catalog.coverage.removing_settings(LOGS) == {"max_age": 9, "max_msgs": 5}
    # Another incarnation begins by `adopt` only.
    catalog.coverage.observe(logs, state(AGAIN))
    assert catalog.coverage.incarnations(logs) == (LOGS,)
    assert catalog.coverage.last_state(EARLIER) is None
    assert catalog.coverage.removing_settings(EARLIER) == {}


def test_an_archive_is_extended_back_and_never_forward(catalog: Catalog, logs: Archive) -> None:
    for start, now in ((12, 11), (11, 11), (10, 10), (3, 3), (4, 3)):
        catalog.coverage.extend_back(logs, LOGS, start)
        assert catalog.coverage.start(logs, LOGS) == now
    assert catalog.coverage.missing(logs, LOGS, SeqRange(1, 11)) == ranges((3, 10))


def test_the_newest_witness_is_kept(catalog: Catalog, logs: Archive) -> None:
    assert catalog.coverage.witness(logs, LOGS) is None
    for witness, newest in (
        (Witness(15, 150), Witness(15, 150)),
        (Witness(14, 140), Witness(15, 150)),
        (Witness(15, 151), Witness(15, 150)),
        (Witness(16, 160), Witness(16, 160)),
    ):
        catalog.coverage.record_witness(logs, LOGS, witness)
        assert catalog.coverage.witness(logs, LOGS) == newest
    catalog.coverage.begin(logs, state(AGAIN))
    assert catalog.coverage.witness(logs, AGAIN) is None
    catalog.coverage.record_witness(logs, AGAIN, Witness(1, 10))
    assert catalog.coverage.witness(logs, AGAIN) == Witness(1, 10)


def test_several_archives_beside_their_streams(catalog: Catalog, logs: Archive) -> None:
    other = catalog.archives.create(spec("other"), state(first=1))
    catalog.coverage.begin(other, state(AGAIN, last=9))
    catalog.chunks.commit(other, [chunk(1, 4, archive="other", incarnation=AGAIN)])
    catalog.coverage.record_witness(logs, LOGS, Witness(20, 200))
    catalog.coverage.record_witness(other, LOGS, Witness(3, 30))
    now = catalog.coverage.now([(logs, state(first=11, last=31)), (other, state(AGAIN, last=5))])
    assert (now[logs.id].missing, now[logs.id].witness) == (ranges((21, 21), (24, 25), (31, 31)), Witness(20, 200))
    # The witness of an earlier incarnation says nothing of this one.
    assert (now[other.id].missing, now[other.id].witness) == (ranges((5, 5)), None)
    assert [one.incarnation for one in now[other.id].coverages] == [LOGS, AGAIN]
    third = catalog.coverage.now([(logs, state(Incarnation("LOGS", 5), last=9))])
    assert third[logs.id].missing is None
    assert catalog.coverage.now([(logs, state(first=11, last=20))])[logs.id].missing == ()


def test_a_restored_stream_continues_an_archive_that_has_not_changed(catalog: Catalog, logs: Archive) -> None:
    seen = catalog.coverage.of(logs, LOGS)
    assert not catalog.coverage.continue_restored(logs, replace(seen, last=29), 777)
    assert not catalog.coverage.continue_restored(logs, replace(seen, messages=16), 777)
    assert not catalog.coverage.continue_restored(logs, replace(seen, incarnation=AGAIN), 777)
    assert catalog.coverage.of(logs, LOGS).incarnation.restored_ns == 0
    assert catalog.coverage.continue_restored(logs, seen, LOGS.created_ns + 777)
    assert catalog.coverage.of(logs, LOGS).incarnation.restored_ns == LOGS.created_ns + 777
    now = catalog.coverage.now([(logs, state(Incarnation("LOGS", LOGS.created_ns + 777), last=31))])
    assert now[logs.id].missing == ranges((21, 21), (24, 25), (31, 31))


def test_an_unknown_end_is_of_its_incarnation(catalog: Catalog, logs: Archive) -> None:
    catalog.coverage.begin(logs, state(AGAIN))
    catalog.coverage.record_unknown_end(logs, LOGS, 44)
    assert [one.unknown_after for one in catalog.coverage.all(logs)] == [44, None]
