"""Conditions that clients send: they keep the server neither from answering, nor from its memory, nor from its end."""

import http.client
import json
import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from nats3_dagster.api import app
from nats3_dagster.api.routes import status_routes
from nats3_dagster.archive.stored import folder
from nats3_dagster.query.limits import AT_ONCE
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.servers.serving import serving
from nats3_dagster_tests.support.small_chunks import small
from nats3_dagster_tests.support.stored import made
from nats3_dagster_tests.support.waiting import eventually

# It runs for days, and in one process: what a server does with a thread is seen by one thread.
ENDLESS = "(SELECT count(*) FROM range(100000000000000) a) > 0 AND seq > 0"
LARGE = "(SELECT max(length(repeat(subject || seq, 100000000))) FROM messages) > 0"


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> None:
    found = made(workspace, bucket, "logs")
    folder.claim(workspace, found)
    small(workspace, found, 1)


def asked(url: str, where: str) -> http.client.HTTPConnection:
    """A connection on which an erasure was asked for."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
    body = json.dumps({"reason": "x", "where": where, "dry_run": True})
    connection.request("POST", "/archive/logs/erase", body, {"Content-Type": "application/json"})
    return connection


def answered(connection: http.client.HTTPConnection) -> tuple[int, dict[str, Any]]:
    answer = connection.getresponse()
    return answer.status, json.load(answer)


def ready(connections: Sequence[http.client.HTTPConnection]) -> list[http.client.HTTPConnection]:
    """Those with an answer."""
    readable, _, _ = select.select([one.sock for one in connections], [], [], 0)
    return [one for one in connections if one.sock in readable]


def statements(server: int) -> list[int]:
    """The processes of statements that a server has."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_text()
            except OSError:
                continue
            if parent == server and "query.process_main" in command:
                found.append(int(entry.name))
    return found


def test_clients_that_go_take_their_statements_along(archive: None) -> None:
    with serving() as (process, url):
        connections = [asked(url, ENDLESS) for _ in range(40)]
        # All but some are refused at once, and everything else is answered.
        eventually(lambda: len(ready(connections)) == len(connections) - AT_ONCE, "the others are refused")
        refused = [answered(one) for one in ready(connections)]
        began = time.monotonic()
        assert httpx.get(f"{url}/ready").status_code == 200
        assert [one["name"] for one in httpx.get(f"{url}/store/jobs").json()] == ["logs"]
        assert time.monotonic() - began < 10
        assert len(statements(process.pid)) == AT_ONCE
        assert {status for status, _ in refused} == {503}
        assert "statements of others run already" in refused[0][1]["error"]
        for one in connections:
            one.close()
        eventually(lambda: not statements(process.pid), "the statements end")
        # There is room again. A server that ends takes them along too.
        one = asked(url, ENDLESS)
        eventually(lambda: len(statements(process.pid)) == 1, "a statement runs")
        process.send_signal(signal.SIGTERM)
        status, problem = answered(one)
        assert (status, problem["error"]) == (503, "The statement was ended: its client is gone")
        one.close()
        assert process.wait(30) == 0


def test_a_killed_server_leaves_no_statement(archive: None) -> None:
    with serving() as (process, url):
        one = asked(url, ENDLESS)
        eventually(lambda: len(statements(process.pid)) == 1, "a statement runs")
        (statement,) = statements(process.pid)
        process.kill()
        process.wait()
        one.close()
        eventually(lambda: not Path(f"/proc/{statement}").exists(), "it ends")


def test_memory_is_bounded_and_its_end_has_a_name(archive: None) -> None:
    with serving() as (process, url):
        peak = 0
        one = asked(url, LARGE)
        answers: list[tuple[int, dict[str, Any]]] = []
        waiting = threading.Thread(target=lambda: answers.append(answered(one)))
        waiting.start()
        while waiting.is_alive():
            peak = max([peak, *map(memory, statements(process.pid))])
            time.sleep(0.02)
        one.close()
    ((status, problem),) = answers
    assert (status, problem["code"]) == (503, "NARROW_CONDITIONS")
    assert "memory" in problem["error"]
    assert 0 < peak < 1.4 * 2**30


def memory(process: int) -> int:
    """The resident bytes of a process."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def test_a_server_without_a_free_thread_is_not_ready(
    archive: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "THREADS", 1)
    monkeypatch.setattr(status_routes, "PATIENCE_S", 0.5)

    def takes_requests(client: TestClient) -> bool:
        return client.get("/ready").json()["parts"]["requests"]["ok"]

    with TestClient(app.create_app(settings)) as client:
        assert takes_requests(client)
        body = {"reason": "x", "where": ENDLESS, "dry_run": True}
        asking = threading.Thread(target=lambda: client.post("/archive/logs/erase", json=body))
        asking.start()
        eventually(lambda: not takes_requests(client), "the only thread is taken")
        app_of(client).state.ending.set()
        asking.join(30)
        assert takes_requests(client)


def app_of(client: TestClient) -> FastAPI:
    assert isinstance(client.app, FastAPI)
    return client.app
