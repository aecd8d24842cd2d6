"""kill -9 of Postgres in the middle of a use case: one line with a next step, and doing it again does all of it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.captures.driver import capture_hours
from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.archive.captures.plan import CapturePlan
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.source_check import correct
from nats3_dagster.archive.source import durables
from nats3_dagster.catalog import migrate
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.cli.processes import _note_of
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.errors import CatalogError, Conflict
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.model import Archive, ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.replay.begin import begin
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures, repairs, source_checks
from nats3_dagster_tests.support.replays import driven
from nats3_dagster_tests.support.wire import Wire

SPEC = ReplaySpec("events", "back.>", Selection(subjects=("ev.>",)))


@pytest.fixture(scope="module")
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    folder: Path = tmp_path_factory.mktemp("killed") / "postgres"
    with Postgres(folder, fast=True) as server:
        yield server


@pytest.fixture
def postgres_url(own_postgres: Postgres) -> str:
    """A database of the test's own on a server that it may kill: the settings name it."""
    name = f"test_{time.time_ns()}"
    own_postgres.create_database(name)
    migrate(own_postgres.url(name))
    return own_postgres.url(name)


@pytest.fixture
def events(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    return repairs.make_events(workspace, wire, bucket)


@pytest.fixture
def interrupted(own_postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], str]:
    """Kill Postgres before it is given this statement of the call, and start it again; the error that came of it."""

    def interrupt(statement: str, call: Callable[[], Any]) -> str:
        killed: list[str] = []

        def killing(real: Callable[..., Any]) -> Callable[..., Any]:
            def run(self: Statements, *args: Any, **values: Any) -> Any:
                if statement in args and not killed:
                    killed.append(statement)
                    own_postgres.kill()
                return real(self, *args, **values)

            return run

        with monkeypatch.context() as patch, pytest.raises(CatalogError) as raised:
            for name in ("rows", "values", "run"):
                patch.setattr(Statements, name, killing(getattr(Statements, name)))
            call()
        assert killed
        assert "\n" not in str(raised.value)
        assert raised.value.hint
        own_postgres.start()
        return str(raised.value)

    return interrupt


@pytest.mark.parametrize("statement", ["lock_archive", "plan_chunks"])
def test_while_a_replay_is_recorded(
    workspace: Workspace, events: Archive, wire: Wire, interrupted: Any, statement: str
) -> None:
    wire.create_stream("BACK", "back.>")
    error = interrupted(statement, lambda: begin(workspace, SPEC))
    assert "Run it again; what was not committed was not written" in error
    assert workspace.catalog.replays.select() == ()
    assert driven(workspace, begin(workspace, SPEC)[0].id).published == 100


@pytest.mark.parametrize("statement", ["add_attempt", "record_results", "end_replay"])
def test_while_a_replay_is_driven(
    workspace: Workspace, events: Archive, wire: Wire, interrupted: Any, statement: str
) -> None:
    wire.create_stream("BACK", "back.>")
    begun, _ = begin(workspace, SPEC)
    interrupted(statement, lambda: driven(workspace, begun.id))
    replay = driven(workspace, begun.id)
    assert (replay.state, replay.published + replay.found) == ("succeeded", 100)
    assert wire.state("BACK")["messages"] == 100


def test_while_an_archive_is_made(workspace: Workspace, wire: Wire, bucket: str, interrupted: Any) -> None:
    wire.create_stream("EV", "ev.>")
    spec = ArchiveSpec("events", "EV", bucket)
    interrupted("create_archive", lambda: create(workspace, spec))
    assert create(workspace, spec).name == "events"


def test_while_an_archive_with_a_durable_is_made(
    workspace: Workspace, wire: Wire, bucket: str, interrupted: Any
) -> None:
    """Nobody knows then whether there is an archive that the durable belongs to: it stays, and the next try says so."""
    wire.create_stream("EV", "ev.>", retention="interest")
    spec = ArchiveSpec("events", "EV", bucket, mode="consumer")
    interrupted("create_archive", lambda: create(workspace, spec))
    with pytest.raises(Conflict, match="has a consumer nats3-events already.*or one has left it"):
        create(workspace, spec)
    wire.api("CONSUMER.DELETE.EV.nats3-events")
    assert durables.durable_of(workspace, create(workspace, spec)).name == "nats3-events"


