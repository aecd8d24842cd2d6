"""A replay that follows its archive: each message once and in order, whatever ends it, and never past a hole."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.errors import CatalogError, Conflict, Nats3Error, OperatorError, TargetError, WrongState
from nats3_dagster.model import ArchiveSpec, Gap, ReplaySpec, Selection, SeqRange
from nats3_dagster.replay import control
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.drive import drive
from nats3_dagster.replay.launch import launched
from nats3_dagster.replay.status import status
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, publish_here
from nats3_dagster_tests.support.wire import Wire

FOLLOW = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)), poll_interval_s=0.05)
ROOT = Path(__file__).parents[2]


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


class Source:
    """A stream with numbered messages, its archive, and the target."""

    def __init__(self, workspace: Workspace, wire: Wire, bucket: str) -> None:
        self.workspace, self.wire, self.bucket, self.count = workspace, wire, bucket, 0
        wire.create_stream("EV", "ev.>")
        wire.create_stream("BACK", "back.>", duplicate_window=100_000_000)
        create(workspace, ArchiveSpec(name="a", stream="EV", bucket=bucket))

    def send(self, count: int = 10, *, capture: bool = True, subject: str = "ev.x") -> None:
        self.wire.publish([(subject, b"", b"%d" % n) for n in range(self.count, self.count + count)])
        self.count += count
        if capture:
            self.capture()

    def capture(self) -> None:
        archived(self.workspace, self.wire, "EV", self.bucket)

    def arrived(self) -> list[int]:
        return [int(message.data) for message in self.wire.messages("BACK")]

    def all_arrived(self) -> bool:
        return self.wire.state("BACK")["messages"] == self.count


@pytest.fixture
def source(workspace: Workspace, wire: Wire, bucket: str) -> Source:
    return Source(workspace, wire, bucket)


@contextmanager
def following(settings: Settings, replay_id: str) -> Iterator[Future[Any]]:
    """A driver in a thread of its own; it is paused at the end."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            with launched(settings, replay_id) as on_attempt, Workspace(settings) as workspace:
                outcome.set_result(drive(workspace, replay_id, publish_here, on_attempt=on_attempt))
        except Nats3Error as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield outcome
    finally:
        # It may have been paused meanwhile.
        with Workspace(settings) as workspace, suppress(WrongState):
            control.pause(workspace, replay_id, "the test is over")
        thread.join()


def test_an_archive_that_is_still_empty_is_followed(settings: Settings, workspace: Workspace, source: Source) -> None:
    replay, planned = begin(workspace, FOLLOW)
    assert (len(planned.chosen.ids), planned.extent.messages) == (0, 0)
    with following(settings, replay.id):
        for _ in range(3):
            source.send()
            wait_for(source.all_arrived)
        wait_for(lambda: status(workspace, replay.id).replay.chunks_done == 3)
        source.send(5, subject="ev.y")
        wait_for(source.all_arrived)
        assert status(workspace, replay.id).state == "running"
    assert source.arrived() == list(range(35))
    now = status(workspace, replay.id)
    assert (now.state, now.replay.chunks, now.replay.selected, now.replay.attempt, now.waiting) == (
        "paused",
        4,
        35,
        1,
        0,
    )


def test_it_begins_with_what_there_is_and_goes_on_in_a_later_attempt(
    settings: Settings, workspace: Workspace, source: Source
) -> None:
    source.send()
    source.send()
    replay, planned = begin(workspace, FOLLOW)
    assert planned.extent.messages == 20
    for _ in range(3):
        with following(settings, replay.id):
            wait_for(source.all_arrived)
            source.send()
            wait_for(source.all_arrived)
        source.send()  # while nobody follows
        assert status(workspace, replay.id).waiting == 1
    assert source.arrived() == list(range(source.count - 10))


