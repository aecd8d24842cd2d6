"""Two processes ask for the same at the same instant: one does it, the other one gets a refusal or goes on with it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest

from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof import repair as repairing
from nats3_dagster.archive.proof import source_check
from nats3_dagster.archive.proof.source_check import compare, correct
from nats3_dagster.archive.source import durables
from nats3_dagster.archive.stored import removal
from nats3_dagster.catalog.contents.chunks import Chunks
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.replay import begin as beginning
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.job import new_id
from nats3_dagster.replay.resume import RunEvidence, begin_or_resume
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures, repairs, source_checks
from nats3_dagster_tests.support.races import LIMIT_S, errors, meet, race
from nats3_dagster_tests.support.replays import archived, driven
from nats3_dagster_tests.support.wire import Wire

SPEC = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)))
NEW = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)), create_stream="NEW")


@pytest.fixture
def two(settings: Settings) -> Iterator[tuple[Workspace, Workspace]]:
    """What two processes have: connections of their own."""
    with ExitStack() as stack:
        yield stack.enter_context(Workspace(settings)), stack.enter_context(Workspace(settings))


@pytest.fixture
def source(two: tuple[Workspace, Workspace], wire: Wire, bucket: str) -> None:
    """An archive `a` of a stream with ten messages."""
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(10)])
    archived(two[0], wire, "EV", bucket)


@pytest.mark.parametrize("spec", [SPEC, NEW], ids=["into a stream", "into a new stream"])
def test_of_two_replays_that_are_the_same_one_begins(
    two: tuple[Workspace, Workspace], source: None, wire: Wire, monkeypatch: pytest.MonkeyPatch, spec: ReplaySpec
) -> None:
    if spec is SPEC:
        wire.create_stream("BACK", "back.>")
    meet(monkeypatch, beginning, "plan")
    results = race(*(lambda ws=ws: begin(ws, spec) for ws in two))
    (refused,) = errors(results)
    (recorded,) = two[0].catalog.replays.select()
    assert isinstance(refused, OperatorError)
    assert refused.what.startswith(f"Replay {recorded.id} of the same selection to back.> is planned")
    assert driven(two[0], recorded.id).published == 10


def test_a_replay_that_succeeded_while_the_same_one_was_planned_is_not_published_twice(
    two: tuple[Workspace, Workspace], source: None, wire: Wire
) -> None:
    wire.create_stream("BACK", "back.>")
    with pytest.raises(OperatorError, match="of the same selection to back.> has succeeded since this one was planned"):
        begin(two[0], SPEC, agree=lambda _: driven(two[1], begin(two[1], SPEC)[0].id) and None)
    assert wire.state("BACK")["messages"] == 10
    # Asked for once it is known, it is published once more.
    assert driven(two[0], begin(two[0], SPEC)[0].id).published == 10


def test_a_replay_that_two_take_up_at_once_is_begun_once(
    two: tuple[Workspace, Workspace], source: None, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("BACK", "back.>")
    meet(monkeypatch, beginning, "plan")
    replay_id = new_id()
    results = race(*(lambda ws=ws: begin_or_resume(ws, SPEC, replay_id, RunEvidence()) for ws in two))
    assert [found.replay.id for found in results] == [replay_id, replay_id]
    assert sorted(found.notes[0] for found in results) == [
        "at most 10 messages in 1 chunks",
        "goes on: 0 of 1 chunks are done",
    ]
    assert [replay.id for replay in two[0].catalog.replays.select()] == [replay_id]


def test_an_id_is_given_once(two: tuple[Workspace, Workspace], source: None, wire: Wire) -> None:
    wire.create_stream("BACK", "back.>")
    other = ReplaySpec("a", "back.two.>", Selection(subjects=("ev.>",)))
    begun, _ = begin(two[0], SPEC)
    with pytest.raises(Conflict, match=f"There is a replay {begun.id} already"):
        begin(two[1], other, replay_id=begun.id)
    two[0].catalog.replays.delete(begun.id)
    with pytest.raises(Conflict, match=f"There was a replay {begun.id}, which was deleted"):
        begin(two[1], other, replay_id=begun.id)


@pytest.mark.parametrize("mode", ["stream", "consumer"])
def test_of_two_archives_that_are_the_same_one_is_made(
    two: tuple[Workspace, Workspace], wire: Wire, bucket: str, mode: Any
) -> None:
    wire.create_stream("EV", "ev.>", retention="interest" if mode == "consumer" else "limits")
    results = race(*(lambda ws=ws: create(ws, ArchiveSpec("a", "EV", bucket, mode=mode)) for ws in two))
    (refused,) = errors(results)
    assert isinstance(refused, Conflict)
    assert refused.what == "There is an archive a already"
    (archive,) = two[0].catalog.archives.all()
    if mode == "consumer":
        assert durables.durable_of(two[0], archive).name == archive.spec.own_durable


def test_a_durable_stays_where_its_archive_may_have_been_made(
    two: tuple[Workspace, Workspace], wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that was lost says nothing about the commit."""
    wire.create_stream("EV", "ev.>", retention="interest")
    spec = ArchiveSpec("a", "EV", bucket, mode="consumer")
    archives = two[0].catalog.archives
    real = archives.create

    def unanswered(*args: Any, **kwargs: Any) -> Archive:
        real(*args, **kwargs)
        raise Conflict("The connection was lost")

    with monkeypatch.context() as patch, pytest.raises(Conflict, match="was lost"):
        patch.setattr(archives, "create", unanswered)
        create(two[0], spec)
    archive = archives.get("a")
    assert durables.durable_of(two[0], archive).name == "nats3-a"


