"""Expiry in the catalog: whole sealed hours before a bound, the oldest first, and never what a hold covers."""

from dataclasses import replace
from typing import Any

import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog.removal.expiry import Unkept
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, SeqRange
from nats3_dagster_tests.support.catalog import spec, state
from nats3_dagster_tests.support.sealed import H6, H7, H8, H9, H10, of, seal

# Bytes of a chunk as stored: of ten messages, and of five.
TEN, FIVE = 301, 151


@pytest.fixture
def logs(catalog: Catalog) -> Archive:
    """Hours from six to nine: ten messages in each, in two chunks at seven. The last one is not sealed."""
    archive = catalog.archives.create(spec(), replace(state(), last_ns=hour_start(H10)))
    metas = [of(H6, 1, 10), of(H7, 11, 15), of(H7, 16, 20), of(H8, 21, 30), of(H9, 31, 40)]
    catalog.chunks.commit(archive, metas)
    for hour in (H6, H7, H8):
        seal(catalog, archive, hour, messages=10)
    return archive


def found(
    catalog: Catalog, archive: Archive, end: str = "", keep_bytes: int | None = None, limit: int | None = None
) -> list[tuple[str, int, int, int]]:
    """Returns the hours that expire: the hour, and its chunks, messages and bytes."""
    hours = catalog.expiry.find(archive, end, keep_bytes, limit)
    return [(one.hour[11:13], len(one.ids), one.messages, one.bytes) for one in hours]


SIX, SEVEN, EIGHT = ("06", 1, 10, TEN), ("07", 2, 10, 2 * FIVE), ("08", 1, 10, TEN)
ALL = 3 * TEN + 2 * FIVE


def test_sealed_hours_before_the_bound_expire(catalog: Catalog, logs: Archive) -> None:
    assert found(catalog, logs) == found(catalog, logs, H6) == []
    assert found(catalog, logs, H7) == [SIX]
    assert found(catalog, logs, H8) == [SIX, SEVEN]
    assert found(catalog, logs, H9) == [SIX, SEVEN, EIGHT]
    assert found(catalog, logs, "2026-11-22-00:00") == [SIX, SEVEN, EIGHT]  # nine o'clock is not sealed


@pytest.mark.parametrize(
    ("keep_bytes", "hours"),
    [
        (ALL, []),
        (ALL + 1, []),
        (ALL - 1, [SIX]),
        (ALL - TEN, [SIX]),
        (ALL - TEN - 1, [SIX, SEVEN]),
        (ALL - TEN - 2 * FIVE, [SIX, SEVEN]),
        (ALL - TEN - 2 * FIVE - 1, [SIX, SEVEN, EIGHT]),
        (1, [SIX, SEVEN, EIGHT]),
    ],
)
def test_the_oldest_hours_expire_while_too_much_is_stored(
    catalog: Catalog, logs: Archive, keep_bytes: int, hours: list[tuple[str, int, int, int]]
) -> None:
    assert found(catalog, logs, keep_bytes=keep_bytes) == hours


def test_either_bound_is_enough(catalog: Catalog, logs: Archive) -> None:
    assert found(catalog, logs, H8, ALL - 1) == [SIX, SEVEN]
    assert found(catalog, logs, H7, ALL - TEN - 1) == [SIX, SEVEN]


def test_a_limit_takes_the_oldest(catalog: Catalog, logs: Archive) -> None:
    assert found(catalog, logs, H9, limit=2) == [SIX, SEVEN]
    assert found(catalog, logs, H9, limit=1) == [SIX]


def test_what_a_hold_covers_stays(catalog: Catalog, logs: Archive) -> None:
    """A hold on the first chunk of seven o'clock, by one sequence of it."""
    catalog.holds.create(logs, "case", "a case", seqs=SeqRange(15, 15))
    assert found(catalog, logs, H9) == [SIX, ("07", 1, 5, FIVE), EIGHT]
    # What a hold covers does not count as stored.
    assert found(catalog, logs, keep_bytes=ALL - FIVE) == []
    assert found(catalog, logs, keep_bytes=ALL - FIVE - 1) == [SIX]
    assert catalog.holds.held(logs).bytes == FIVE
    assert catalog.expiry.unkept(logs, H9) == Unkept(hours=3, oldest=H6, unsealed=0)
    catalog.holds.create(logs, "more", "a case", hours=(H7, H7))
    assert found(catalog, logs, H9) == [SIX, EIGHT]
    assert catalog.expiry.unkept(logs, H9) == Unkept(hours=2, oldest=H6, unsealed=0)
    for name in ("case", "more"):
        catalog.holds.release(logs, name, "over")
    assert found(catalog, logs, H9) == [SIX, SEVEN, EIGHT]


def test_hours_that_should_have_expired(catalog: Catalog, logs: Archive) -> None:
    assert (
        catalog.expiry.unkept(logs, "") == catalog.expiry.unkept(logs, H6) == Unkept(hours=0, oldest=None, unsealed=0)
    )
    assert catalog.expiry.unkept(logs, H8) == Unkept(hours=2, oldest=H6, unsealed=0)
    assert catalog.expiry.unkept(logs, H10) == Unkept(hours=4, oldest=H6, unsealed=1)


def test_expired_hours_are_gone_and_are_sealed_again(catalog: Catalog, logs: Archive) -> None:
    other = catalog.archives.create(spec("other", keep_s=3600), state())
    assert catalog.expiry.due_archives() == ["other"]
    assert [one.hour for one in catalog.expiry.expire(logs, H8, None, 100)] == [H6, H7]
    assert [tuple(one.meta.covers) for one in catalog.chunks.select(logs)] == [(21, 30), (31, 40)]
    assert catalog.gaps.sums(logs) == {"expired_by_policy": 20}
    assert found(catalog, logs, H8) == []
    assert catalog.expiry.expire(logs, H8, None, 100) == []
    assert catalog.expiry.unkept(logs, H9) == Unkept(hours=1, oldest=H8, unsealed=0)
    # Their manifests name what is gone, until they are sealed again.
    assert catalog.expiry.unsealed(logs, 100) == [H6, H7]
    assert catalog.expiry.unsealed(logs, 1) == [H6]
    assert catalog.expiry.due_archives() == ["logs", "other"]
    seal(catalog, logs, H6)
    assert catalog.expiry.unsealed(logs, 100) == [H7]
    seal(catalog, logs, H7)
    assert catalog.expiry.unsealed(logs, 100) == []
    assert catalog.expiry.due_archives() == ["other"]
    catalog.archives.delete("other")
    assert catalog.expiry.due_archives() == []
    assert other.name == "other"


@pytest.mark.parametrize(("fields", "is_due"), [({}, False), ({"keep_s": 1}, True), ({"keep_bytes": 1}, True)])
def test_archives_that_do_not_keep_all_are_asked(catalog: Catalog, fields: dict[str, Any], is_due: bool) -> None:
    catalog.archives.create(spec(**fields), state())
    assert catalog.expiry.due_archives() == (["logs"] if is_due else [])