def test_a_pause_ends_the_wait_at_once(
    settings: Settings, workspace: Workspace, source: Source, postgres_url: str
) -> None:
    replay, _ = begin(workspace, replace(FOLLOW, poll_interval_s=600))
    with following(settings, replay.id) as outcome:
        wait_for(lambda: status(workspace, replay.id).state == "running")
        began = time.monotonic()
        paused = control.pause(workspace, replay.id, "for a while")
        assert time.monotonic() - began < 60
    assert (paused.state, paused.error) == ("paused", "for a while")
    with pytest.raises(TargetError, match="was paused"):
        outcome.result()
    with psycopg.connect(postgres_url) as connection:  # an attempt that failed would raise an alarm
        query = "select state from nats3.replay_attempt where replay_id = %s"
        ends = connection.execute(query, (replay.id,)).fetchall()
    assert ends == [("paused",)]


def connections(url: str, skip: tuple[int, ...]) -> list[int]:
    with psycopg.connect(url) as own:
        rows = own.execute(
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        ).fetchall()
    return [pid for (pid,) in rows if pid not in skip]


def test_it_waits_with_one_connection_and_ends_when_that_is_lost(
    settings: Settings, workspace: Workspace, source: Source, postgres_url: str
) -> None:
    source.send()
    replay, _ = begin(workspace, replace(FOLLOW, poll_interval_s=600))
    others = tuple(connections(postgres_url, ()))
    with following(settings, replay.id) as outcome:
        wait_for(source.all_arrived)
        wait_for(lambda: len(connections(postgres_url, others)) == 1)
        (pid,) = connections(postgres_url, others)
        with psycopg.connect(postgres_url) as own:
            own.execute("select pg_terminate_backend(%s)", [pid])
        error = outcome.exception(20)
        assert isinstance(error, CatalogError)
    assert status(workspace, replay.id).state == "failed"
    source.send()
    with following(settings, replay.id):
        wait_for(source.all_arrived)
    assert source.arrived() == list(range(20))


def test_two_processes_follow_the_same_replay_and_one_does(
    settings: Settings, workspace: Workspace, source: Source
) -> None:
    replay, _ = begin(workspace, FOLLOW)
    with following(settings, replay.id):
        wait_for(lambda: status(workspace, replay.id).state == "running")
        with pytest.raises(Conflict, match="being run by another process"):
            drive(workspace, replay.id, publish_here)
        source.send()
        wait_for(source.all_arrived)
    assert source.arrived() == list(range(10))


def test_a_hole_is_waited_for_and_a_loss_is_named(settings: Settings, workspace: Workspace, source: Source) -> None:
    source.send()
    archive = workspace.catalog.archives.get("a")
    life = workspace.catalog.coverage.incarnations(archive)[0]
    source.send(10, capture=False)
    meta = workspace.catalog.chunks.select(archive)[0].meta
    behind = replace(meta, covers=SeqRange(16, 20), messages=5, key=meta.key + ".later", minutes=None, subjects=None)
    workspace.catalog.chunks.commit(archive, [behind])  # as two captures side by side commit them
    replay, planned = begin(workspace, FOLLOW)
    assert planned.extent.messages == 10
    with following(settings, replay.id) as outcome:
        wait_for(lambda: len(source.arrived()) == 10)
        time.sleep(0.3)
        assert (len(source.arrived()), status(workspace, replay.id).waiting) == (10, 1)
        workspace.catalog.chunks.commit(archive, [], [Gap(life, (SeqRange(11, 15),), "expired")])
        with pytest.raises(OperatorError, match="not in archive .*: 11-15"):
            outcome.result(20)
    assert (status(workspace, replay.id).state, len(source.arrived())) == ("failed", 10)


