"""`nats3 load progress`: the document of HTTP, once or until the replay has ended."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.model import Replay, ReplaySpec, Selection
from nats3_dagster.replay import jobs, launch
from nats3_dagster.replay.job_request import JobRequest, JobSource
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.load_jobs import drive, listening
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

MESSAGES = 10
NATS3 = (sys.executable, "-m", "nats3_dagster.cli")


@pytest.fixture
def replay(workspace: Workspace, wire: Wire, bucket: str) -> Replay:
    """Recorded, with nothing started for it."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(MESSAGES)])
    archived(workspace, wire, "EV", bucket, "events")
    spec = ReplaySpec("", "back.>", Selection(subjects=("ev.>",)))
    return jobs.begin_job(workspace, JobRequest(JobSource("events"), spec, name="load-1"))[0]


@contextmanager
def following(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = [*NATS3, "load", "progress", *words, "--watch=0.1"]
    # With it each line would come at once by itself.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def documents(lines: Sequence[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_the_document_is_that_of_http(nats3: Command, settings: Settings, replay: Replay) -> None:
    app = create_app(settings)
    with TestClient(app) as client:
        over_http = client.get("/load/job/progress", params={"job_id": str(replay.job_id)}).json()
    assert (over_http["status"], over_http["messages_done"], over_http["messages"]) == ("Created", 0, MESSAGES)
    with listening(create_app(settings)) as url:
        for name in (replay.id, "load-1", str(replay.job_id)):
            assert nats3.ok("load", "progress", name, "-o", "json").json == over_http
            assert nats3.ok("load", "progress", name, "--server", url, "-o", "json").json == over_http
        shown = nats3.ok("load", "progress", replay.id).out
        assert nats3.ok("load", "progress", replay.id, "--server", url).out == shown
    assert f"planned; to go on: nats3 load resume {replay.id}" in shown
    assert "at least 0 of at most 10" in shown
    assert (
        nats3.refused("load", "progress", "none")
        == "2 Error: There is no replay none. See the list of replays: nats3 load list"
    )
    assert nats3.refused("load", "progress").startswith("2 Error: Missing argument 'ID'")


@pytest.mark.parametrize("by_server", [False, True])
def test_it_is_followed_until_it_has_succeeded(settings: Settings, replay: Replay, by_server: bool) -> None:
    with listening(create_app(settings)) as url:
        words = (replay.id, "-o", "json", *(("--server", url) if by_server else ()))
        with following(*words) as process:
            assert process.stdout
            assert process.stderr
            first = process.stdout.readline()
            assert first, process.stderr.read()
            assert json.loads(first)["status"] == "Created"
            drive(settings, replay.id, launch_number(settings, replay))
            seen = documents([first, *process.stdout])
            assert (process.wait(30), process.stderr.read()) == (0, "")
    last = seen[-1]
    assert (last["status"], last["messages_done"], last["published"]) == ("Success", MESSAGES, MESSAGES)
    changing = [{**one, **dict.fromkeys(("seconds", "rate", "eta_seconds", "updated"))} for one in seen]
    assert all(one != other for one, other in pairwise(changing))


def launch_number(settings: Settings, replay: Replay) -> int:
    with Workspace(settings) as workspace:
        return launch.reserve(workspace, replay)


def test_a_replay_that_fails_is_an_error(nats3: Command, workspace: Workspace, replay: Replay) -> None:
    launch.fail(workspace, replay.id, launch.reserve(workspace, replay), RuntimeError("No room"))
    ran = nats3("load", "progress", "load-1", "--watch", "-o", "json")
    (document,) = documents(ran.out.splitlines())
    assert (ran.status, document["status"], document["error"]) == (1, "Failure", "No room")
    assert ran.error == (
        f"Error: Replay load-1 has failed: No room. Resume replay {replay.id}, to go on "
        f"after its last message: nats3 load resume {replay.id}"
    )
    # It was asked how far the replay is, and that is known.
    assert "No room" in nats3.ok("load", "progress", "load-1").out


def test_an_interrupt_ends_the_look_and_not_the_replay(settings: Settings, replay: Replay) -> None:
    with following(replay.id, "-o", "yaml") as process:
        assert process.stdout
        assert process.stdout.readline() == "---\n"
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr
        assert (process.wait(30), process.stderr.read()) == (130, "Interrupted\n")
    drive(settings, replay.id, launch_number(settings, replay))


def test_a_table_has_a_bar_and_then_the_numbers(nats3: Command, settings: Settings, replay: Replay) -> None:
    driver = threading.Thread(target=drive, args=(settings, replay.id, launch_number(settings, replay)))
    driver.start()
    try:
        shown = nats3.ok("load", "progress", replay.id, "--watch=0.1").out
    finally:
        driver.join(60)
    assert shown.split()[:2] == ["state", "succeeded"]
    assert "10 of 10\n" in shown
