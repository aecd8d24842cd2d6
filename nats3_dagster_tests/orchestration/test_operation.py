"""An operator's day with the running processes: a replay is cancelled and continued, and no secret is to be seen."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.defs.wording import STOPPED_CAPTURE, STOPPED_REPLAY
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start, parse_time
from nats3_dagster.model import ReplayPreset
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.dagster import backfills
from nats3_dagster_tests.support.dagster.launches import ask_for, launch_job, status
from nats3_dagster_tests.support.dagster.processes import ROOT, Dagster
from nats3_dagster_tests.support.dagster.stories import archive, archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

PLANTED = "planted-Password+of/NATS"
HOURS, EACH = 3, 3000
TOTAL = HOURS * EACH
PRESETS: list[dict[str, Any]] = [
    {"name": "slowly", "write_subject": "slow.>", "rate": 250},
    {"name": "to_test", "write_subject": "test.>"},
]

_TERMINATE = "mutation ($run: String!) { terminateRun(runId: $run) { __typename ... on PythonError { message } } }"
_EVENTS = """query ($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
  __typename ... on MessageEvent { message } ... on ErrorEvent { error { message stack cause { message } } } } } } }"""
_AGAIN = """mutation ($how: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $how) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""


@pytest.fixture
def guarded(nats_factory: NatsFactory, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> NatsServer:
    """A server that wants a password, which the environment has; and so have webserver, daemon and runs."""
    server = nats_factory(config=f'authorization {{user: "ops", password: "{PLANTED}"}}')
    for name, value in {"URL": server.url, "USER": "ops", "PASSWORD": PLANTED}.items():
        monkeypatch.setenv(f"NATS3_NATS_{name}", value)
    return server


@pytest.fixture
def wire(guarded: NatsServer) -> Iterator[Wire]:
    with Wire(guarded.url, **{"user": "ops", "pass": PLANTED}) as client:
        yield client


@pytest.fixture
def hours(wire: Wire) -> list[str]:
    """Three hours of a stream's past, and a stream to replay them into."""
    start = hour_start(hour_of(time.time_ns())) - HOURS * HOUR_NS
    past = [
        Past(n + 1, start + n // EACH * HOUR_NS + n % EACH * 1_000_000, f"ev.{n % 7}", b"", b'{"n": %d}' % n)
        for n in range(TOTAL)
    ]
    restore_stream(Settings.load().nats, "EV", ["ev.>"], past)
    wire.create_stream("BACK", "back.>")
    return [hour_of(start + n * HOUR_NS) for n in range(HOURS)]


def launch(dagster: Dagster, first: str, last: str, **config: Any) -> str:
    """Have the daemon replay these hours; the run."""
    ops = {"events__replay": {"config": {"write_subject": "back.>", **config}}}
    return launch_job(dagster, "events_replay", first, last, {"ops": ops})


def terminated(dagster: Dagster, run_id: str) -> list[str]:
    """Terminate a run as the button of the UI does; the errors in its log, once it is canceled."""
    errors = ends_of(dagster, run_id)
    assert [(error["stack"], error["cause"]) for error in errors] == [([], None)] * len(errors), json.dumps(errors)
    return [error["message"] for error in errors]


def ends_of(dagster: Dagster, run_id: str) -> list[dict[str, Any]]:
    """The errors of a run that was terminated."""
    assert dagster.ask(_TERMINATE, run=run_id)["terminateRun"]["__typename"] == "TerminateRunSuccess"
    eventually(lambda: status(dagster, run_id) == "CANCELED", "the run is cancelled", 30)
    return [event["error"] for event in events(dagster, run_id) if event.get("error")]


def terminates_a_capture(dagster: Dagster, hours: list[str]) -> None:
    """A step that begins is Dagster's own code before it is the capture, and an interrupt there has Dagster's own error
    and stack: then another capture is terminated."""
    errors = list[dict[str, Any]]()
    for _ in range(5):
        capture = launch_job(dagster, "events_capture", hours[0], hours[-1], {})
        eventually(lambda run=capture: any(_began(e) for e in events(dagster, run)), "the step begins", 180)
        errors = ends_of(dagster, capture)
        if not any("/dagster/_core/" in line for error in errors for line in error["stack"][:1]):
            break
    assert [(e["message"], e["stack"], e["cause"]) for e in errors] == [(STOPPED_CAPTURE, [], None)] * 2


def events(dagster: Dagster, run_id: str) -> list[dict[str, Any]]:
    """The events of a run's log, with the errors of those that have one."""
    return dagster.ask(_EVENTS, run=run_id)["logsForRun"]["events"]


def _began(event: dict[str, Any]) -> bool:
    return str(event.get("message")).startswith("Started execution of step")


def sealed() -> int:
    with Catalog.connect(Settings.load().postgres) as catalog:
        return sum(s.messages for s in catalog.seals.select(catalog.archives.get("events")) if s.valid)


def refuses_what_the_command_line_refuses(dagster: Dagster, hour: str) -> None:
    """Ask for replays with a pace below 0: no run is made."""
    for job, step, more in [
        ("events_replay", "events__replay", {}),
        ("replay", "replay_window", {"archive": "events"}),
    ]:
        ops = {step: {"config": {"write_subject": "back.>", "rate": -5.0, **more}}}
        said = ask_for(dagster, job, hour, hour, {"ops": ops})
        assert said["__typename"] == "PythonError"
        assert "rate is -5.0. A pace must be above 0; leave it out for no limit" in said["message"]
    assert [run["jobName"] for run in dagster.runs() if "replay" in run["jobName"]] == []


def succeeded() -> dict[tuple[str, ...], str]:
    """The runs of each replay that has succeeded, and the subjects that it went to."""
    with Catalog.connect(Settings.load().postgres) as catalog:
        return {r.run_ids: r.spec.write_subject for r in catalog.replays.select() if r.state == "succeeded"}


def goes_on_after_a_backfill_that_was_cancelled(dagster: Dagster, wire: Wire, hours: list[str]) -> None:
    """A backfill of the daemon's, of three hours of a replay by name, is one run. It is cancelled while it publishes,
    and its run executed again: one replay in two runs."""
    wire.create_stream("SLOW", "slow.>")
    backfill = backfills.launched(dagster, "events/replay/slowly", hours)
    eventually(lambda: wire.state("SLOW")["messages"] > 300, "the backfill publishes", 240)
    backfills.cancelled(dagster, backfill)
    (run,) = backfills.runs_of(dagster, backfill)
    assert status(dagster, run) == "CANCELED"
    published = wire.quiet("SLOW", 1)
    assert 300 < published < TOTAL
    again = dagster.ask(_AGAIN, how={"parentRunId": run, "strategy": "FROM_FAILURE"})["launchRunReexecution"]
    continued = again["run"]["runId"]
    assert eventually(lambda: _ended(dagster, continued), "the rest of the backfill ends", 180) == "SUCCESS"
    assert [m.data for m in wire.messages("SLOW")] == [b'{"n": %d}' % n for n in range(TOTAL)]
    assert [runs for runs, subject in succeeded().items() if subject == "slow.>"] == [(run, continued)]


def replays_an_hour_a_run_by_the_command_line(dagster: Dagster, wire: Wire, hours: list[str]) -> None:
    """`dagster job backfill` of a replay by name takes no config: a run and a replay for each hour, in their order."""
    wire.create_stream("TEST", "test.>")
    runs = backfills.by_command(dagster, "events_replay_to_test", hours[0], hours[1])
    assert len(runs) == 2
    # The oldest first: one waits for the other.
    for run in reversed(runs):
        assert eventually(lambda run=run: _ended(dagster, run), "a run of the backfill ends", 180) == "SUCCESS"
    assert [m.data for m in wire.messages("TEST")] == [b'{"n": %d}' % n for n in range(2 * EACH)]
    assert {runs for runs, subject in succeeded().items() if subject == "test.>"} == {(run,) for run in runs}


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(150)
@pytest.mark.timeout(1500)  # capture, seal, eight replays, each a process of its own
@pytest.mark.s3
def test_a_replay_is_cancelled_and_continued_and_nothing_shows_a_secret(
    wire: Wire, hours: list[str], bucket: str, tmp_path: Path
) -> None:
    archive(Settings.load(), bucket)
    with Workspace(Settings.load()) as workspace:
        change(workspace, "events", {"replays": tuple(map(ReplayPreset.of, PRESETS))})
    with Dagster(tmp_path / "dagster", {}) as dagster:
        eventually(lambda: archived(Settings.load()) == TOTAL, "the sensor has captured the three hours", 240)
        terminates_a_capture(dagster, hours)

        refuses_what_the_command_line_refuses(dagster, hours[0])
        run = launch(dagster, hours[0], hours[-1], rate=900)
        eventually(lambda: wire.state("BACK")["messages"] > 500, "the replay publishes", 180)

        cancelled = time.time_ns()
        errors = terminated(dagster, run)
        published = wire.quiet("BACK", 1)
        assert 500 < published < TOTAL
        assert parse_time(wire.state("BACK")["last_ts"]) - cancelled < 5 * SECOND_NS
        with Catalog.connect(Settings.load().postgres) as catalog:
            (replay,) = catalog.replays.select()
        assert replay.state == "canceled"
        # Once as the step's end and once as the run's.
        assert errors == [STOPPED_REPLAY.format(replay=replay.id)] * 2

        again = dagster.ask(_AGAIN, how={"parentRunId": run, "strategy": "FROM_FAILURE"})["launchRunReexecution"]
        assert again["__typename"] == "LaunchRunSuccess", again
        continued = again["run"]["runId"]
        # Another one into the same target waits for its turn.
        eventually(lambda: wire.state("BACK")["messages"] > published, "the continued run publishes", 180)
        other = launch(dagster, hours[0], hours[0])
        assert eventually(lambda: _ended(dagster, continued), "the continued run ends", 180) == "SUCCESS"
        assert eventually(lambda: _ended(dagster, other), "the other run ends", 180) == "SUCCESS"
        published_in_order = [*range(TOTAL), *range(EACH)]
        assert [m.data for m in wire.messages("BACK")] == [b'{"n": %d}' % n for n in published_in_order]
        eventually(lambda: sealed() == TOTAL, "the sensor has sealed the three hours", 90)
        with Catalog.connect(Settings.load().postgres) as catalog:
            replays = {r.run_ids: r.state for r in catalog.replays.select()}
        assert replays == {(run, continued): "succeeded", (other,): "succeeded"}
        # Hours that are sealed already; the daemon goes through it while it does the rest.
        sealing = backfills.launched(dagster, "events/sealed", hours)
        goes_on_after_a_backfill_that_was_cancelled(dagster, wire, hours)
        eventually(lambda: backfills.status(dagster, sealing) == "COMPLETED_SUCCESS", "the hours are sealed again", 120)
        replays_an_hour_a_run_by_the_command_line(dagster, wire, hours)
        config_of_runs = dagster.ask("{ runsOrError { ... on Runs { results { runConfigYaml } } } }")
    seen = {"run config": str(config_of_runs), **_rows(Settings.load().postgres), **_files(dagster.home)}
    assert len(seen) > 10
    # What a run of a shell tags itself with is what Dagster gives to those of its UI and daemon.
    assert str(PROJECT.repository) in seen["public.run_tags"]
    assert "events: " in "".join(seen.values()) or "Replay " in "".join(seen.values())
    assert {place for place, text in seen.items() for secret in _secrets() if secret in text} == set()


def _ended(dagster: Dagster, run_id: str) -> str | None:
    found = status(dagster, run_id)
    return found if found in ("SUCCESS", "FAILURE", "CANCELED") else None


def _secrets() -> list[str]:
    settings = Settings.load()
    password = conninfo_to_dict(settings.postgres)["password"]
    return [PLANTED, str(settings.store.secret_access_key), str(password)]


def _rows(url: str) -> dict[str, str]:
    """Every table of Dagster's and of ours, as text."""
    seen: dict[str, str] = {}
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select schemaname, tablename from pg_tables where schemaname in ('public', 'nats3')"
        ).fetchall()
        for schema, table in tables:
            rows = sql.SQL("select coalesce(string_agg(t::text, ' '), '') from {} t")
            (text,) = connection.execute(rows.format(sql.Identifier(schema, table))).fetchone() or ("",)
            seen[f"{schema}.{table}"] = text
    return seen


def _files(home: Path) -> dict[str, str]:
    """Logs of the processes, and what the runs printed."""
    return {str(f.relative_to(home)): f.read_text(errors="replace") for f in home.rglob("*") if f.is_file()}


_WITH_UI = """
import json, sys, urllib.request
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.pipeline.session import start
from nats3_dagster.settings import Settings
spark = start(**{"spark.ui.enabled": "true", "spark.ui.port": "0"})
print(run_capture(spark, Settings.load(), "events", sys.argv[1]).messages)
at = spark.sparkContext.uiWebUrl.rpartition(":")[2]
app = spark.sparkContext.applicationId
pages = ["jobs/", "stages/", "environment/", "executors/", "SQL/", "storage/"]
pages += [f"api/v1/applications/{app}/{what}" for what in ("environment", "jobs", "stages", "sql", "allexecutors")]
for page in pages:
    with urllib.request.urlopen(f"http://127.0.0.1:{at}/{page}") as answer:
        print(page, answer.read().decode())
spark.stop()
"""


@pytest.mark.needs_nats("2.15")
def test_the_ui_of_spark_shows_no_secret(wire: Wire, hours: list[str], bucket: str) -> None:
    archive(Settings.load(), bucket)
    ran = subprocess.run(
        [sys.executable, "-c", _WITH_UI, hours[0]],
        capture_output=True,
        text=True,
        timeout=150,
        cwd=ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"{EACH}\n")
    assert "spark.app.name" in ran.stdout
    found: list[Any] = [secret for secret in _secrets() if secret in ran.stdout + ran.stderr]
    assert found == []
