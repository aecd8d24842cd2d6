"""Two API servers, Dagster's processes and a shell, each by itself, at once on the same archive and replay; and an
archive that comes and goes meanwhile."""

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.processes import Dagster
from nats3_dagster_tests.support.dagster.stories import archived
from nats3_dagster_tests.support.metrics import OPENMETRICS, Scraped
from nats3_dagster_tests.support.servers.serving import serving
from nats3_dagster_tests.support.taking import content
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

# Messages at once, and seconds between.
BATCH, PAUSE_S = 10, 0.05
READERS = 4
# What B is asked for of an archive that is being deleted.
PAGES = ("/store/job", "/store/jobs", "/store/job/lag", "/chunks")
# What `nats3 store get` and a server say alike of an archive.
SAID_BY_BOTH = (
    "name",
    "created",
    "updated",
    "paused",
    "lag",
    "chunks",
    "messages",
    "payload_bytes",
    "stored_bytes",
)


class Publisher:
    """Publishes 0, 1, 2 ... until it is stopped."""

    def __init__(self, url: str) -> None:
        # Messages that the stream has.
        self.published = 0
        self._url = url
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._running = self._pool.submit(self._run)

    def stop(self) -> int:
        """How many it has published. Raises what ended it."""
        self._stopping.set()
        self._running.result(30)
        self._pool.shutdown()
        return self.published

    def _run(self) -> None:
        with Wire(self._url) as wire:
            while not self._stopping.wait(PAUSE_S):
                wire.publish([("ev.a", b"", b"%d" % (self.published + n)) for n in range(BATCH)])
                self.published += BATCH


@contextmanager
def publishing(url: str) -> Iterator[Publisher]:
    publisher = Publisher(url)
    try:
        yield publisher
    finally:
        publisher.stop()


def shell(*words: str) -> Any:
    """The answer of `nats3 ... -o json`, as a process."""
    command = [sys.executable, "-m", "nats3_dagster.cli", *words, "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    return json.loads(out)


def at_once(*asks: Callable[[], Any]) -> list[Any]:
    together = threading.Barrier(len(asks))

    def ask(one: Callable[[], Any]) -> Any:
        together.wait(10)
        return one()

    with ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(ask, asks))


def scraped(server: httpx.Client) -> Scraped:
    answer = server.get("/metrics", headers={"Accept": OPENMETRICS})
    assert answer.status_code == 200
    return Scraped(answer.text)


def active(dagster: Dagster, job: str) -> bool:
    return any(run["jobName"] == job and run["status"] in ("STARTING", "STARTED") for run in dagster.runs())


def ends(dagster: Dagster) -> list[str]:
    """How each run has ended, when none is under way."""
    found = [run["status"] for run in dagster.runs()]
    return found if set(found) <= {"SUCCESS", "FAILURE", "CANCELED"} else []