def test_what_was_deleted_is_no_hole_and_over_gaps_goes_past_a_loss(
    settings: Settings, workspace: Workspace, source: Source
) -> None:
    archive = workspace.catalog.archives.get("a")
    source.send()
    life = workspace.catalog.coverage.incarnations(archive)[0]
    replay, _ = begin(workspace, replace(FOLLOW, over_gaps=True))
    with following(settings, replay.id):
        wait_for(source.all_arrived)
        workspace.catalog.chunks.commit(archive, [], [Gap(life, (SeqRange(11, 12),), "expired")])
        workspace.catalog.chunks.commit(archive, [], [Gap(life, (SeqRange(13, 13),), "deleted")])
        source.send()
        wait_for(lambda: len(source.arrived()) == 17)
    assert source.arrived() == [*range(10), *range(13, 20)]


def test_a_selection_with_an_end_succeeds(settings: Settings, workspace: Workspace, source: Source) -> None:
    source.send()
    selection = Selection(subjects=("ev.>",), sequences=SeqRange(5, 25))
    replay, _ = begin(workspace, replace(FOLLOW, selection=selection))
    with following(settings, replay.id) as outcome:
        source.send()
        wait_for(lambda: len(source.arrived()) == 16)
        assert not outcome.done()
        source.send()
        assert outcome.result(20).replay.state == "succeeded"
    assert source.arrived() == list(range(4, 25))


def test_a_selection_ends_with_its_time(workspace: Workspace, source: Source) -> None:
    source.send()
    long_ago = time.time_ns() - 100 * 10**9
    selection = Selection(subjects=("ev.>",), from_ns=long_ago - 10**9, to_ns=long_ago)
    replay, planned = begin(workspace, replace(FOLLOW, selection=selection))
    assert len(planned.chosen.ids) == 0
    assert drive(workspace, replay.id, publish_here).replay.state == "succeeded"
    assert source.arrived() == []


def test_an_archive_that_is_deleted_while_it_is_followed(
    settings: Settings, workspace: Workspace, source: Source
) -> None:
    source.send()
    for again in (False, True):
        replay, _ = begin(workspace, FOLLOW)
        with following(settings, replay.id) as outcome:
            wait_for(lambda: status(workspace, replay.id).replay.chunks_done == 1)  # noqa: B023
            remove.delete(workspace, "a")
            if again:
                create(workspace, ArchiveSpec(name="a", stream="EV", bucket=source.bucket))
            with pytest.raises(OperatorError, match=r"no archive a|deleted and made again"):
                outcome.result(20)
        if not again:
            create(workspace, ArchiveSpec(name="a", stream="EV", bucket=source.bucket))
            source.capture()


def test_a_stream_that_is_made_again_while_it_is_followed(
    settings: Settings, workspace: Workspace, source: Source, wire: Wire
) -> None:
    source.send()
    replay, _ = begin(workspace, FOLLOW)
    with following(settings, replay.id):
        wait_for(source.all_arrived)
        wire.api("STREAM.DELETE.EV")
        wire.create_stream("EV", "ev.>")
        open_source(workspace, workspace.catalog.archives.get("a"), adopt=True)
        source.send()
        wait_for(source.all_arrived)
    assert source.arrived() == list(range(20))


def test_chunks_are_retired_as_they_are_done_and_no_other(
    settings: Settings, workspace: Workspace, source: Source, s3_client: Any
) -> None:
    archive = workspace.catalog.archives.get("a")
    replay, _ = begin(workspace, replace(FOLLOW, delete_chunks=True))
    with following(settings, replay.id):
        for _ in range(3):
            source.send()
            wait_for(source.all_arrived)
        wait_for(lambda: not workspace.catalog.chunks.select(archive))
    source.send()
    assert len(workspace.catalog.chunks.select(archive)) == 1
    assert control.delete_chunks(workspace, replay.id) == 0
    assert s3_client.list_objects_v2(Bucket=source.bucket)["KeyCount"] == 6  # 4 until they are swept, and the owner's
    with following(settings, replay.id):
        wait_for(source.all_arrived)
        wait_for(lambda: not workspace.catalog.chunks.select(archive))
    assert source.arrived() == list(range(40))