def test_of_two_repairs_one_puts_its_chunk_in_place(
    two: tuple[Workspace, Workspace],
    wire: Wire,
    s3_client: Any,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    events: Archive,
) -> None:
    (before,) = repairs.live(two[0], events)
    repairs.damage(s3_client, before)
    config = wire.api("STREAM.INFO.EV")["config"]  # which is in each chunk: the repaired one has another key
    wire.api("STREAM.UPDATE.EV", **{**config, "max_msg_size": 5000})
    planned = [repairs.planned(ws, events) for ws in two]
    meet(monkeypatch, repairing, "_capture")
    results = race(*(lambda ws=ws, p=p: repairs.repaired(ws, events, p) for ws, p in zip(two, planned, strict=True)))
    outcomes = [one for (one,) in results]
    assert sorted(one.done for one in outcomes) == [False, True]
    (late,) = [one.conflict for one in outcomes if not one.done]
    assert late
    assert late.what == f"Another process replaced or retired chunk {before.id}"
    (after,) = repairs.live(two[0], events)
    assert set(repairs.stored(s3_client, bucket)) == {after.meta.key}
    assert repairs.planned(two[0], events).bad == ()


@pytest.fixture
def events(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    return repairs.make_events(workspace, wire, bucket)


@pytest.fixture
def workspace(two: tuple[Workspace, Workspace]) -> Workspace:
    return two[0]


@pytest.mark.parametrize("first", ["commit", "delete"])
def test_a_purge_beside_a_commit_leaves_no_live_chunk_without_its_object(
    two: tuple[Workspace, Workspace],
    wire: Wire,
    s3_client: Any,
    bucket: str,
    events: Archive,
    first: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire.publish([(f"ev.more.{n}", b"", b"x") for n in range(10)])
    planned = captures.plan(two[0], events, wire)
    outcomes = captures.read(two[0], planned)
    if first == "commit":  # the chunk becomes live after the purge has begun, and before the archive is deleted
        meet(monkeypatch, remove, "to_delete", parties=1)
    results = race(
        lambda: captures.commit.commit(two[0], planned, outcomes), lambda: remove.delete(two[1], "events", purge=True)
    )
    assert isinstance(results[1], remove.Deleted)
    if isinstance(results[0], Nats3Error):
        assert isinstance(results[0], Conflict)
        assert results[0].what == "Archive events was deleted"
        assert results[1].chunks == 1
    else:
        assert results[1].chunks == 2
        assert repairs.stored(s3_client, bucket) == {}
    assert two[0].catalog.archives.find("events") is None
    assert repairs.live(two[0], events) == []


def test_a_correction_beside_the_same_correction(
    two: tuple[Workspace, Workspace], wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(1, 101)])
    archive = create(two[0], ArchiveSpec("events", "EV", bucket))
    source_checks.capture_without(two[0], archive, wire, monkeypatch, 1, 2, 3, 41, 42, 77)
    compared = [[c for c in compare(ws, archive) if c.wrong] for ws in two]
    for mine, same in zip(*compared, strict=True):
        with monkeypatch.context() as patch:
            meet(patch, source_check, "merge" if mine.chunk else "_of_gap")
            results = race(lambda m=mine: correct(two[0], archive, m), lambda m=same: correct(two[1], archive, m))
        (refused,) = errors(results)
        assert isinstance(refused, Conflict), refused
        assert mine.found.num_rows in results
    assert source_checks.payloads(two[0], archive) == list(range(1, 101))
    assert source_checks.differences(two[0], archive) == []


def test_a_correction_beside_a_commit(
    two: tuple[Workspace, Workspace], wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(1, 101)])
    archive = create(two[0], ArchiveSpec("events", "EV", bucket))
    source_checks.capture_without(two[0], archive, wire, monkeypatch, 41, 42)
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(101, 201)])
    planned = captures.plan(two[1], archive, wire)
    outcomes = captures.read(two[1], planned)
    (wrong,) = source_checks.differences(two[0], archive)
    meet(monkeypatch, source_check, "merge", parties=1)
    results = race(lambda: correct(two[0], archive, wrong), lambda: captures.commit.commit(two[1], planned, outcomes))
    assert errors(results) == []
    assert sorted(source_checks.payloads(two[0], archive)) == list(range(1, 201))


