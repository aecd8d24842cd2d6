"""What is measured against a year: a call for each row, and its goal."""

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from dagster import DagsterInstance, SensorEvaluationContext, build_sensor_context

from nats3_dagster.archive.proof.verify import find_holes, sample_chunks
from nats3_dagster.archive.read.cursor import ROUND
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.chosen import choose
from nats3_dagster.archive.selected.next_chunks import next_chunks
from nats3_dagster.cli.main import main
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.defs.sensors import sensors, upkeep_sensors
from nats3_dagster.defs.sensors.catalog_sensor import catalog_sensor
from nats3_dagster.defs.sensors.cursor import ArchiveCursor, write
from nats3_dagster.defs.sensors.tick import Reconciled, Tick
from nats3_dagster.exports.job import groups_of
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, Selection
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.year import account

Call = Callable[[Workspace], object]


@dataclass(frozen=True, slots=True)
class Row:
    """What is measured. The goals are those of the whole year on two cores."""

    call: Call
    # None where no goal is set.
    goal_ms: int | None = None
    goal_mb: int | None = None
    # How often it is called; the least of them counts.
    times: int = 3
    # Whether its store is a folder (see replays.py).
    in_folder: bool = False


def _plan(name: str, hours: int | None, subjects: tuple[str, ...] = ()) -> Call:
    """Reads of the catalog what a plan of the newest hours needs; without hours, of all."""

    def plan(workspace: Workspace) -> None:
        archive = workspace.catalog.archives.get(name)
        selection = _newest(workspace, archive, hours, subjects)
        chosen = choose(ArchiveSelection(workspace, archive, selection), over_gaps=False)
        assert chosen.extent.messages
        assert len(chosen.ids) == chosen.extent.chunks

    return plan


def _newest(workspace: Workspace, archive: Archive, hours: int | None, subjects: tuple[str, ...] = ()) -> Selection:
    """The newest hours of the archive; all of them without a number."""
    totals = workspace.catalog.archives.totals_of(archive)
    # Not by the clock: the hour may have turned since the catalog was filled.
    assert totals
    assert totals.last_ns
    end = hour_start(hour_of(totals.last_ns)) + HOUR_NS
    since = None if hours is None else end - hours * HOUR_NS
    return Selection(from_ns=since, to_ns=None if since is None else end, subjects=subjects)


def _query(sql: str, hours: int | None) -> Call:
    """Asks for what the catalog knows of the newest hours."""

    def query(workspace: Workspace) -> None:
        # Here, because DuckDB takes memory that other rows do without.
        from nats3_dagster.query.engine import run

        selection = _newest(workspace, workspace.catalog.archives.get("long"), hours)
        with run(workspace, sql, selection) as result:
            ((value,),) = result.rows
        assert value
        assert not result.scanned.fetched_bytes

    return query


def _read(hours: int | None) -> Call:
    """What a read asks of the catalog for its first round of chunks."""

    def read(workspace: Workspace) -> None:
        archive = workspace.catalog.archives.get("long")
        selection = _newest(workspace, archive, hours)
        selected = ArchiveSelection(workspace, archive, selection)
        assert next_chunks(selected, None, over_gaps=False, limit=ROUND).chunks

    return read


def _export(workspace: Workspace) -> None:
    """What the export of an hour asks of the catalog."""
    archive = workspace.catalog.archives.get("long")
    selection = _newest(workspace, archive, 1)
    assert selection.from_ns is not None
    hour = hour_of(selection.from_ns)
    assert any(seal.valid for seal in workspace.catalog.seals.select(archive, hours=[hour]))
    assert groups_of(workspace.catalog.chunks.of_hour(archive, hour))
    assert not workspace.catalog.exports.retired_messages(archive, hour)


def _command(*words: str) -> Call:
    def run(_: Workspace) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = main(list(words))
        assert status in (0, 1), out.getvalue()

    return run


@cache
def _instance() -> DagsterInstance:
    """One for all ticks of the process: the daemon has one too."""
    return DagsterInstance.ephemeral()


@contextmanager
def _context(cursor: str | None = None) -> Iterator[SensorEvaluationContext]:
    yield build_sensor_context(instance=_instance(), cursor=cursor)


def _first_hour(workspace: Workspace, archive: Archive) -> str:
    """The first partition of the archive."""
    totals = workspace.catalog.archives.totals_of(archive)
    assert totals
    return hour_of(totals.begins_ns)


def _capture_tick(workspace: Workspace) -> None:
    archive = workspace.catalog.archives.get("long")
    with _context() as context:
        sensors._evaluate_capture(context, PROJECT, workspace, archive, _first_hour(workspace, archive))


def _seal_tick(name: str) -> Call:
    def tick(workspace: Workspace) -> None:
        first = _first_hour(workspace, workspace.catalog.archives.get(name))
        with _context() as context:
            sensors._evaluate_seal(context, PROJECT, workspace.settings, name, first)

    return tick


@cache
def _heard(workspace: Workspace) -> str:
    """The cursor of a tick that reported everything: made once, because a tick gets it."""
    hour = hour_of(time.time_ns())
    cursors = {
        v.id: ArchiveCursor(v.revision, v.seals, v.replays, v.exports, hour, 0, 0, 0, 0)
        for v in workspace.catalog.archives.versions()
    }
    return write(cursors)


