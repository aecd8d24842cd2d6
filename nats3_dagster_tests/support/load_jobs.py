"""An archive of ten messages, a stream to replay them into, and API servers that run replays without Spark."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.api.routes import load_routes
from nats3_dagster.dev.process import HOST, free_port
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Replay
from nats3_dagster.replay import attempt
from nats3_dagster.replay.launch import launched
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, pending, published
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

MESSAGES = 10


class Loads:
    """Servers, and what they start: a thread of this process that drives the replay."""

    def __init__(self, settings: Settings, wire: Wire, bucket: str) -> None:
        self.settings, self.wire, self.bucket = settings, wire, bucket
        # Every start, and whether it may drive already.
        self.started: list[tuple[str, int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self._threads: list[threading.Thread] = []

    def archive(self, workspace: Workspace) -> None:
        self.wire.create_stream("EV", "ev.>")
        self.wire.create_stream("BACK", "back.>")
        self.wire.publish([("ev.a", b"", b"%d" % n) for n in range(MESSAGES)])
        archived(workspace, self.wire, "EV", self.bucket, "events")

    @property
    def body(self) -> dict[str, Any]:
        return {"bucket": self.bucket, "read_stream": "EV", "read_subject": "ev.>", "write_subject": "back.>"}

    @property
    def back(self) -> list[int]:
        """What was replayed, in the order of the target."""
        return [int(m.data) for m in self.wire.messages("BACK")]

    @contextmanager
    def server(self) -> Iterator[TestClient]:
        """A server with a workspace of its own."""
        with TestClient(self.app(), raise_server_exceptions=False) as client:
            yield client

    def app(self) -> FastAPI:
        app = create_app(self.settings)
        app.dependency_overrides[load_routes.starts] = lambda: lambda *_: self._start
        return app

    def until(self, client: TestClient, job_id: str, *statuses: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            job = client.get("/load/job", params={"job_id": job_id}).json()
            return job if job["status"] in statuses else None

        return eventually(look, f"{statuses} of {job_id}")

    def join(self) -> None:
        """Wait for all that was started."""
        self.gate.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _start(self, replay: Replay, number: int) -> None:
        self.started.append((replay.id, number))
        thread = threading.Thread(target=self._drive, args=(replay.id, number))
        self._threads.append(thread)
        thread.start()

    def _drive(self, replay_id: str, number: int) -> None:
        assert self.gate.wait(180)  # a fuzz test keeps it shut for as long as it takes
        with suppress(Nats3Error):
            drive(self.settings, replay_id, number)


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """A server behind a socket; its address."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started, "the server")
        yield f"http://{HOST}:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


def drive(settings: Settings, replay_id: str, number: int) -> None:
    """One attempt, as `nats3 load resume` makes it."""
    with (
        launched(settings, replay_id, number),
        Workspace(settings) as workspace,
        workspace.catalog.replays.lock(replay_id),
    ):
        started = attempt.start(workspace, replay_id)
        try:
            results = published(started.job, pending(workspace, replay_id))
        except Exception as error:
            attempt.abandon(workspace, started.job, error)
            raise
        attempt.record(workspace, started.job, results, None)


def replay_of(workspace: Workspace, job: dict[str, Any]) -> Replay:
    found = workspace.catalog.replays.find_job(UUID(job["id"]))
    assert found
    return found
