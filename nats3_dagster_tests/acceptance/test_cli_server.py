"""`--server`: the same story by the catalog and by the HTTP API, and what the two show compared."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import httpx2 as httpx
import psycopg
import pytest

from nats3_dagster.dev.process import free_port, wait_for
from nats3_dagster.model import Pace, ReplaySpec, Selection
from nats3_dagster.replay import jobs
from nats3_dagster.replay.job_request import JobRequest, JobSource
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def url(settings: Settings) -> Iterator[str]:
    """The address of a server."""
    command = [sys.executable, "-m", "nats3_dagster.cli", "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stderr
    try:
        line = process.stderr.readline()
        assert line.startswith("The API answers at http://"), line + process.stderr.read()
        yield line.split()[4].rstrip(";")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_archives_and_chunks_are_shown_as_the_catalog_has_them(
    nats3: Command, url: str, workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(10)])
    server = ("--server", url)
    created = ("store", "create", "--stream", "EV", "--bucket", bucket, "--prefix", "team", "--max-age", "5s")

    def same(*words: str) -> Any:
        """What both show, in tables and documents."""
        assert nats3.ok(*words).out == nats3.ok(*server, *words).out
        here, there = nats3.ok(*words, "-o", "json").json, nats3.ok(*words, *server, "-o", "json").json
        assert here == there
        return here

    made = nats3.ok(*server, *created, "--name", "job-1", "-o", "json").json
    local = nats3.ok(*created, "--name", "two", "-o", "json").json
    assert set(local) == set(made)
    assert (made["archive"], made["name"], made["max_age_s"], made["prefix"]) == ("job_1", "job-1", 5, "team")
    archived(workspace, wire, "EV", bucket, "job_1")
    # What a server says of a source may be a second old.
    assert wait_for(lambda: nats3.ok(*server, "store", "list", "-o", "json").json[0]["lag"] == 0, 10)
    assert same("store", "list")[0]["chunks"] > 0
    assert len(same("chunk", "list", "job_1")) > 0
    for given in ("job_1", "job-1", made["id"]):
        shown = nats3.ok(*server, "store", "get", given, "-o", "json").json
        here = nats3.ok("store", "get", given, "-o", "json").json
        assert shown | {"oldest_uncaptured_s": None} == here | {"oldest_uncaptured_s": None}
    for action, state in (("pause", True), ("resume", False)):
        assert nats3.ok("store", action, "job-1", *server, "-o", "json").json["paused"] is state
        assert same("store", "list")[0]["paused"] is state
    assert nats3.refused("store", "delete", "job-1", *server) == (
        "2 Error: This deletes archive job_1; its objects stay. There is no terminal to confirm this on. Add --yes"
    )
    gone = nats3.ok("store", "delete", "two", "--yes", *server, "-o", "json").json
    two = {"id": local["id"], "name": "two", "archive": "two"}
    assert gone == two | {
        "deleted": True,
        "chunks": 0,
        "objects_deleted": 0,
        "consumer_deleted": None,
        "buffer_deleted": None,
    }
    gone = nats3.ok("store", "delete", "--job-id", made["id"], "--yes", "--purge", *server, "-o", "json").json
    assert gone["objects_deleted"] > 0
    assert same("store", "list") == []


def test_replays_are_shown_as_the_catalog_has_them(
    nats3: Command, url: str, workspace: Workspace, wire: Wire, bucket: str, postgres_url: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(10)])
    archived(workspace, wire, "EV", bucket, "events")
    server = ("--server", url)
    create = (
        "load",
        "create",
        "--bucket",
        bucket,
        "--read-stream",
        "EV",
        "--read-subject",
        "ev.>",
        "--write-subject",
        "back.>",
        "--from-time",
        "-2h",
        "--rate",
        "5",
        "--dry-run",
    )
    here, there = nats3.ok(*create, "-o", "json").json, nats3.ok(*create, *server, "-o", "json").json
    assert here == there
    spec = ReplaySpec("", "back.>", Selection(subjects=("ev.>",)), poll_interval_s=2.5)
    replay, _ = jobs.begin_job(workspace, JobRequest(JobSource("events"), spec, name="load-1"))
    (here,), (there,) = (nats3.ok("load", "list", *words, "-o", "json").json for words in ((), server))
    assert here == there
    assert (here["create_stream"], here["into_own_stream"], here["like_source"]) == (None, False, False)
    # What a replay is asked with is in both documents, whichever field is added to it.
    asked = {field.name.removesuffix("_s") for field in (*fields(ReplaySpec), *fields(Pace))} - {"selection", "pace"}
    assert asked <= set(here)
    with httpx.Client(base_url=url) as client:
        assert client.get("/load/jobs").json() == [here]
    newer = """insert into nats3.replay (id, archive_id, spec, chunks, created_at, job_id)
        select lpad(to_hex(n), 16, '0'), archive_id, spec, chunks, created_at + interval '1 s', gen_random_uuid()
        from nats3.replay, generate_series(1, 1000) n"""
    # More than a list gives.
    with psycopg.connect(postgres_url) as connection:
        connection.execute(newer)
    for given in (replay.id, "load-1", str(replay.job_id)):
        assert nats3.ok(*server, "load", "get", given, "-o", "json").json == there
        assert nats3.ok("load", "get", given, "-o", "json").json == there
    paused = nats3.ok("load", "pause", "load-1", *server, "-o", "json").json
    assert paused["state"] == "paused"
    assert "-" in nats3.ok("load", "get", "load-1", *server).out
    assert nats3.ok("load", "delete", "load-1", "--yes", *server, "-o", "json").json["replay"] == replay.id
    left = nats3.ok("load", "list", "--limit", "2000", "-o", "json").json
    assert len(left) == 1000


def test_errors_are_those_of_the_catalog(
    nats3: Command, url: str, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    create = ("store", "create", "--bucket", bucket, "--name")
    nats3.ok(*create, "ev", "--stream", "EV")
    job = "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"
    monkeypatch.setenv("NATS3_SERVER_URL", url)
    for words, error in (
        (
            (*create, "ev", "--stream", "EV"),
            "1 Error: There is an archive ev already. Choose another name, or see archive ev",
        ),
        ((*create, "two", "--stream", "EVV"), "2 Error: There is no stream EVV at NATS"),
        (("store", "get", "ev2"), "2 Error: There is no archive ev2. Did you mean ev?"),
        (("store", "get", job), f"2 Error: There is no archive {job}. "),
        (("load", "get", "x"), "2 Error: There is no replay x. See the list of replays: nats3 load list"),
        (("store", "run", "ev"), "2 Error: nats3 store run works with NATS, Postgres and the store itself"),
        (("chunk", "verify", "ev"), "2 Error: nats3 chunk verify works with NATS"),
    ):
        assert nats3.refused(*words).startswith(error), (words, nats3.refused(*words))
    assert nats3.ok("stream", "list", "--server", "none", "-o", "json").json[0]["archives"] == ["ev"]
    away = nats3.refused("store", "list", "--server", f"http://127.0.0.1:{free_port()}")
    assert "does not answer as nats3 serve does (ConnectError). Start it there, or correct --server" in away
    assert away.startswith("1 Error: The server http://127.0.0.1:")