@pytest.mark.parametrize("statement", ["lock_archive", "add_chunks", "add_gaps"])
def test_while_a_capture_commits(
    workspace: Workspace, events: Archive, wire: Wire, interrupted: Any, statement: str
) -> None:
    wire.api("STREAM.PURGE.EV")
    wire.publish(repairs.MESSAGES)
    planned = captures.plan(workspace, events, wire)
    wire.api("STREAM.PURGE.EV", keep=50)
    outcomes = captures.read(workspace, planned)
    interrupted(statement, lambda: captures.commit.commit(workspace, planned, outcomes))
    assert len(repairs.live(workspace, events)) == 1
    result = captures.capture(workspace, events, wire)
    assert (sum(c.messages for c in result.chunks), sum(g.size for g in result.gaps)) == (50, 50)


def test_while_a_chunk_is_repaired(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any, bucket: str, interrupted: Any
) -> None:
    (before,) = repairs.live(workspace, events)
    bad = repairs.damage(s3_client, before)
    config = wire.api("STREAM.INFO.EV")["config"]  # which is in each chunk: the repaired one has another key
    wire.api("STREAM.UPDATE.EV", **{**config, "max_msg_size": 5000})
    planned = repairs.planned(workspace, events)
    interrupted("add_chunks", lambda: repairs.repaired(workspace, events, planned))
    assert repairs.live(workspace, events) == [before]
    assert repairs.stored(s3_client, bucket)[before.meta.key] == bad
    assert [one.done for one in repairs.repaired(workspace, events, repairs.planned(workspace, events))] == [True]
    (after,) = repairs.live(workspace, events)
    assert set(repairs.stored(s3_client, bucket)) == {after.meta.key}


@pytest.mark.parametrize("statement", ["delete_archive", "reserve_removals", "finish_removals"])
def test_while_an_archive_is_purged(
    workspace: Workspace, events: Archive, s3_client: Any, bucket: str, interrupted: Any, statement: str
) -> None:
    interrupted(statement, lambda: remove.delete(workspace, "events", purge=True))
    assert remove.delete(workspace, "events", purge=True).objects == 1
    assert workspace.catalog.archives.find("events") is None
    assert repairs.stored(s3_client, bucket) == {}


def test_while_an_absence_is_corrected(
    workspace: Workspace, wire: Wire, bucket: str, interrupted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(1, 101)])
    archive = create(workspace, ArchiveSpec("events", "EV", bucket))
    source_checks.capture_without(workspace, archive, wire, monkeypatch, 1, 2, 41)
    (wrong,) = source_checks.differences(workspace, archive)
    interrupted("add_chunks", lambda: correct(workspace, archive, wrong))
    (wrong,) = source_checks.differences(workspace, archive)
    assert correct(workspace, archive, wrong) == 3
    assert sorted(source_checks.payloads(workspace, archive)) == list(range(1, 101))
    assert source_checks.differences(workspace, archive) == []


def test_in_a_capture_of_several_hours_the_cause_is_said_once(
    workspace: Workspace,
    events: Archive,
    wire: Wire,
    own_postgres: Postgres,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """As `nats3 store run` tells it: by its notes, its log and its last line."""
    wire.publish(repairs.MESSAGES)
    run = HourRun([hour_of(time.time_ns() - n * HOUR_NS) for n in (3, 2, 1, 0)])

    def killed(planned: CapturePlan) -> tuple[list[Any], None]:
        own_postgres.kill()
        return captures.read(workspace, planned), None

    jobs = capture_hours(workspace, events, run, killed, _note_of("events", run))
    with caplog.at_level("WARNING"):
        while True:
            with followed(workspace, "events"):
                done = next(jobs, None)
            if done is None:
                break
    with pytest.raises(CatalogError) as raised:
        run.raise_errors()
    own_postgres.start()
    said = [record.getMessage() for record in caplog.records] + capfd.readouterr().err.splitlines()
    assert said == []
    assert raised.value.what.count("ostgres") == 1, raised.value.what
