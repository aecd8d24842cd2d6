"""Other subjects of what comes: by which filter each sequence is captured, compared and repaired."""

from typing import Any

import pytest

from nats3_dagster.archive.captures.commit import commit
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle import change as changing
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.errors import OperatorError, StreamChanged
from nats3_dagster.model import Archive, ArchiveSpec, FormerFilter, Incarnation, SeqRange
from nats3_dagster.model.archive import filters_of
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures, repairs, source_checks
from nats3_dagster_tests.support.wire import Wire

DELIVERED = "its consumer delivers them, and what it delivered cannot be told from what it did not. Make another"
LIFE = Incarnation("EV", 5)


def test_each_sequence_has_one_filter() -> None:
    former = (
        FormerFilter(4, 2**62, ("x",)),
        FormerFilter(5, 10, ("a",)),
        FormerFilter(5, 10, ("b",)),
        FormerFilter(5, 20, ("c",)),
    )

    def parts(first: int, last: int) -> list[tuple[SeqRange, tuple[str, ...]]]:
        return list(filters_of(("d",), former, LIFE, SeqRange(first, last)))

    assert parts(1, 30) == [((1, 10), ("a",)), ((11, 20), ("c",)), ((21, 30), ("d",))]
    assert parts(10, 11) == [((10, 10), ("a",)), ((11, 11), ("c",))]
    assert parts(21, 21) == [((21, 21), ("d",))]
    assert list(filters_of(("d",), former, Incarnation("EV", 4), SeqRange(1, 9))) == [((1, 9), ("x",))]
    assert list(filters_of(("d",), former, Incarnation("EV", 6), SeqRange(1, 9))) == [((1, 9), ("d",))]


@pytest.fixture
def events(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """An archive `events` of the subject ev.a, and a stream of 20 messages: even sequences are of ev.b."""
    wire.create_stream("EV", "ev.>")
    publish(wire, 1, 20)
    return create(workspace, ArchiveSpec("events", "EV", bucket, subjects=("ev.a",)))


def publish(wire: Wire, first: int, last: int) -> None:
    wire.publish([(f"ev.{'a' if n % 2 else 'b'}", b"", b"%d" % n) for n in range(first, last + 1)])


def chunks(workspace: Workspace, archive: Archive) -> list[tuple[SeqRange, int]]:
    return [(c.meta.covers, c.meta.messages) for c in workspace.catalog.chunks.select(archive)]


def test_what_there_was_is_captured_by_the_filter_before(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any
) -> None:
    """Also what was not captured yet when it changed, and by a plan that was made before."""
    before = captures.plan(workspace, events, wire)
    publish(wire, 21, 30)
    done = change(workspace, "events", {"subjects": ("ev.b",)})
    assert done.after.former_filters == (FormerFilter(before.job.state.incarnation.created_ns, 30, ("ev.a",)),)
    publish(wire, 31, 40)
    commit(workspace, before, captures.read(workspace, before))
    # What plans with the archive as it was before the change captures by what it is now.
    captures.capture(workspace, events, wire)
    assert chunks(workspace, events) == [((1, 20), 10), ((21, 30), 5), ((31, 40), 5)]
    wanted = [*range(1, 30, 2), *range(32, 41, 2)]
    assert source_checks.payloads(workspace, events) == wanted
    # Neither finds anything that the other filter takes.
    now = workspace.catalog.archives.get("events")
    assert source_checks.differences(workspace, now) == []
    for bad in repairs.live(workspace, events):
        repairs.damage(s3_client, bad)
    repaired = repairs.repaired(workspace, events, repairs.planned(workspace, events))
    assert [(one.done, one.messages) for one in repaired] == [(True, 10), (True, 5), (True, 5)]
    assert source_checks.payloads(workspace, events) == wanted


def test_every_subject_and_back_and_what_nothing_is_absent_for(
    workspace: Workspace, events: Archive, wire: Wire
) -> None:
    change(workspace, "events", {"subjects": (">",)})
    publish(wire, 21, 30)
    wire.api("STREAM.MSG.DELETE.EV", seq=25)
    change(workspace, "events", {"subjects": ("ev.b",)})
    change(workspace, "events", {"subjects": ("ev.a",)})
    publish(wire, 31, 33)
    result = captures.capture(workspace, events, wire)
    assert [(c.covers, c.messages, c.absent_reason) for c in result.chunks] == [
        ((1, 20), 10, "unselected"),
        ((21, 30), 9, "deleted"),
        ((31, 33), 2, "unselected"),
    ]
    assert source_checks.differences(workspace, workspace.catalog.archives.get("events")) == []


def test_a_gap_that_both_filters_left_is_compared_by_each(workspace: Workspace, events: Archive, wire: Wire) -> None:
    wire.api("STREAM.PURGE.EV")
    wire.publish([("ev.b", b"", b"%d" % n) for n in range(21, 31)])
    change(workspace, "events", {"subjects": ("ev.b",)})
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(31, 41)])
    captures.capture(workspace, events, wire)
    now = workspace.catalog.archives.get("events")
    assert chunks(workspace, events) == []
    assert source_checks.differences(workspace, now) == []


def test_a_change_that_waits_for_a_plan_ends_behind_it(
    workspace: Workspace, events: Archive, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream's end is asked for when no plan can come by the subjects before."""
    real, seen = changing.same_stream, []

    def asked(*args: Any) -> Any:
        with workspace.catalog.session.reading() as sql:
            query = "select mode from pg_locks where locktype = 'advisory' and granted"
            seen.extend(row[0] for row in sql.connection.execute(query).fetchall())
        return real(*args)

    monkeypatch.setattr(changing, "same_stream", asked)
    change(workspace, "events", {"subjects": ("ev.b",)})
    # Each transaction shares the lock of the schema.
    assert sorted(seen) == ["ExclusiveLock", "ShareLock"]


def test_what_is_refused(workspace: Workspace, events: Archive, wire: Wire, bucket: str) -> None:
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    create(workspace, ArchiveSpec("jobs", "JOBS", bucket, mode="consumer"))
    before = workspace.catalog.archives.all()
    for name, subjects, text in (
        ("events", ("other.>",), "Stream EV has no subject that 'other.>' takes. It captures ev.>"),
        ("events", ("ev..a",), "'ev..a' is not a subject filter: token 2 is empty"),
        (
            "jobs",
            ("jobs.a",),
            f"subjects of archive jobs cannot change from all subjects to jobs.a: {DELIVERED}",
        ),
    ):
        with pytest.raises(OperatorError) as refused:
            change(workspace, name, {"subjects": subjects, "zstd_level": 1})
        assert str(refused.value).startswith(text)
    assert workspace.catalog.archives.all() == before


def test_a_stream_that_was_made_again_ends_each_life_by_itself(
    workspace: Workspace, events: Archive, wire: Wire
) -> None:
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    publish(wire, 1, 4)
    with pytest.raises(StreamChanged):
        change(workspace, "events", {"subjects": ("ev.b",)})
    assert workspace.catalog.archives.get("events") == events
    state = open_source(workspace, events, adopt=True).state
    after = change(workspace, "events", {"subjects": ("ev.b",)}).after
    (first, second) = workspace.catalog.coverage.incarnations(events)
    assert second == state.incarnation
    assert list(after.filters(first, SeqRange(1, 99))) == [((1, 99), ("ev.a",))]
    assert list(after.filters(second, SeqRange(1, 99))) == [((1, 4), ("ev.a",)), ((5, 99), ("ev.b",))]