def test_a_chunk_that_was_retired_before_it_was_published_is_named(
    settings: Settings, workspace: Workspace, source: Source
) -> None:
    source.send()
    replay, _ = begin(workspace, FOLLOW)
    with following(settings, replay.id):
        wait_for(source.all_arrived)
    source.send()
    archive = workspace.catalog.archives.get("a")
    workspace.catalog.chunks.retire(archive, [workspace.catalog.chunks.select(archive)[-1].id])
    with pytest.raises(OperatorError, match="not in archive .*: 11-20"), launched(settings, replay.id):
        drive(workspace, replay.id, publish_here)


def test_a_chunk_that_was_repaired_after_it_was_published_is_not_published_again(
    settings: Settings, workspace: Workspace, source: Source, s3_client: Any
) -> None:
    source.send()
    replay, _ = begin(workspace, FOLLOW)
    with following(settings, replay.id):
        wait_for(source.all_arrived)
        archive = workspace.catalog.archives.get("a")
        (chunk,) = workspace.catalog.chunks.select(archive, with_subjects=True, with_deleted=True)
        key = chunk.meta.key + ".again"
        copy = {"Bucket": source.bucket, "Key": chunk.meta.key}
        s3_client.copy_object(Bucket=source.bucket, Key=key, CopySource=copy)
        workspace.catalog.chunks.replace(
            archive, [chunk.id], [replace(chunk.meta, key=key)], (), begun=datetime.now(UTC)
        )
        source.send()
        wait_for(source.all_arrived)
    assert source.arrived() == list(range(20))


def test_what_a_follow_cannot_be() -> None:
    for fields, text in [
        ({"order": "none"}, "cannot have the order none"),
        ({"poll_interval_s": 0.0}, "The poll interval is 0.0 s"),
        ({"live": True, "marks": False}, "could not be resumed"),
        ({"selection": Selection(hours=("2026-11-21-07:00",))}, "takes no hours"),
        ({"write_subject": "ev.again.>", "into_own_stream": True}, "would follow itself without end"),
    ]:
        with pytest.raises(OperatorError, match=text):
            replace(FOLLOW, **fields)


@pytest.mark.parametrize(
    ("step", "turn"),
    [
        ("replay.attempt_started", 1),
        ("replay.chunk_fetched", 2),
        ("replay.sent", 1),
        ("replay.acknowledged", 2),
        ("replay.before_record", 2),
        ("replay.recorded", 1),
        ("replay.before_extend", 1),
        ("replay.extended", 2),
        ("replay.waiting", 2),
    ],
)
def test_killed_at_a_step_and_resumed(
    settings: Settings, workspace: Workspace, source: Source, step: str, turn: int
) -> None:
    source.send()
    replay, _ = begin(workspace, replace(FOLLOW, delete_chunks=True))
    program = (
        "import sys\n"
        "from nats3_dagster.settings import Settings\n"
        "from nats3_dagster.workspace import Workspace\n"
        "from nats3_dagster.replay.drive import drive\n"
        "from nats3_dagster_tests.support.replays import publish_here\n"
        "with Workspace(Settings.load()) as workspace:\n"
        "    drive(workspace, sys.argv[1], publish_here)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, replay.id], env=os.environ | {"NATS3_FAULT": f"{step}:kill:{turn}"}, cwd=ROOT
    )
    try:
        until = time.monotonic() + 60
        while process.poll() is None:
            assert time.monotonic() < until
            if source.all_arrived():
                source.send()
            time.sleep(0.05)
        assert process.returncode == -9
    finally:
        process.kill()
        process.wait()
    with following(settings, replay.id):
        source.send()
        wait_for(source.all_arrived)
        wait_for(lambda: not workspace.catalog.chunks.select(workspace.catalog.archives.get("a")))
    assert source.arrived() == list(range(source.count))
