"""Many clients at once: none is refused, they share what is asked of sources, and each sees what it has changed."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.archive.source import condition
from nats3_dagster.archive.source.condition import Condition, RecentConditions
from nats3_dagster.model import Archive
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.api import ask, fill, paths_of
from nats3_dagster_tests.support.servers.serving import serving
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow


def test_twenty_clients_that_read(settings: Settings) -> None:
    """As `python -m nats3_dagster_tests.bench.api`, which measures it."""
    fill(settings, settings.nats.servers[0], chunks=200)
    with serving() as (_, url):
        host, port = url.removeprefix("http://").split(":")
        paths = paths_of(settings) | {"GET /metrics": ["/metrics"]}
        answers = asyncio.run(ask(host, int(port), paths, clients=20, for_s=3, every_s=0.1))
    assert answers.errors == []
    assert set(answers.seconds) == set(paths)


def test_what_all_ask_for_is_asked_for_once(
    workspace: Workspace, client: TestClient, jobs_stream: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        body = {"name": f"job-{n}", "stream": "jobs", "subject": f"subjects.{n}", "bucket": bucket}
        assert client.post("/store/job", json=body).status_code == 201
    archives = [one.archive for one in workspace.catalog.archives.totals()]
    asked: list[int] = []
    original, gate = condition.conditions, threading.Event()

    def counted(work: Workspace, some: list[Archive]) -> dict[int, Condition]:
        asked.extend(archive.id for archive in some)
        assert gate.wait(30)
        return original(work, some)

    monkeypatch.setattr(condition, "conditions", counted)
    monkeypatch.setattr(condition, "FRESH_S", 30.0)
    shared = RecentConditions(workspace)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(shared.of, archives[: 1 + n % 2]) for n in range(8)]
        gate.set()
        assert {len(one.result()) for one in answers} == {1, 2}
    assert sorted(asked) == sorted(archive.id for archive in archives)
    # Another archive, or the same after a change, is not known yet; and what is old is asked for again.
    paused = workspace.catalog.archives.pause(archives[0].name)
    shared.of([paused, archives[1]])
    assert asked[2:] == [paused.id]
    monkeypatch.setattr(condition, "FRESH_S", 0.0)
    shared.of([paused])
    assert asked[2:] == [paused.id] * 2


def test_each_client_sees_what_it_has_changed(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    """Whatever others have asked for a moment before."""
    for _ in range(3):
        body = {"name": "job-1", "stream": "jobs", "subject": "subjects.1", "bucket": bucket}
        job_id = client.post("/store/job", json=body).json()["id"]
        at = {"job_id": job_id}
        assert [one["id"] for one in client.get("/store/jobs").json()] == [job_id]
        assert client.get("/store/job", params=at).json()["status"] == "Created"
        for change, status in (("pause", "Paused"), ("resume", "Created"), ("pause", "Paused")):
            assert client.post(f"/store/job/{change}", params=at).json()["status"] == status
            assert client.get("/store/job", params=at).json()["status"] == status
            assert client.get("/store/jobs").json()[0]["status"] == status
        assert client.delete("/store/job", params=at).status_code == 200
        assert client.get("/store/jobs").json() == []
        assert client.get("/store/job", params=at).status_code == 404