@pytest.mark.parametrize("call", [Chunks.retire, Chunks.replace])
def test_what_retires_chunks_waits_for_the_archive_before_it_holds_them(
    two: tuple[Workspace, Workspace], events: Archive, call: Any
) -> None:
    """A commit and a delete hold the archive, and then wait for chunks: two orders would be a deadlock."""
    (chunk,) = repairs.live(two[0], events)
    more = {"chunks": (), "gaps": (), "begun": two[0].catalog.now()} if call is Chunks.replace else {}
    with ThreadPoolExecutor(1) as pool, two[0].catalog.session.transaction() as sql:
        sql.run("lock_archive", archive=events.id)
        waiting = pool.submit(call, two[1].catalog.chunks, events, [chunk.id], **more)
        while not sql.connection.execute("select from pg_locks where not granted").fetchall():
            assert not waiting.done()
        sql.connection.execute("select from nats3.chunk for update nowait")
    waiting.result(LIMIT_S)
    assert repairs.live(two[0], events) == []


def test_an_object_that_one_has_removed_and_a_capture_put_again_is_not_removed_by_another(
    two: tuple[Workspace, Workspace], s3_client: Any, bucket: str, events: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = repairs.live(two[0], events)
    data = repairs.stored(s3_client, bucket)[before.meta.key]
    two[0].catalog.chunks.retire(events, [before.id], recapture=True)
    slow, about_to, go_on = two[1].bucket(bucket), Event(), Event()
    real = slow.delete

    def delete_later(key: str) -> None:
        about_to.set()
        go_on.wait(LIMIT_S)
        real(key)

    monkeypatch.setattr(slow, "delete", delete_later)

    def waits() -> bool:
        with two[0].catalog.session.reading() as sql:
            return bool(sql.connection.execute("select from pg_locks where not granted").fetchall())

    with ThreadPoolExecutor(2) as pool:
        second = pool.submit(removal.remove_objects, two[1], bucket, [before.meta.key])
        about_to.wait(LIMIT_S)
        first = pool.submit(removal.remove_objects, two[0], bucket, [before.meta.key])
        while not first.done() and not waits():
            pass
        if first.done():
            s3_client.put_object(Bucket=bucket, Key=before.meta.key, Body=data)
            two[0].catalog.chunks.commit(events, [before.meta], begun=two[0].catalog.now())
        go_on.set()
        assert second.result(LIMIT_S) == first.result(LIMIT_S) == 1
    live = {chunk.meta.key for chunk in repairs.live(two[0], events)}
    assert live <= set(repairs.stored(s3_client, bucket))
