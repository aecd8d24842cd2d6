"""What runs load jobs, on real servers: a process of its own, and Dagster; and their progress as events."""

import gc
import inspect
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.api.routes import load_events
from nats3_dagster.api.routes.load_events import events
from nats3_dagster.dev.process import HOST, free_port
from nats3_dagster.replay import launch
from nats3_dagster.replay.jobs import JOB_STATUSES
from nats3_dagster.runs.processes import log_of
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.processes import Dagster
from nats3_dagster_tests.support.load_jobs import MESSAGES, Loads, listening, replay_of
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

ALL = list(range(MESSAGES))


@pytest.fixture
def loads(workspace: Workspace, wire: Wire, bucket: str) -> Iterator[Loads]:
    made = Loads(workspace.settings, wire, bucket)
    made.archive(workspace)
    yield made
    made.join()


def generators() -> int:
    """Streams of events that have not ended."""
    code = inspect.unwrap(events).__code__
    return sum(1 for one in gc.get_objects() if inspect.isasyncgen(one) and one.ag_code is code and one.ag_frame)


def test_progress_as_events(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_events, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(load_events, "HEARTBEAT_S", 0.2)
    loads.gate.clear()
    with listening(loads.app()) as url, httpx2.Client(base_url=url, timeout=30) as client:
        made = client.post("/load/job", json=loads.body).json()
        at, accept = {"job_id": made["id"]}, {"Accept": "text/event-stream"}
        once = client.get("/load/job/progress", params=at).json()
        assert (once["status"], once["messages_done"], once["messages"], once["rate"]) == ("Created", 0, MESSAGES, None)
        with client.stream("GET", "/load/job/progress", params=at, headers=accept) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            seen: list[tuple[str, dict[str, Any]]] = []
            name = ""
            for line in answer.iter_lines():
                if line.startswith(":"):
                    loads.gate.set()  # a heartbeat: nothing happens until then
                elif line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    seen.append((name, json.loads(line.removeprefix("data: "))))
        assert [name for name, _ in seen][-1] == "end"
        assert {name for name, _ in seen[:-1]} == {"progress"}
        last = seen[-1][1]
        assert (last["status"], last["messages_done"], last["published"]) == ("Success", MESSAGES, MESSAGES)
        assert last["rate"] > 0
        eventually(lambda: not generators(), "the end of the stream")


def test_a_client_that_goes_away_leaves_nothing_behind(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_events, "LOOK_EVERY_S", 0.05)
    loads.gate.clear()
    with listening(loads.app()) as url, httpx2.Client(base_url=url, timeout=30) as client:
        made = client.post("/load/job", json=loads.body).json()
        for _ in range(12):  # more than a catalog has connections
            with client.stream(
                "GET", "/load/job/progress", params={"job_id": made["id"]}, headers={"Accept": "text/event-stream"}
            ) as answer:
                lines = answer.iter_lines()  # closed, it closes the connection
                assert next(lines) == "event: progress"
                assert generators()
        eventually(lambda: not generators(), "the end of every stream")
        # A job that is deleted ends the stream with a problem.
        with client.stream(
            "GET", "/load/job/progress", params={"job_id": made["id"]}, headers={"Accept": "text/event-stream"}
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            with httpx2.Client(base_url=url) as other:
                assert other.delete("/load/job", params={"job_id": made["id"]}).status_code == 204
            assert "event: problem" in list(lines)


def test_a_process_of_its_own_goes_on_without_the_server(
    loads: Loads, settings: Settings, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    with TestClient(create_app(settings)) as client:
        made = client.post("/load/job", json=loads.body | {"rate": 5}).json()
        assert made["status"] == "Created", made
        log = log_of(made["replay"])
        assert log.parent.parent == tmp_path
        pid = eventually(lambda: _child_of(os.getpid(), made["replay"]), "the process")
        assert os.getsid(pid) == pid
        eventually(lambda: wire.state("BACK")["messages"] > 0, "the first message")
        # It has no socket of the server, and no pipe of this process.
        assert {Path(f"/proc/{pid}/fd/{fd}").readlink() for fd in (1, 2)} == {log}
    # The server is gone; another one sees how it ends.
    with TestClient(create_app(settings)) as client:
        done = loads.until(client, made["id"], "Success", "Failure")
        assert (done["status"], done["error"]) == ("Success", None), log.read_text()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the end of the process, and no zombie")
    assert loads.back == ALL


def test_a_process_that_is_killed_before_its_attempt_is_seen_and_goes_on(
    loads: Loads, settings: Settings, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    monkeypatch.setenv("NATS3_FAULT", "replay.launched:kill")
    key = {"Idempotency-Key": str(uuid4())}
    with TestClient(create_app(settings)) as client:
        made = client.post("/load/job", json=loads.body, headers=key).json()
        killed = loads.until(client, made["id"], "Failure")
        assert (killed["state"], killed["attempt"]) == ("interrupted", 0)
        assert killed["error"] == (
            f"What was started for replay {made['replay']} does not run, and has not begun: it was killed, or its host "
            "was"
        )
        assert killed["next"] == f"POST /load/job/resume?job_id={made['id']}"
        listed = {status: client.get("/load/jobs", params={"status": status}).json() for status in JOB_STATUSES}
        assert {status: len(jobs) for status, jobs in listed.items() if jobs} == {"Failure": 1}
        assert 'nats3_replay_state{archive="events",state="interrupted"} 1.0' in client.get("/metrics").text
        # Who asks for it again, by its key, has it started again.
        monkeypatch.delenv("NATS3_FAULT")
        again = client.post("/load/job", json=loads.body, headers=key)
        assert (again.status_code, again.json()["status"], again.json()["id"]) == (200, "Created", made["id"])
        done = loads.until(client, made["id"], "Success", "Failure")
        assert (done["status"], done["error"]) == ("Success", None), log_of(made["replay"]).read_text()
    assert loads.back == ALL


def test_a_process_that_is_killed_before_it_begins_is_seen_after_a_minute(
    loads: Loads, settings: Settings, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    with TestClient(create_app(settings)) as client, psycopg.connect(settings.postgres, autocommit=True) as postgres:
        made = client.post("/load/job", json=loads.body).json()
        at = {"job_id": made["id"]}
        pid = eventually(lambda: _child_of(os.getpid(), made["replay"]), "the process")
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{pid}").exists(), "the end of the process")
        for seconds, status in ((50, "Created"), (20, "Failure")):
            postgres.execute("update nats3.replay set launched_at = launched_at - make_interval(secs => %s)", [seconds])
            assert client.get("/load/job", params=at).json()["status"] == status
        refused = client.post("/load/job/pause", params=at).json()
        assert refused["error"] == f"Replay {made['replay']} does not run: it is interrupted"
        # A run of Dagster may wait in its queue, for however long.
        replay = replay_of(workspace, made)
        assert launch.reserve(workspace, replay, queued=True) == 2
        postgres.execute("update nats3.replay set created_at = created_at - interval '1 day'")
        assert client.get("/load/job", params=at).json()["status"] == "Created"
        # What was killed after it had begun is seen at once, and what begins late is not refused for it.
        with launch.launched(settings, replay.id, 2):
            assert client.get("/load/job", params=at).json()["status"] == "Created"
        loads.until(client, made["id"], "Failure")  # Postgres ends a connection a moment after its client
        with launch.launched(settings, replay.id, 2):
            assert client.get("/load/job", params=at).json()["status"] == "Created"


def _child_of(parent: int, word: str) -> int | None:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and word in (folder / "cmdline").read_text():
                return int(folder.name)
        except OSError:
            continue
    return None


def test_what_cannot_start_says_why(loads: Loads, settings: Settings, workspace: Workspace) -> None:
    nobody = settings.model_copy(update={"dagster_url": f"http://{HOST}:{free_port()}"})
    with TestClient(create_app(nobody)) as client:
        refused = client.post("/load/job", json=loads.body)
        assert (refused.status_code, refused.json()["dependency"]) == (503, "dagster")
        assert refused.json()["error"].startswith("The Dagster at NATS3_DAGSTER_URL does not answer: ")
    assert workspace.catalog.replays.select() == ()


@pytest.mark.timeout(300)
@pytest.mark.steady_hour(100)
def test_dagster_runs_it(loads: Loads, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {name: os.environ[name] for name in os.environ if name.startswith(("NATS3_", "AWS_"))}
    with Dagster(tmp_path, environment) as dagster:
        ours = settings.model_copy(update={"dagster_url": dagster.url})
        with TestClient(create_app(ours)) as client:
            answer = client.post("/load/job", json=loads.body)
            assert answer.status_code == 201, answer.text
            made = answer.json()
            (run,) = dagster.runs()
            assert (run["jobName"], run["tags"]["nats3/replay"]) == ("resume_replay", made["replay"])
            assert run["tags"]["nats3/archive"] == "events"

            def ended() -> dict[str, Any] | None:
                job = client.get("/load/job", params={"job_id": made["id"]}).json()
                return job if job["status"] in ("Success", "Failure") else None

            done = eventually(ended, "the end of the run", timeout_s=150)
            assert (done["status"], done["error"], done["dagster_runs"]) == ("Success", None, [run["id"]])
            assert loads.back == ALL
            eventually(lambda: dagster.runs()[0]["status"] == "SUCCESS", "the run's success")
