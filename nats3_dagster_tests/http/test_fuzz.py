"""The API under requests that its own OpenAPI document generates: no failure of the server, every answer as documented,
what the document forbids refused.

A real stream, an archive of it and a replay of it are there, and a part of the requests names them.
"""

import json
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import Request, Response

from nats3_dagster.api.routes import restore_routes
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.exports import declare
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import ExportSpec
from nats3_dagster.objects import create_bucket
from nats3_dagster.runs.restores import Started
from nats3_dagster.tables import tables
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.load_jobs import Loads, listening
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

# The rest is about accounts, or expects that what a schema allows is accepted: whether a stream is there, or a filter
# fits it, no schema says.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
)


Real = dict[str, dict[str, list[Any]]]


class Fuzzed:
    """A server with jobs, whose replays run in threads of this process; and the statuses that it answered with."""

    def __init__(self, loads: Loads) -> None:
        # By the names of the operations.
        self.statuses: dict[str, set[int]] = {}
        self.app = loads.app()
        self.app.dependency_overrides[restore_routes.starts] = lambda: lambda *_: Started(run_id="1")

        @self.app.middleware("http")
        async def noting(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
            response = await call_next(request)
            if route := request.scope.get("route"):
                self.statuses.setdefault(route.name, set()).add(response.status_code)
            return response

    def run(self, url: str, real: Real, folder: Path, *options: str) -> None:
        """Have schemathesis ask it. `real`: values of parameters that meet something, by a pattern of paths."""
        lines = ["warnings = false", "[generation]", "deterministic = true", 'database = "none"']
        values = {f"{n}_{name.replace('.', '_')}": them for n, p in enumerate(real) for name, them in real[p].items()}
        for name, them in values.items():
            lines += [f"[dictionaries.{name}]", f"values = {json.dumps(them)}"]
        for number, (pattern, parameters) in enumerate(real.items()):
            lines += ["[[operations]]", f"include-path-regex = {json.dumps(pattern)}", "[operations.parameters]"]
            lines += [
                f'"{name}" = {{ dictionary = "{number}_{name.replace(".", "_")}", probability = 0.7 }}'
                for name in parameters
            ]
        config = folder / "schemathesis.toml"
        config.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json"]
        command += ["--checks", ",".join(CHECKS), "--continue-on-failure", "--no-color", *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
@pytest.mark.steady_hour(90)
def test_the_api_keeps_its_own_document(workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path) -> None:
    loads = Loads(workspace.settings, wire, bucket)
    loads.archive(workspace)
    declare.create(workspace, "events", ExportSpec("files", f"file://{tmp_path}/out"))
    tables.create(workspace, "events")
    # A sealed hour, and a copy, for what needs them.
    create_bucket(workspace.settings.store, other := f"copy-{uuid.uuid4().hex[:12]}")
    create_bucket(workspace.settings.store, former := f"former-{uuid.uuid4().hex[:12]}")
    change(workspace, "events", {"copies": (former,)})
    archive = change(workspace, "events", {"copies": (other,)}).after
    list(seal_hours(workspace, archive, list(workspace.catalog.hours.revisions(archive))))
    fuzzed = Fuzzed(loads)
    with listening(fuzzed.app) as url, httpx2.Client(base_url=url) as client:
        (store,) = client.get("/store/jobs").json()
        done = client.post("/load/job", json=loads.body).json()
        at = {"job_id": done["id"]}
        eventually(lambda: client.get("/load/job", params=at).json()["status"] == "Success", "the replay")
        # One that goes on as long as the test does: pause and resume have something to do.
        loads.gate.clear()
        waiting = client.post("/load/job", json=loads.body | {"sequences": [1, 5]}).json()
        assert "id" in waiting, waiting
        (chunk,) = client.get("/chunks", params={"job_id": store["id"]}).json()["chunks"]
        assert client.get("/ready").status_code == 200
        if restores := server_info(workspace.link).restores_streams:
            # The stream of this archive is gone: nothing stands in the way of a restore.
            wire.create_stream("GONE", "gone.>")
            wire.publish([("gone.a", b"", b"1")])
            archived(workspace, wire, "GONE", bucket, "gone")
            wire.api("STREAM.DELETE.GONE")
            answer = client.post("/stream/restore", json={"archive": "gone"})
            assert answer.status_code == 202, answer.text
        real: Real = {
            "/load/": {
                "job_id": [done["id"], waiting["id"]],
                "archive": ["events"],
                "body.archive": ["events"],
                "body.read_stream": ["EV"],
                "body.bucket": [bucket],
                "body.read_subject": ["ev.>", "ev.a"],
                "body.write_subject": ["back.>", "back.again"],
            },
            "/store/": {
                "job_id": [store["id"]],
                "body.stream": ["EV"],
                "body.bucket": [bucket],
                "body.subject": ["ev.a"],
            },
            "/archive/": {
                "name": ["events"],
                "seq": [1, 5],
                "subject": ["ev.>", "ev.a"],
                "sequences": ["1-5"],
                "export": ["files"],
                "at": ["2026-01-01"],
                "from_time": ["-1h"],
                "to_time": ["2100-01-01"],
                "hour": [chunk["hour"]],
                "hold": ["court"],
                "body.name": ["court"],
            },
            "/stream/": {"body.archive": ["events", "gone"]},
            "/chunks": {"job_id": [store["id"]], "chunk_id": [chunk["id"]], "archive": ["events"]},
        }
        fuzzed.run(url, real, tmp_path, "--exclude-method", "DELETE", "--max-examples", "12")
        # Then what takes the jobs away.
        client.post("/load/job/pause", params={"job_id": waiting["id"]})
        for hold in client.get("/store/job/holds", params={"job_id": store["id"]}).json():  # it keeps the archive
            client.delete(f"/archive/events/holds/{hold['name']}", params={"reason": "over"})
        client.delete(f"/archive/events/copies/{former}")
        phases = "examples,coverage,fuzzing"
        fuzzed.run(url, real, tmp_path, "--include-method", "DELETE", "--phases", phases, "--max-examples", "12")
        loads.join()
        document = client.get("/openapi.json").json()
    # Each did what it is for, and refused something.
    operations = {one["operationId"] for path in document["paths"].values() for one in path.values()}
    operations -= set() if restores else {"restore_stream"}
    assert operations == {name for name in operations if fuzzed.statuses[name] & {200, 201, 202, 204}}, fuzzed.statuses
    refusing = operations - {"ping", "ready", "metrics", "list_account_rules"}
    assert refusing == {name for name in refusing if fuzzed.statuses[name] & {404, 422}}, fuzzed.statuses
