"""Archives and the streams they archive: names, where coverage begins, what delete leaves."""

import pytest

from nats3_dagster.errors import CatalogError, Conflict, OperatorError
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster_tests.support.catalog import HOUR_NS, LOGS, chunk, ranges, spec, state

AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)


def test_an_archive_comes_back_as_it_was_asked_for(catalog):
    asked = spec(
        prefix="team/logs",
        subjects=("logs.a", "logs.*.b"),
        mode="consumer",
        durable="mine",
        max_messages=1 << 40,
        max_bytes=2,
        max_age_s=3,
        zstd_level=22,
    )
    made = catalog.archives.create(asked, state())
    assert made.spec == asked
    assert not made.paused
    assert catalog.archives.get("logs") == made
    assert catalog.archives.all() == (made,)


def test_a_name_is_taken_once(catalog):
    catalog.archives.create(spec(), state())
    with pytest.raises(Conflict, match="an archive logs already.*Choose another name, or see archive logs"):
        catalog.archives.create(spec(bucket="other"), state())
    assert len(catalog.archives.all()) == 1


def test_an_archive_of_another_stream_is_refused_and_not_made(catalog):
    with pytest.raises(OperatorError, match="not of OTHER"):
        catalog.archives.create(spec(), state(Incarnation("OTHER", 1)))
    assert catalog.archives.all() == ()


def test_an_unknown_name_brings_those_that_are_near(catalog):
    with pytest.raises(OperatorError, match="Create an archive first"):
        catalog.archives.get("logz")
    catalog.archives.create(spec(), state())
    catalog.archives.create(spec("metrics"), state())
    with pytest.raises(OperatorError, match="Did you mean logs?"):
        catalog.archives.get("logz")
    for call in (catalog.archives.delete, catalog.archives.pause, catalog.archives.resume):
        with pytest.raises(OperatorError, match="There is no archive nothing"):
            call("nothing")


def test_pause_and_resume(catalog):
    catalog.archives.create(spec(), state())
    assert catalog.archives.pause("logs").paused
    assert catalog.archives.get("logs").paused
    assert not catalog.archives.resume("logs").paused


@pytest.mark.parametrize(("first", "start"), [(0, 1), (1, 1), (50, 50)])
def test_coverage_begins_with_the_oldest_message_of_the_day(catalog, first, start):
    archive = catalog.archives.create(spec(), state(first=first))
    assert catalog.coverage.start(archive, LOGS) == start
    assert catalog.coverage.missing(archive, LOGS, SeqRange(1, 100)) == ranges((start, 100))
    # Later it has lost messages: it still had to be captured from where it began.
    catalog.coverage.observe(archive, state(first=80))
    assert catalog.coverage.start(archive, LOGS) == start


@pytest.mark.parametrize(("config", "start"), [({}, 1), ({"first_seq": 1000}, 1000)])
def test_a_stream_made_again_is_expected_from_its_first_message(catalog, config, start):
    archive = catalog.archives.create(spec(), state(first=50))
    again = state(AGAIN, first=1500, last=2000, **config)
    catalog.coverage.observe(archive, again)
    assert catalog.coverage.incarnations(archive) == (LOGS,)
    with pytest.raises(CatalogError, match="does not archive.*adopt it as well"):
        catalog.coverage.missing(archive, AGAIN, SeqRange(1, 10))
    catalog.coverage.begin(archive, again)
    catalog.coverage.begin(archive, again)
    assert catalog.coverage.incarnations(archive) == (LOGS, AGAIN)
    assert catalog.coverage.start(archive, AGAIN) == start
    assert catalog.coverage.missing(archive, AGAIN, SeqRange(1, 1499)) == ranges((start, 1499))


def test_the_last_state_seen_of_a_stream(catalog):
    assert catalog.coverage.last_state(LOGS) is None
    archive = catalog.archives.create(spec(), state(last=5, subjects=["logs.>"]))
    catalog.coverage.observe(archive, state(last=9, subjects=["logs.>", "more"]))
    assert catalog.coverage.last_state(LOGS) == state(last=9, subjects=["logs.>", "more"])


def test_totals(catalog):
    logs, empty = catalog.archives.create(spec(), state()), catalog.archives.create(spec("empty"), state())
    catalog.coverage.begin(logs, state(AGAIN))
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 30, 5), chunk(1, 4, incarnation=AGAIN)])
    first, second = catalog.archives.totals()
    assert (first.archive, first.incarnations, first.chunks, first.messages) == (empty, 1, 0, 0)
    assert (first.payload_bytes, first.first_ns) == (0, None)
    assert (second.archive, second.incarnations, second.chunks, second.messages) == (logs, 2, 3, 19)
    assert (second.payload_bytes, second.stored_bytes) == (1900, 573)
    assert (second.first_ns, second.last_ns) == (HOUR_NS + 1, HOUR_NS + 30)


def test_a_deleted_archive_is_gone_and_its_name_is_free(catalog):
    old = catalog.archives.create(spec(), state())
    catalog.chunks.commit(old, [chunk(1, 10), chunk(11, 20)])
    assert catalog.archives.delete("logs") == 2
    assert (
        catalog.archives.all()
        == catalog.archives.totals()
        == catalog.chunks.select(old)
        == catalog.hours.select(old)
        == ()
    )
    with pytest.raises(OperatorError, match="There is no archive"):
        catalog.archives.delete("logs")
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        catalog.chunks.commit(old, [chunk(21, 30)])
    new = catalog.archives.create(spec(), state())
    assert new.id != old.id
    # The same messages make the same objects; they belong to the new one now.
    catalog.chunks.commit(new, [chunk(1, 10)])
    assert [c.meta for c in catalog.chunks.select(new)] == [chunk(1, 10)]
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        catalog.chunks.commit(old, [chunk(21, 30)])