def _catalog_tick(workspace: Workspace) -> None:
    """Dagster has heard of everything."""
    with _context(_heard(workspace)) as context:
        sensor: Any = catalog_sensor()
        sensor(context)


def _moved_tick(workspace: Workspace) -> None:
    """What a tick reads of the catalog for an archive that changed."""
    archive = workspace.catalog.archives.get("many")
    tick = Tick(_instance(), workspace, PROJECT, [archive], Reconciled(), None, {})  # type: ignore[arg-type]
    newest = max(workspace.catalog.seals.hours(archive))
    assert tick.seals_of(archive, [newest])
    tick.revisions_of(archive)


def _sweep_tick(_: Workspace) -> None:
    with _context() as context:
        sensor: Any = upkeep_sensors.sweep_sensor()
        sensor(context)


def _scrape(path: str) -> Call:
    def get(workspace: Workspace) -> None:
        # Here, because it takes a second to load.
        from fastapi.testclient import TestClient

        from nats3_dagster.api.app import create_app

        if not _clients:
            _clients.append(TestClient(create_app(workspace.settings)).__enter__())
        answer = _clients[0].get(path)
        assert answer.status_code == 200, answer.text[:300]

    return get


# The one of the process.
_clients: list[Any] = []


def _check(name: str) -> Call:
    def check(workspace: Workspace) -> None:
        archive = workspace.catalog.archives.get(name)
        find_holes(workspace, archive)
        sample_chunks(workspace, archive, 5)

    return check


def _replays(name: str) -> Call:
    """A call of replays.py."""

    def call(workspace: Workspace) -> None:
        # Here, because what publishes takes memory that other rows do without.
        from nats3_dagster_tests.year import replays

        getattr(replays, name)(workspace)

    return call


# What rows begin with before whose first one something is filled.
ACCOUNT, ATTEMPT, MONTH, MONTH_COMPACTED = "account of 1,000", "attempt", "month", "month, compacted"
# By what a person calls them.
ROWS: dict[str, Row] = {
    "tick: capture": Row(_capture_tick, 50),
    "tick: seal, after a capture": Row(_seal_tick("long"), 200),
    "tick: seal, 10,000 hours": Row(_seal_tick("many"), 200),
    "tick: catalog, nothing new": Row(_catalog_tick, 50),
    "tick: catalog, an archive moved": Row(_moved_tick, 200),
    "tick: sweep": Row(_sweep_tick, 50),
    "/metrics": Row(_scrape("/metrics"), 300),
    "/store/jobs": Row(_scrape("/store/jobs")),
    "store list": Row(_command("store", "list")),
    "store get long": Row(_command("store", "get", "long")),
    "store get quiet": Row(_command("store", "get", "quiet")),
    "doctor": Row(_command("doctor"), times=1),
    "check: long": Row(_check("long"), 2000, 300),
    "check: busy": Row(_check("busy"), 2000, 300),
    "check: quiet": Row(_check("quiet"), 2000, 300),
    "plan: an hour": Row(_plan("long", 1), 300, 400),
    "plan: a day": Row(_plan("long", 24), None, 400),
    "plan: a week": Row(_plan("long", 168), None, 400),
    "plan: everything": Row(_plan("long", None), 5000, 400, times=1),
    "plan: an hour of 10,000 subjects": Row(_plan("busy", 1), 300, 400),
    "plan: everything of 10,000 subjects": Row(_plan("busy", None), 5000, 400, times=1),
    "plan: one of 10,000 subjects": Row(_plan("busy", 24, ("busy.77",)), None, 400),
    "query: count of an hour": Row(_query("select count(*) from long", 1), 300, 400),
    "query: count of a day": Row(_query("select count(*) from long", 24), None, 400),
    "query: newest of everything": Row(_query("select max(seq) from long", None), 5000, 400, times=1),
    "read: first round of an hour": Row(_read(1), 300, 400),
    "read: first round of everything": Row(_read(None), 5000, 400),
    "export: an hour": Row(_export, 300, 400),
    f"{ATTEMPT}: the objects of 100,000 chunks": Row(_replays("look_for_objects"), 60_000, 400, 1, in_folder=True),
    f"{ATTEMPT}: plan and record, everything": Row(_replays("begin_everything"), None, 400, 1, in_folder=True),
    f"{ATTEMPT}: the driver's part, everything": Row(_replays("driver_part"), 900_000, 400, 1, in_folder=True),
    f"{ATTEMPT}: a task's part, everything": Row(_replays("task_part"), 300_000, 400, 1, in_folder=True),
    f"{ATTEMPT}: its events and what it may delete": Row(_replays("afterwards"), 60_000, 400, 1, in_folder=True),
    f"{MONTH} of 60 chunks an hour": Row(_replays("publish_small"), 900_000, 400, 1, in_folder=True),
    f"{MONTH_COMPACTED} to a chunk an hour": Row(_replays("publish_compacted"), 180_000, 400, 1, in_folder=True),
    # The last ones: what they need is filled before the first of them, and the others do without it.
    f"{ACCOUNT}: the code location loads": Row(account.load_location, 15_000, 500, times=1),
    f"{ACCOUNT}: tick: captures, 50 streams changed": Row(account.captures_tick, 2000, 500),
    f"{ACCOUNT}: tick: seals, an hour of each ended": Row(account.seals_tick, 30_000, 500, times=2),
}
