"""Coming from nats-s3-connector: each row of docs/migrate-from-nats3.md, and its documented lines word for word."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.dev.process import free_port
from nats3_dagster.errors import EngineError
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.acceptance.migrating.commands import COMMANDS
from nats3_dagster_tests.acceptance.migrating.configuration import CLI_FILE, SERVER
from nats3_dagster_tests.acceptance.migrating.data import DEFAULTS, METRICS, OBJECTS
from nats3_dagster_tests.acceptance.migrating.fields import LOAD_FIELDS, STORE_FIELDS
from nats3_dagster_tests.acceptance.migrating.routes import HTTP
from nats3_dagster_tests.acceptance.migrating.shared import Checks, listening, peers_durable
from nats3_dagster_tests.acceptance.migrating.side import PAGE, Side, tables
from nats3_dagster_tests.acceptance.migrating.status import STATUS
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.load_jobs import Loads
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.taking import content, covered, left, run
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow


@pytest.fixture
def loads(workspace: Workspace, wire: Wire, bucket: str) -> Iterator[Loads]:
    made = Loads(workspace.settings, wire, bucket)
    made.archive(workspace)
    yield made
    made.join()


@pytest.fixture
def side(
    loads: Loads, workspace: Workspace, nats3: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Side]:
    loads.wire.create_stream("jobs", "subject.>")
    monkeypatch.chdir(tmp_path)
    with loads.server() as client:
        yield Side(loads, client, workspace, nats3, tmp_path)


CHECKS: dict[str, Checks] = {
    "HTTP": HTTP,
    "Fields of a store job": STORE_FIELDS,
    "Fields of a load job": LOAD_FIELDS,
    "Status": STATUS,
    "Commands": COMMANDS,
    "The command line's configuration": CLI_FILE,
    "The server's configuration": SERVER,
    "Metrics": METRICS,
    "Objects": OBJECTS,
    "Defaults": DEFAULTS,
}


def test_each_row_has_a_check_and_each_check_a_row() -> None:
    assert {table: list(checks) for table, checks in CHECKS.items()} == tables()


@pytest.mark.usefixtures("unshared")
@pytest.mark.parametrize("table", CHECKS)
def test_every_row_is_true(table: str, side: Side) -> None:
    wrong: dict[str, str] = {}
    for row, check in CHECKS[table].items():
        try:
            check(side)
        except Exception as error:  # the other rows are asked as well
            wrong[row] = repr(error)[:600]
    assert not wrong, "\n".join(f"{row}: {error}" for row, error in wrong.items())


# Word for word

CONFIG = """
[[store]]
name ="job-1"
stream = "jobs"
subject = "subjects-1"
bucket = "bucket-1"

[[store]]
name ="job-2"
stream = "jobs"
subject = "subjects-2"
bucket = "bucket-2"
"""
LOAD = """
curl --header "Content-Type: application/json" \\
  --request POST \\
  --data '{
            "bucket":"bucket-1",
            "read_stream":"jobs",
            "read_subject":"subjects-1",
            "write_stream":"jobs",
            "write_subject":"destination",
            "delete_chunks":true
        }' \\
  http://localhost:8080/load/job
"""
STORE = """
curl --header "Content-Type: application/json" \\
  --request POST \\
  --data '{"name": "job-3", "stream": "jobs", "subject": "subject-1", "bucket": "bucket-1"}' \\
  http://localhost:8080/store/job
