"""Whether the server answers, whether what it needs does, and how it answers what nobody foresaw."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.api.routes import store_routes
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import free_port
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire

PROBLEM = "application/problem+json"


def test_a_ping_under_both_prefixes(client: TestClient) -> None:
    assert [client.get(f"{prefix}/ping").text for prefix in ("", "/api/v1")] == ["pong", "pong"]


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/nowhere", 404, "There is no route /nowhere"),
        ("PUT", "/store/job", 405, "does not take PUT"),
        ("GET", "/docs/files/nothing.js", 404, "no route"),
        ("GET", "/ping?x=1", 422, "no such parameter"),
    ],
)
def test_an_answer_without_a_route_is_a_problem(
    client: TestClient, method: str, path: str, status: int, error: str
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert error in answer.json()["error"]


def test_a_defect_is_answered_without_its_text_and_logged_with_its_reference(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("postgresql://user:secret@host")

    monkeypatch.setattr(store_routes.use_cases, "jobs", broken)
    with caplog.at_level(logging.WARNING, "nats3_dagster"):
        answer = client.get("/store/jobs")
    assert (answer.status_code, answer.headers["content-type"]) == (500, PROBLEM)
    assert answer.json()["reference"] in caplog.text
    assert "KeyError in test_status.py" in caplog.text
    assert "secret" not in answer.text + caplog.text


def test_a_body_is_bounded_before_it_is_read(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    parts_read = 0

    def parts() -> Any:
        nonlocal parts_read
        for _ in range(64):
            parts_read += 1
            yield b" " * 65_536

    for content in (b"x" * ((1 << 20) + 1), parts()):
        answer = client.post("/store/job", content=content, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)
        assert answer.json()["error"] == "The body has more than 1,048,576 bytes"
    assert client.post("/store/job", content=b" " * (1 << 20), headers=headers).status_code == 422


def test_the_documentation_needs_no_other_server(client: TestClient) -> None:
    page = client.get("/docs")
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) == 5
    for name in files:
        assert not name.startswith(("http", "//", "/"))
        assert client.get(f"/{name}").status_code == 200, name
    assert "<script>" not in page.text
    document = client.get("/openapi.json").json()
    assert "/api/v1/store/job" in document["paths"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert set(operation["responses"]) >= {"404", "409", "413", "422", "500", "503"}, (path, method)
            assert list(operation["responses"]["422"]["content"]) == [PROBLEM], (path, method)
            assert operation["description"], (path, method)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_everything_is_ready(client: TestClient, workspace: Workspace, wire: Wire, bucket: str) -> None:
    parts = {"requests", "nats", "postgres", "store"}
    for _ in ("without an archive", "with one"):
        answer = client.get("/ready")
        assert (answer.status_code, answer.json()["status"], set(answer.json()["parts"])) == (200, "ready", parts)
        wire.create_stream("EV", "ev.>")
        if not workspace.catalog.archives.all():
            create(workspace, ArchiveSpec("events", "EV", bucket))


@pytest.mark.s3
def test_what_is_not_ready_and_why(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    create(workspace, ArchiveSpec("events", "EV", bucket))
    nobody = f"127.0.0.1:{free_port()}"
    for name, value in [
        ("NATS3_NATS_URL", f"nats://{nobody}"),
        ("AWS_ENDPOINT_URL_S3", f"http://{nobody}"),
        ("NATS3_DAGSTER_URL", f"http://{nobody}"),
    ]:
        monkeypatch.setenv(name, value)
    with TestClient(create_app(Settings.load())) as client:
        answer = client.get("/ready")
        job = client.get("/store/jobs").json()[0]
    parts = answer.json()["parts"]
    assert answer.status_code == 503
    assert {name: part["ok"] for name, part in parts.items()} == {
        "requests": True,
        "nats": False,
        "postgres": True,
        "store": False,
        "dagster": False,
    }
    assert all(part["error"] and part["next"] for part in parts.values() if not part["ok"])
    # The catalog answers for itself: a job is listed, with what is wrong.
    assert (job["status"], job["lag"]) == ("Failure", None)
    monkeypatch.setenv("NATS3_POSTGRES_URL", f"postgresql://user:secret@{nobody}/x")
    with TestClient(create_app(Settings.load())) as client:
        answer = client.get("/ready")
        refused = client.get("/store/jobs")
    assert {name: part["ok"] for name, part in answer.json()["parts"].items() if name != "dagster"} == {
        "requests": True,
        "nats": False,
        "postgres": False,
        "store": False,
    }
    assert (refused.status_code, refused.json()["dependency"]) == (503, "postgres")
    assert "secret" not in answer.text + refused.text
    monkeypatch.delenv("NATS3_POSTGRES_URL")
    with TestClient(create_app(Settings.load())) as client:
        refused = client.get("/store/jobs")
    assert (refused.status_code, refused.json()["code"]) == (503, "SET_POSTGRES_URL")


def test_nats_that_was_down_or_restarted_is_used_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bucket: str
) -> None:
    server = NatsServer(tmp_path / "own")
    server.start()
    url, port = server.url, server.port
    with Wire(url) as wire:
        wire.create_stream("EV", "ev.>")
    server.stop()
    monkeypatch.setenv("NATS3_NATS_URL", url)
    monkeypatch.setattr("nats3_dagster.jetstream.client.RECONNECTS", 1)
    body = {"stream": "EV", "bucket": bucket}
    try:
        with TestClient(create_app(Settings.load())) as client:
            refused = client.post("/store/job", json=body | {"name": "a"})
            assert (refused.status_code, refused.json()["dependency"]) == (503, "nats")
            server = NatsServer(tmp_path / "own", port=port)
            server.start()
            assert client.post("/store/job", json=body | {"name": "a"}).status_code == 201
            server.stop()
            workspace: Workspace = client.app.state.workspace  # type: ignore[attr-defined]
            link = workspace.link
            while not link.is_closed:  # it gives up
                refused = client.post("/store/job", json=body | {"name": "b"})
                assert (refused.status_code, refused.json()["dependency"]) == (503, "nats")
            server = NatsServer(tmp_path / "own", port=port)
            server.start()
            assert client.post("/store/job", json=body | {"name": "b"}).status_code == 201
    finally:
        server.kill()
