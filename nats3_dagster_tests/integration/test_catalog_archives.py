"""Archives and the streams they archive: names, where coverage begins, what delete leaves."""

import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import CatalogError, Conflict, OperatorError
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster_tests.catalog_case import HOUR_NS, LOGS, chunk, ranges, spec, state

AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)


@pytest.fixture
def catalog(postgres_url):
    with Catalog.connect(postgres_url) as catalog:
        yield catalog


def test_an_archive_comes_back_as_it_was_asked_for(catalog):
    asked = spec(
        prefix="team/logs", subjects=("logs.a", "logs.*.b"), mode="consumer", durable="mine", max_messages=1 << 40,
        max_bytes=2, max_age_s=3, zstd_level=22,
    )  # fmt: skip
    made = catalog.create_archive(asked, state())
    assert made.spec == asked
    assert not made.paused
    assert catalog.archive("logs") == made
    assert catalog.archives() == (made,)


def test_a_name_is_taken_once(catalog):
    catalog.create_archive(spec(), state())
    with pytest.raises(Conflict, match="an archive logs already.*nats3 store get logs"):
        catalog.create_archive(spec(bucket="other"), state())
    assert len(catalog.archives()) == 1


def test_an_archive_of_another_stream_is_refused_and_not_made(catalog):
    with pytest.raises(OperatorError, match="not of OTHER"):
        catalog.create_archive(spec(), state(Incarnation("OTHER", 1)))
    assert catalog.archives() == ()


def test_an_unknown_name_brings_those_that_are_near(catalog):
    with pytest.raises(OperatorError, match="nats3 store create"):
        catalog.archive("logz")
    catalog.create_archive(spec(), state())
    catalog.create_archive(spec("metrics"), state())
    with pytest.raises(OperatorError, match="Did you mean logs?"):
        catalog.archive("logz")
    for call in (catalog.delete_archive, catalog.pause_archive, catalog.resume_archive):
        with pytest.raises(OperatorError, match="There is no archive nothing"):
            call("nothing")


def test_pause_and_resume(catalog):
    catalog.create_archive(spec(), state())
    assert catalog.pause_archive("logs").paused
    assert catalog.archive("logs").paused
    assert not catalog.resume_archive("logs").paused


def test_what_an_archive_takes_cannot_change_the_rest_can(catalog):
    made = catalog.create_archive(spec(), state())
    changed = catalog.change_archive(spec(bucket="elsewhere", prefix="new", max_age_s=5, zstd_level=9))
    assert changed.id == made.id
    assert changed.spec == spec(bucket="elsewhere", prefix="new", max_age_s=5, zstd_level=9)
    for other in (spec(stream="OTHER"), spec(subjects=("a",)), spec(mode="consumer"), spec(durable="d")):
        with pytest.raises(OperatorError, match="cannot change.*Create another"):
            catalog.change_archive(other)
    with pytest.raises(OperatorError, match="There is no archive"):
        catalog.change_archive(spec("unknown"))


@pytest.mark.parametrize(("first", "start"), [(0, 1), (1, 1), (50, 50)])
def test_coverage_begins_with_the_oldest_message_of_the_day(catalog, first, start):
    archive = catalog.create_archive(spec(), state(first=first))
    assert catalog.expected_start(archive, LOGS) == start
    assert catalog.missing(archive, LOGS, SeqRange(1, 100)) == ranges((start, 100))
    # Later it has lost messages: it still had to be captured from where it began.
    catalog.observe(archive, state(first=80))
    assert catalog.expected_start(archive, LOGS) == start


@pytest.mark.parametrize(("config", "start"), [({}, 1), ({"first_seq": 1000}, 1000)])
def test_a_stream_made_again_is_expected_from_its_first_message(catalog, config, start):
    archive = catalog.create_archive(spec(), state(first=50))
    again = state(AGAIN, first=1500, last=2000, **config)
    catalog.observe(archive, again)
    assert catalog.incarnations(archive) == (LOGS,)
    with pytest.raises(CatalogError, match="does not archive.*--adopt"):
        catalog.missing(archive, AGAIN, SeqRange(1, 10))
    catalog.adopt(archive, again)
    catalog.adopt(archive, again)
    assert catalog.incarnations(archive) == (LOGS, AGAIN)
    assert catalog.expected_start(archive, AGAIN) == start
    assert catalog.missing(archive, AGAIN, SeqRange(1, 1499)) == ranges((start, 1499))


def test_the_last_state_seen_of_a_stream(catalog):
    assert catalog.last_state(LOGS) is None
    archive = catalog.create_archive(spec(), state(last=5, subjects=["logs.>"]))
    catalog.observe(archive, state(last=9, subjects=["logs.>", "more"]))
    assert catalog.last_state(LOGS) == state(last=9, subjects=["logs.>", "more"])


def test_totals(catalog):
    logs, empty = catalog.create_archive(spec(), state()), catalog.create_archive(spec("empty"), state())
    catalog.adopt(logs, state(AGAIN))
    catalog.commit(logs, [chunk(1, 10), chunk(11, 30, 5), chunk(1, 4, incarnation=AGAIN)])
    first, second = catalog.archive_totals()
    assert (first.archive, first.incarnations, first.chunks, first.messages) == (empty, 1, 0, 0)
    assert (first.payload_bytes, first.first_ns) == (0, None)
    assert (second.archive, second.incarnations, second.chunks, second.messages) == (logs, 2, 3, 19)
    assert (second.payload_bytes, second.stored_bytes) == (1900, 573)
    assert (second.first_ns, second.last_ns) == (HOUR_NS + 1, HOUR_NS + 30)


def test_a_deleted_archive_is_gone_and_its_name_is_free(catalog):
    old = catalog.create_archive(spec(), state())
    catalog.commit(old, [chunk(1, 10), chunk(11, 20)])
    assert catalog.delete_archive("logs") == 2
    assert catalog.archives() == catalog.archive_totals() == catalog.chunks(old) == catalog.hours(old) == ()
    with pytest.raises(OperatorError, match="There is no archive"):
        catalog.delete_archive("logs")
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        catalog.commit(old, [chunk(21, 30)])
    new = catalog.create_archive(spec(), state())
    assert new.id != old.id
    # The same messages make the same objects; they belong to the new one now.
    catalog.commit(new, [chunk(1, 10)])
    assert [c.meta for c in catalog.chunks(new)] == [chunk(1, 10)]
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        catalog.commit(old, [chunk(21, 30)])