"""


def bash(command: str, port: int) -> Any:
    """What a curl line prints. Only the port is another one, where something else has 8080."""
    command = command.replace("http://localhost:8080/", f"http://localhost:{port}/")
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ran.stdout)


@pytest.fixture
def documented_buckets(s3_client: Any) -> Iterator[None]:
    """The buckets of the documents, which other tests of the session may have and make as well."""
    names = ("bucket-1", "bucket-2")
    for name in names:
        with suppress(s3_client.exceptions.BucketAlreadyOwnedByYou):
            s3_client.create_bucket(Bucket=name)
    yield
    for name in names:
        for item in s3_client.list_objects_v2(Bucket=name).get("Contents", []):
            s3_client.delete_object(Bucket=name, Key=item["Key"])
        s3_client.delete_bucket(Bucket=name)


def test_the_documented_configuration_and_curl_lines_word_for_word(
    settings: Settings, workspace: Workspace, wire: Wire, documented_buckets: None, nats3: Command, tmp_path: Path
) -> None:
    wire.create_stream("jobs", "subjects-1", "subjects-2", "subject-1", "destination")
    (tmp_path / "config.toml").write_text(CONFIG)
    nats3.ok("store", "apply", "-f", str(tmp_path / "config.toml"), "--yes")
    wire.publish([("subjects-1", b"", b"%d" % n) for n in range(5)])
    archived(workspace, wire, "jobs", "bucket-1", "job_1")
    loads = Loads(settings, wire, "bucket-1")
    try:
        try:
            port = free_port(8080)
        except EngineError:
            port = free_port()
        with listening(loads, port):
            job = bash(LOAD, port)
            wanted = {"bucket": "bucket-1", "read_stream": "jobs", "write_subject": "destination"}
            assert job.items() >= wanted.items()
            with TestClient(loads.app()) as client:
                loads.until(client, job["id"], "Success")
            assert bash(STORE, port).items() >= {"name": "job-3", "status": "Created", "archive": "job_3"}.items()
            listed = bash("curl http://localhost:8080/store/jobs", port)
            assert [job["name"] for job in listed] == ["job-1", "job-2", "job-3"]
    finally:
        loads.join()
    assert [m.data for m in wire.messages("jobs") if m.subject == "destination"] == [b"%d" % n for n in range(5)]


# At its commit 3912ba1: the keys of `examples/config.toml`, and what its README asks for.
SETUP = {
    "server": {"addr": "0.0.0.0:8080"},
    "nats": {"url": "nats:4222"},
    "postgres": {"url": "postgresql://user:pass@postgres:5432/db", "migrate": True},
    "s3": {"region": "us-east-1", "endpoint": "http://minio:9000", "access": "test-user", "secret": "test-password"},
}
STORE_JOB = {"name": "job-1", "stream": "jobs", "subject": "subject-1", "bucket": "bucket-1"}
LOAD_JOB = {
    "bucket": "bucket-1",
    "read_stream": "jobs",
    "read_subject": "subject-1",
    "write_subject": "destination",
}


def options(job: dict[str, str]) -> list[str]:
    return [word for key, value in job.items() for word in (f"--{key.replace('_', '-')}", value)]


def test_the_configuration_and_readme_of_its_newest_release(
    settings: Settings, workspace: Workspace, wire: Wire, documented_buckets: None, nats3: Command, tmp_path: Path
) -> None:
    """Its store jobs are made over HTTP: the file has none. Its curl lines have a comma after the last field."""
    path = tmp_path / "config.toml"
    path.write_text(
        'log = "info"\n'
        + "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items())
            for name, section in SETUP.items()
        )
    )
    rows = tables()["The server's configuration"]
    assert {"log", *(f"{name}.{key}" for name, section in SETUP.items() for key in section)} <= set(rows)
    for words in (("--dry-run",), ("--yes",), ()):
        ran = nats3.ok("store", "apply", "-f", str(path), *words)
        assert "left out log, server, nats, s3, postgres, which set up nats-s3-connector itself" in ran.err
        assert "there are no store jobs in it: GET /store/jobs of its server lists those made over HTTP" in ran.err
    assert "lists no store jobs" in nats3.refused("store", "apply", "-f", str(path), "--prune", "--yes")

    wire.create_stream("jobs", "subjects-1", "subject-1")
    wire.create_stream("copies", "destination")
    wire.publish([("subject-1", b"", b"%d" % n) for n in range(5)])
    loads = Loads(settings, wire, "bucket-1")
    with loads.server() as client:
        for route, job in (("/store/job", STORE_JOB), ("/load/job", LOAD_JOB)):
            body = json.dumps(job, indent=2)
            written = client.post(
                route, content=body.replace('"\n}', '",\n}'), headers={"Content-Type": "application/json"}
            )
            assert written.status_code == 422
            assert re.search(r"It is not JSON: .*\(line \d, column \d+\)", written.json()["error"]), written.text
            if job is STORE_JOB:
                assert client.post(route, json=job).status_code == 201
        archived(workspace, wire, "jobs", "bucket-1", "job_1")
        assert client.post("/load/job", json=LOAD_JOB | {"dry_run": True}).json()["messages"] == 5
    nats3.ok("store", "delete", "job_1", "--yes")
    nats3.ok("store", "create", *options(STORE_JOB | {"subject": "subjects-1"}))
    nats3.ok("store", "create", *options(STORE_JOB | {"name": "job-2"}))
    archived(workspace, wire, "jobs", "bucket-1", "job_2")
    assert nats3.ok("load", "create", *options(LOAD_JOB), "--dry-run", "-o", "json").json["messages"] == 5
    loads.join()


@pytest.mark.parametrize("kind", ["toml", "yaml"])
def test_a_whole_configuration_file(kind: str, side: Side) -> None:
    """All keys that such a file may have."""
    job = {"name": "a-b", "stream": "jobs", "subject": "subject.1", "bucket": side.bucket, "prefix": "foo"}
    batch, codec = {"max_count": 500, "max_bytes": 1000}, {"codec": "json"}
    if kind == "toml":
        path = side.folder / "config.toml"
        path.write_text(
            'log = "debug"\n[server]\naddr = "0.0.0.0:8080"\n[nats]\nurl = "localhost:4222"\n[s3]\nregion = "r"\n'
            'endpoint = "http://localhost:9000"\naccess = "a"\nsecret = "s"\n[postgres]\nurl = "u"\nmigrate = true\n'
            + "".join(
                "[[store]]\n"
                + "".join(f'{k} = "{v}"\n' for k, v in (job | {"name": name}).items())
                + 'batch.max_count = 500\nbatch.max_bytes = 1000\nencoding.codec = "json"\n'
                for name in ("a-b", "a_b")
            )
        )
    else:
        path = side.folder / "config.yaml"
        jobs = [{**job, "name": name, "batch": batch, "encoding": codec} for name in ("a-b", "a_b")]
        text = {
            "log": "debug",
            "server": {"addr": "0.0.0.0:8080"},
            "nats": {"url": "localhost:4222"},
            "s3": {"region": "r", "endpoint": "http://localhost:9000", "access": "a", "secret": "s"},
            "postgres": {"url": "u", "migrate": True},
            "store": jobs,
        }
        path.write_text(json.dumps(text))
    ran = side.nats3.ok("store", "apply", "-f", str(path), "--yes")
    assert "left out log, server, nats, s3, postgres, which set up nats-s3-connector itself" in ran.err
    # Two names that an archive cannot both have are two archives, and each keeps its own; again it changes nothing.
    for _ in range(2):
        made = {job["name"]: job for job in side.answer("GET", "/store/jobs", 200) if job["stream"] == "jobs"}
        assert {name: job["archive"] for name, job in made.items()} == {"a-b": "a_b", "a_b": "a_b_2"}
        assert {(job["max_messages"], job["max_bytes"], job["prefix"]) for job in made.values()} == {(500, 1000, "foo")}
        again = side.nats3.ok("store", "apply", "-f", str(path), "--yes")
        assert "Nothing to do" in again.err


def test_a_consumer_is_handed_over(
    workspace: Workspace, wire: Wire, nats3: Command, bucket: str, tmp_path: Path
) -> None:
    """What the old job acknowledged stays its own; the archive has all the rest, and no message is in both."""
    wire.create_stream("jobs", "orders.>", retention="workqueue")
    wire.publish([("orders.a", b"", b"%d" % n) for n in range(1, 31)])
    peers_durable(wire, "jobs", "orders__", "orders.>")
    for _ in range(12):
        wire.acknowledge(wire.next("jobs", "orders__"))
    outstanding = wire.next("jobs", "orders__")
    (text,) = re.findall(r"   ```toml\n(.*?)   ```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "config.toml"
    path.write_text(text.replace('"bucket-1"', f'"{bucket}"'))
    words = ("store", "apply", "-f", str(path), "--yes")
    refused = nats3(*words)
    assert (refused.status, "has 1 messages delivered and not acknowledged" in refused.err) == (2, True), refused.err
    wire.acknowledge(outstanding)
    nats3.ok(*words)
    archive = workspace.catalog.archives.get("job-1")
    assert run(workspace, archive).messages == 17
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(14, 31)]
    assert covered(workspace, archive, 30)
    assert left(wire, "orders__", "jobs") == (0, 0)