@pytest.mark.steady_hour(150)
@pytest.mark.timeout(300)  # captures and a replay, each a process with a JVM of its own
def test_two_servers_a_daemon_and_a_shell_do_nothing_twice(
    settings: Settings, wire: Wire, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nats3: Command
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    dagster = Dagster(tmp_path / "dagster", {})
    monkeypatch.setenv("NATS3_DAGSTER_URL", dagster.url)
    with (
        serving() as (_, url_a),
        serving() as (_, url_b),
        httpx.Client(base_url=url_a, timeout=30) as a,
        httpx.Client(base_url=url_b, timeout=30) as b,
        publishing(settings.nats.servers[0]) as publisher,
        ThreadPoolExecutor(1) as captures,
    ):
        body = {"name": "events", "stream": "EV", "subject": "ev.>", "bucket": bucket, "max_age_s": 1}
        made = a.post("/store/job", json=body)
        assert made.status_code == 201, made.text
        at = {"job_id": made.json()["id"]}

        def jobs() -> list[dict[str, Any]]:
            """The archive by A and by B."""
            return [server.get("/store/job", params=at).json() for server in (a, b)]

        def complete_to() -> int:
            """The archive has all up to this sequence."""
            coverage = nats3.ok("store", "get", "events", "-o", "json").json["coverage"]
            return coverage[0]["complete_to_seq"] if coverage else 0

        assert [job["name"] for job in jobs()] == ["events"] * 2
        assert [job["id"] for job in b.get("/store/jobs").json()] == [at["job_id"]]
        with dagster:  # its webserver is ready once it shows an archive
            assert b.post("/store/job/pause", params=at).json()["status"] == "Paused"
            assert [job["status"] for job in jobs()] == ["Paused"] * 2
            assert a.post("/store/job/resume", params=at).json()["paused"] is False
            assert {job["status"] for job in jobs()} <= {"Created", "Running"}

            eventually(lambda: active(dagster, "events_capture"), "the daemon's capture runs")
            by_hand = captures.submit(shell, "store", "run", "events")
            replayed = eventually(complete_to, "the daemon or the shell has captured something")
            # Both servers begin a replay of it, and what captures goes on.
            key = str(uuid.uuid4())
            load = {"archive": "events", "read_subject": "ev.>", "write_subject": "back.>", "end": replayed}
            answers = at_once(
                lambda: a.post("/load/job", json=load, headers={"Idempotency-Key": key}),
                lambda: b.post("/load/job", json=load, headers={"Idempotency-Key": key}),
            )
            assert sorted(answer.status_code for answer in answers) == [200, 201], [answer.text for answer in answers]
            assert {answer.json()["id"] for answer in answers} == {key}

            def load_ended() -> dict[str, Any]:
                job = b.get("/load/job", params={"job_id": key}).json()
                return job if job["status"] in ("Success", "Failure") else {}

            assert sum(hour["messages"] for hour in by_hand.result(90)) > 0
            published = publisher.stop()
            done = eventually(load_ended, "the replay ends")
            assert (done["status"], done["error"]) == ("Success", None)
            assert [int(message.data) for message in wire.messages("BACK")] == list(range(replayed))
            for server in (a, b):
                (only,) = server.get("/load/jobs").json()
                assert (only["id"], only["status"], only["published"]) == (key, "Success", replayed)
            assert [run["jobName"] for run in dagster.runs()].count("resume_replay") == 1

            eventually(lambda: [job["lag"] for job in jobs()] == [0, 0], "the daemon has captured the rest")
            assert set(eventually(lambda: ends(dagster), "every run ends")) == {"SUCCESS"}
            of_a, of_b = jobs()
            assert of_a == of_b
            known = nats3.ok("store", "get", "events", "-o", "json").json
            for field in SAID_BY_BOTH:
                assert of_a[field] == known[field], field
            assert (of_a["messages"], known["losses"]) == (published, {})
            eventually(lambda: scraped(a).steady == scraped(b).steady, "the metrics of both servers are the same")
            numbers = scraped(a)
            for field in ("messages", "chunks", "stored_bytes"):
                assert numbers(f"nats3_archive_{field}", archive="events") == known[field], field
            assert numbers("nats3_archive_lag_messages", archive="events") == 0
            assert numbers("nats3_archive_captured_messages_total", archive="events") == published
            assert numbers("nats3_replay_published_messages_total", archive="events") == replayed
            assert numbers.by("kind", "nats3_archive_failures_total", archive="events") == {}
            runs = [chunk["dagster_run"] for chunk in b.get("/chunks", params=at | {"limit": 1000}).json()["chunks"]]
            assert None in runs
            assert set(runs) - {None}
            with Workspace(settings) as workspace:
                archive = workspace.catalog.archives.get("events")
                assert list(content(workspace, archive)) == [(n + 1, b"%d" % n) for n in range(published)]
            archive_that_comes_and_goes(settings, wire, bucket, dagster, nats3)
            assert dagster.daemon.running
            for name in ("dagster", "dagster-webserver", "dagster-daemon"):
                assert "Traceback" not in dagster.log(name)
            delete_on_one(a, b, at)


def archive_that_comes_and_goes(settings: Settings, wire: Wire, bucket: str, dagster: Dagster, nats3: Command) -> None:
    """A command creates an archive: the daemon captures it without a hand. Another one deletes it."""
    wire.create_stream("OT", "ot.>")
    wire.publish([("ot.a", b"", b"%d" % n) for n in range(200)])
    assert {name for name in dagster.assets() if "other" in name} == set()
    made = nats3.ok("store", "create", "--name", "other", "--stream", "OT", "--bucket", bucket, "--max-age", "1s")
    assert "Dagster reloaded nats3;" in made.err
    assert dagster.assets() >= {"jetstream/OT", "other/chunks", "other/replay"}
    eventually(lambda: archived(settings, "other") == 200, "the daemon captures the archive created meanwhile")
    assert set(eventually(lambda: ends(dagster), "every run ends")) == {"SUCCESS"}
    sensors = {run["tags"].get("dagster/sensor_name") for run in dagster.runs()}
    assert sensors >= {"events_capture_sensor", "other_capture_sensor"}
    gone = nats3.ok("store", "delete", "other", "--yes")
    assert "Dagster reloaded nats3;" in gone.err
    assert not {name for name in dagster.assets() if name.startswith("other/")}
    # A program that asks no webserver for a reload, or whose request is lost.
    with Workspace(settings) as workspace:
        create(workspace, ArchiveSpec(name="late", stream="OT", bucket=bucket, max_age_s=1))
    eventually(lambda: "late/chunks" in dagster.assets(), "Dagster loads the archive by itself")
    eventually(lambda: archived(settings, "late") == 200, "the daemon captures it")
    assert set(eventually(lambda: ends(dagster), "every run ends")) == {"SUCCESS"}
    with Workspace(settings) as workspace:
        delete(workspace, "late")
    eventually(lambda: "late/chunks" not in dagster.assets(), "Dagster forgets the archive by itself")


def delete_on_one(a: httpx.Client, b: httpx.Client, at: dict[str, str]) -> None:
    """Delete the archive on A while B is asked for it all the time."""
    reading, gone = threading.Barrier(READERS + 1), threading.Event()

    def look() -> list[int]:
        whole = [b.get(page).status_code for page in ("/store/jobs", "/metrics")]
        return [b.get(page, params=at).status_code for page in PAGES] + whole

    def read() -> set[int]:
        reading.wait(30)
        seen = set[int]()
        while not gone.is_set():
            seen |= set(look())
        return seen

    assert look() == [200] * 6
    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(read) for _ in range(READERS)]
        reading.wait(30)
        deleted = a.delete("/store/job", params=at)
        after = look()
        gone.set()
        assert {status for reader in readers for status in reader.result()} == {200, 404}
    assert (deleted.status_code, after) == (200, [404] * 4 + [200] * 2)
    assert [server.get("/store/jobs").json() for server in (a, b)] == [[], []]
    for server in (a, b):
        eventually(lambda one=server: scraped(one)("nats3_archive_messages", archive="events") is None, "no series")
