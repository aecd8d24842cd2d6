"""Coming from nats-s3-connector: each row of docs/migrate-from-nats3.md, and its documented lines word for word."""

import hashlib
import io
import json
import re
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import uvicorn
from fastapi.testclient import TestClient

from nats3_dagster.dev.process import HOST, free_port
from nats3_dagster.errors import EngineError
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.acceptance.migrate_case import PAGE, Side, tables
from nats3_dagster_tests.cli_case import Command
from nats3_dagster_tests.http.load_case import MESSAGES, Loads, eventually
from nats3_dagster_tests.replay_case import archived
from nats3_dagster_tests.taking_case import content, covered, left, run
from nats3_dagster_tests.wire import Wire

Checks = dict[str, Callable[[Side], Any]]
# Rows whose options are not there yet.
_AFTER_MERGE = {
    "Commands": {
        "--server URL", "--output table|json", "store create --batch-max-bytes N", "store create --batch-max-count N",
        "store create --codec json|binary", "store create --from-json FILE", "store create -i",
        "store delete --job-id ID", "store delete -i", "store pause --job-id ID", "store resume --job-id ID",
        "load create --name NAME", "load create --prefix PREFIX", "load create --read-consumer NAME",
        "load create --start N", "load create --end N", "load create --from-json FILE", "load create -i",
        "load delete --job-id ID", "load delete -i", "load pause --job-id ID", "load resume --job-id ID",
    },
}  # fmt: skip


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


def one(path: str, job: dict[str, Any]) -> str:
    return f"{path}?job_id={job['id']}"


# HTTP


def _post_store(side: Side) -> None:
    body = {"name": side.name, "stream": "jobs", "subject": "subject.1", "bucket": side.bucket}
    answer = side.client.post("/store/job", json=body)
    assert answer.status_code == 201
    assert side.answer("GET", answer.headers["Location"], 200)["name"] == body["name"]


def _delete_store(side: Side) -> None:
    job = side.store()
    archived(side.workspace, side.wire, "EV", side.bucket, "to_delete")
    (kept,) = [j for j in side.answer("GET", "/store/jobs", 200) if j["name"] == "to_delete"]
    assert side.answer("DELETE", one("/store/job", kept), 200)["objects_deleted"] == 0
    assert side.answer("DELETE", one("/store/job", kept) + "&purge=true", 200)["objects_deleted"] == kept["chunks"] > 0
    side.answer("DELETE", one("/store/job", job), 200)
    side.answer("GET", one("/store/job", job), 404)


def _pause_store(side: Side) -> None:
    assert side.answer("POST", one("/store/job/pause", side.store()), 200)["status"] == "Paused"


def _resume_store(side: Side) -> None:
    job = side.store()
    side.answer("POST", one("/store/job/pause", job), 200)
    assert side.answer("POST", one("/store/job/resume", job), 200)["status"] == "Created"


def _post_load(side: Side) -> None:
    job = side.load(write_subject="back.twice")
    again = side.answer("POST", "/load/job", 409, json=side.loads.body | {"write_subject": "back.twice"})
    assert job["replay"] in again["error"]


def _delete_load(side: Side) -> None:
    side.answer("DELETE", one("/load/job", side.load()), 204)
    running = _running_load(side)
    side.answer("DELETE", one("/load/job", running), 409)
    side.answer("POST", one("/load/job/pause", running), 200)


def _running_load(side: Side) -> dict[str, Any]:
    """One that takes five seconds."""
    job = side.load(rate=2)
    side.loads.gate.set()
    side.loads.until(side.client, job["id"], "Running")
    return job


def _pause_load(side: Side) -> None:
    assert side.answer("POST", one("/load/job/pause", side.load()), 200)["status"] == "Paused"


def _resume_load(side: Side) -> None:
    job = side.load()
    side.answer("POST", one("/load/job/pause", job), 200)
    side.answer("POST", one("/load/job/resume", job), 200)
    side.loads.gate.set()
    assert side.loads.until(side.client, job["id"], "Success")["published"] == MESSAGES


def _error(side: Side) -> None:
    answer = side.answer("POST", "/store/job", 422, json={"name": "a", "stream": "jobs", "bukcet": "b"})
    assert answer["error"]
    assert "bucket" in str(answer["fields"])
    missing = side.answer("GET", f"/load/job?job_id={uuid.uuid4()}", 404)
    assert missing["error"].startswith("There is no load job")
    assert missing["next"]


def _first_routes(side: Side) -> None:
    for path in ("/store", "/load"):
        assert side.client.post(path, json={}).status_code == 404


def _ready(side: Side) -> None:
    assert {"nats", "postgres", "store"} <= set(side.answer("GET", "/ready", 200)["parts"])


def _text(path: str, begin: str) -> Callable[[Side], None]:
    def check(side: Side) -> None:
        answer = side.client.get(path)
        assert answer.status_code == 200
        assert answer.text.startswith(begin)

    return check


def _ids(jobs: list[dict[str, Any]]) -> list[str]:
    return [job["id"] for job in jobs]


def _list_loads(side: Side) -> None:
    older, newer = side.load(), side.load()
    assert _ids(side.answer("GET", "/load/jobs", 200))[:2] == [newer["id"], older["id"]]


def _same_id(path: str, make: str) -> Callable[[Side], None]:
    def check(side: Side) -> None:
        job = getattr(side, make)()
        assert side.answer("GET", one(path, job), 200)["id"] == job["id"]

    return check


def _list_stores(side: Side) -> None:
    job = side.store()
    assert job["id"] in _ids(side.answer("GET", "/store/jobs", 200))
    assert job["id"] in _ids(side.answer("GET", f"/store/jobs?status=Created&stream=jobs&bucket={side.bucket}", 200))
    assert len(side.answer("GET", "/store/jobs?limit=1", 200)) == 1


HTTP: Checks = {
    "GET /ping": _text("/ping", "pong"),
    "GET /ready": _ready,
    "GET /metrics": _text("/metrics", "# HELP nats3_"),
    "POST /store/job": _post_store,
    "GET /store/job?job_id=ID": _same_id("/store/job", "store"),
    "GET /store/jobs": _list_stores,
    "GET /store/jobs?job_id=ID": _same_id("/store/jobs", "store"),
    "DELETE /store/job?job_id=ID": _delete_store,
    "POST /store/job/pause?job_id=ID": _pause_store,
    "POST /store/job/resume?job_id=ID": _resume_store,
    "POST /load/job": _post_load,
    "GET /load/job?job_id=ID": _same_id("/load/job", "load"),
    "GET /load/jobs": _list_loads,
    "DELETE /load/job?job_id=ID": _delete_load,
    "POST /load/job/pause?job_id=ID": _pause_load,
    "POST /load/job/resume?job_id=ID": _resume_load,
    '{"error": "..."}': _error,
    "POST /store, POST /load": _first_routes,
}


# Fields


def _has(make: str, wanted: dict[str, Any], **given: Any) -> Callable[[Side], None]:
    """A job of that kind, made with `given`, that answers with `wanted`."""

    def check(side: Side) -> None:
        job = getattr(side, make)(**given)
        assert job.items() >= wanted.items(), job

    return check


def _uuid(make: str) -> Callable[[Side], object]:
    return lambda side: uuid.UUID(getattr(side, make)()["id"])


def _times(make: str) -> Callable[[Side], None]:
    def check(side: Side) -> None:
        job = getattr(side, make)()
        for field in ("created", "updated"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", job[field]), job[field]

    return check


def _name(side: Side) -> None:
    job = side.store(name="its-name.1")
    assert (job["name"], job["archive"]) == ("its-name.1", "its_name_1")


def _consumer(side: Side) -> None:
    _durable(side.wire, "jobs", "theirs", "subject.1")
    job = side.store(consumer="theirs", batch={"max_count": 1000})
    assert (job["consumer"], job["mode"]) == ("theirs", "consumer")


def _durable(wire: Wire, stream: str, name: str, subject: str) -> None:
    """As nats-s3-connector makes it: its batch is all that may be outstanding."""
    config = {
        "durable_name": name, "ack_policy": "explicit", "filter_subject": subject, "max_ack_pending": 1000,
        "deliver_policy": "all", "replay_policy": "instant",
    }  # fmt: skip
    wire.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", stream_name=stream, config=config)


def _bucket(side: Side) -> None:
    body = {"name": side.name, "stream": "jobs", "bucket": f"none-{side.bucket}"}
    assert "does not exist" in side.refused("/store/job", "bucket", **body)
    assert side.answer("POST", "/store/job", 201, json=body | {"create_bucket": True})["bucket"] == body["bucket"]


def _codecs(side: Side) -> None:
    for codec in ("json", "binary", "Binary", "bin", "Json", "JSON"):
        assert side.store(encoding={"codec": codec})["encoding"] == {"codec": "binary"}


def _subject(side: Side) -> None:
    assert side.store()["subject"] == "subject.1"
    assert side.store(subject=None)["subject"] == ">"
    assert side.store(subject=None, subjects=["subject.1", "subject.2"])["subjects"] == ["subject.1", "subject.2"]


STORE_FIELDS: Checks = {
    "id": _uuid("store"),
    "name": _name,
    "status": _has("store", {"status": "Created"}),
    "stream": _has("store", {"stream": "jobs"}),
    "consumer": _consumer,
    "subject": _subject,
    "bucket": _bucket,
    "prefix": _has("store", {"prefix": "team/a"}, prefix="team/a"),
    "batch.max_bytes": _has("store", {"batch": {"max_bytes": 5, "max_count": 7}, "max_bytes": 5},
                            batch={"max_bytes": 5, "max_count": 7}),
    "batch.max_count": _has("store", {"batch": {"max_bytes": 5, "max_count": 7}, "max_messages": 7},
                            batch={"max_bytes": 5, "max_count": 7}),
    "encoding.codec": _codecs,
    "created, updated": _times("store"),
}  # fmt: skip


def _key(side: Side) -> None:
    key = str(uuid.uuid4())
    body = side.loads.body | {"write_subject": "back.key"}
    for status in (201, 200):
        assert side.answer("POST", "/load/job", status, json=body, headers={"Idempotency-Key": key})["id"] == key


def _chosen(field: str, value: str, **spec: Any) -> Callable[[Side], None]:
    """The field chooses between two archives of one stream in one bucket; the second is deleted in the end."""

    def check(side: Side) -> None:
        made = side.store(stream="EV", subject=None, **spec)
        try:
            assert "2 archives" in side.answer("POST", "/load/job", 422, json=side.loads.body)["error"]
            # It is the one without a message.
            empty = side.answer("POST", "/load/job", 422, json=side.loads.body | {field: value})
            assert empty["error"].startswith(f"Archive {made['archive']} holds nothing")
        finally:
            side.answer("DELETE", one("/store/job", made), 200)

    return check


def _prefix(side: Side) -> None:
    _chosen("prefix", "other", prefix="other")(side)


def _read_consumer(side: Side) -> None:
    _durable(side.wire, "EV", "theirs", "ev.a")
    _chosen("read_consumer", "theirs", consumer="theirs", batch={"max_count": 1000})(side)


def _read_subject(side: Side) -> None:
    """It selects messages; and of two archives the one of this subject, which has no message yet."""
    body = {"read_subject": "ev.a", "write_subject": "back.a"}
    assert side.plan(**body)["messages"] == MESSAGES
    made = side.store(stream="EV", subject="ev.a")
    empty = side.answer("POST", "/load/job", 422, json=side.loads.body | body)
    assert empty["error"].startswith(f"Archive {made['archive']} holds nothing")
    side.answer("DELETE", one("/store/job", made), 200)


def _write_stream(side: Side) -> None:
    assert side.plan(write_stream="BACK")["targets"] == ["BACK"]
    answer = side.answer("POST", "/load/job", 422, json=side.loads.body | {"write_stream": "jobs", "dry_run": True})
    assert "BACK" in answer["error"]


def _selects(messages: int, **given: Any) -> Callable[[Side], None]:
    return lambda side: _equal(side.plan(**given)["messages"], messages)


def _equal(got: Any, wanted: Any) -> None:
    assert got == wanted, got


def _stored(side: Side, seq: int) -> str:
    """The store time of a message of EV."""
    return next(m.time for m in side.wire.messages("EV") if m.seq == seq)


def _loads(messages: int, field: str) -> Callable[[Side], None]:
    """A load job with the store time of the fourth message in this field publishes so many."""

    def check(side: Side) -> None:
        job = side.load(**{field: _stored(side, 4)})
        assert job[field] == _stored(side, 4)
        side.loads.gate.set()
        assert side.loads.until(side.client, job["id"], "Success")["published"] == messages

    return check


def _start(side: Side) -> None:
    assert side.plan(start=4)["messages"] == MESSAGES - 3
    # The peer's Unix seconds select nothing, and that is refused.
    answer = side.answer("POST", "/load/job", 422, json=side.loads.body | {"start": int(time.time()) - 3600})
    assert answer["error"]


def _delete_chunks(side: Side) -> None:
    assert side.plan(delete_chunks=True)["deletes_chunks"] == side.plan()["chunks"] > 0
    assert side.plan()["deletes_chunks"] == 0
    assert side.load(delete_chunks=True)["delete_chunks"] is True


LOAD_FIELDS: Checks = {
    "id": lambda side: (_uuid("load")(side), _key(side)),
    "name": _has("load", {"name": "its-name"}, name="its-name"),
    "status": _has("load", {"status": "Created"}),
    "bucket": lambda side: _equal(side.load()["bucket"], side.bucket),
    "prefix": _prefix,
    "read_stream": _has("load", {"read_stream": "EV"}),
    "read_consumer": _read_consumer,
    "read_subject": _read_subject,
    "write_subject": _has("load", {"write_subject": "back.x.>"}, write_subject="back.x.>"),
    "write_stream": _write_stream,
    "poll_interval": _has("load", {"poll_interval": {"secs": 5, "nanos": 0}}, poll_interval={"secs": 5, "nanos": 0}),
    "delete_chunks": _delete_chunks,
    "from_time": _loads(7, "from_time"),
    "to_time": _loads(3, "to_time"),
    "start": _start,
    "end": _selects(4, end=4),
    "created, updated": _times("load"),
}


# Status


def _created(side: Side) -> None:
    assert side.store()["status"] == side.load()["status"] == "Created"


def _running(side: Side) -> None:
    (events,) = [job for job in side.answer("GET", "/store/jobs", 200) if job["archive"] == "events"]
    assert events["status"] == "Running"
    side.answer("POST", one("/load/job/pause", _running_load(side)), 200)


def _success(side: Side) -> None:
    job = side.load()
    side.loads.gate.set()
    assert side.loads.until(side.client, job["id"], "Success")["published"] == MESSAGES
    assert side.answer("GET", "/store/jobs?status=Success", 200) == []


def _failure(side: Side) -> None:
    side.wire.create_stream("GONE", "gone.>")
    store = side.store(stream="GONE", subject="gone.>")
    load = side.load(write_subject="gone.>")
    side.wire.api("STREAM.DELETE.GONE")
    failed = side.answer("GET", one("/store/job", store), 200)
    assert (failed["status"], bool(failed["error"])) == ("Failure", True)
    side.loads.gate.set()
    assert side.loads.until(side.client, load["id"], "Failure")["error"]


STATUS: Checks = {
    "Created": _created,
    "Running": _running,
    "Paused": lambda side: (_pause_store(side), _pause_load(side)),
    "Success": _success,
    "Failure": _failure,
}


# Commands


def _server(side: Side) -> None:
    job = side.store()
    with listening(side.loads, free_port()) as url:
        for words in (("--server", url, "store", "list"), ("store", "list", "--server", url)):
            listed = side.nats3.ok(*words, "-o", "json").json
            assert job["archive"] in json.dumps(listed)


def _output(side: Side) -> None:
    assert isinstance(side.nats3.ok("--output", "json", "store", "list").json, list)
    assert isinstance(side.nats3.ok("store", "list", "--output", "json").json, list)
    assert "events" in side.nats3.ok("--output", "table", "store", "list").out


def _gets(field: str, wanted: Any, *words: str) -> Callable[[Side], None]:
    """`store create` with these words makes an archive with this value."""
    return lambda side: _equal(side.created(*words)[field], wanted)


def _create_consumer(side: Side) -> None:
    _durable(side.wire, "jobs", "theirs", "subject.1")
    assert side.created("--consumer", "theirs", "--max-messages", "1000")["durable"] == "theirs"


def _store_json(side: Side) -> None:
    path = side.folder / "job.json"
    path.write_text(json.dumps({
        "name": "from-json", "stream": "jobs", "subject": "subject.1", "bucket": side.bucket, "prefix": "p",
        "batch": {"max_bytes": 5, "max_count": 7}, "encoding": {"codec": "json"},
    }))  # fmt: skip
    side.nats3.ok("store", "create", "--from-json", str(path))
    made = side.nats3.ok("store", "get", "from-json", "-o", "json").json
    assert (made["prefix"], made["max_bytes"], made["max_messages"]) == ("p", 5, 7)


def _load_json(side: Side) -> None:
    path = side.folder / "load.json"
    path.write_text(json.dumps(side.loads.body))
    assert side.nats3.ok("load", "create", "--from-json", str(path), "--dry-run", "-o", "json").json["messages"] == 10


def _by_id(*words: str) -> Callable[[Side], None]:
    """The command does it to the job of this id."""

    def check(side: Side) -> None:
        kind, verb = words[:2]
        job = side.store() if kind == "store" else side.load()
        if verb == "resume" and kind == "store":
            side.nats3.ok("store", "pause", "--job-id", job["id"])
        side.nats3.ok(kind, verb, "--job-id", job["id"], *words[2:])
        status = side.client.get(one(f"/{kind}/job", job))
        if verb == "delete":
            assert status.status_code == 404
        else:
            assert status.json()["status"] == ("Paused" if verb == "pause" else "Created"), status.text

    return check


def _load_resume(side: Side) -> None:
    """It would run it: one that has ended says so."""
    job = side.load()
    side.loads.gate.set()
    side.loads.until(side.client, job["id"], "Success")
    assert "has succeeded" in side.nats3.refused("load", "resume", "--job-id", job["id"])


def _load_list(side: Side) -> None:
    job = side.load()
    assert job["replay"] in _ids(side.nats3.ok("load", "list", "-o", "json").json)


def _plans(field: str, wanted: Any, *words: str) -> Callable[[Side], None]:
    """`load create --dry-run` with these words plans this."""
    return lambda side: _equal(side.planned(*words)[field], wanted)


def _cli_chosen(option: str, value: str, **spec: Any) -> Callable[[Side], None]:
    def check(side: Side) -> None:
        if "consumer" in spec:
            _durable(side.wire, "EV", "theirs", "ev.a")
        made = side.store(stream="EV", subject=None, **spec)
        try:
            words = ("--bucket", side.bucket, "--read-stream", "EV", "--write-subject", "back.>", option, value)
            assert f"Archive {made['archive']} holds nothing" in side.nats3.refused("load", "create", *words)
        finally:
            side.answer("DELETE", one("/store/job", made), 200)

    return check


def _cli_time(option: str, within: int, none: int) -> Callable[[Side], None]:
    """The store time of one message selects some of the archive, that of another one none of it."""

    def check(side: Side) -> None:
        side.wire.publish([("ev.a", b"", b"10")])
        assert side.planned(option, _stored(side, within))["messages"]
        words = ("--archive", "events", "--write-subject", "back.>", option, _stored(side, none))
        assert "holds nothing of this selection" in side.nats3.refused("load", "create", *words)

    return check


def _poll(side: Side) -> None:
    for text in ("5sec", "1min", "1m", "1h30m"):
        side.planned("--poll-interval", text)
    assert "is not a duration" in side.nats3.refused("load", "create", "--write-subject", "b.>", "--poll-interval", "x")


def _cli_delete_chunks(side: Side) -> None:
    assert side.planned("--delete-chunks")["deletes_chunks"] > 0
    words = ("--archive", "events", "--write-subject", "back.>", "--read-subject", "ev.>", "--delete-chunks")
    assert "--yes" in side.nats3.refused("load", "create", *words)


def _set(key: str, value: str) -> Callable[[Side], None]:
    """`config set` writes it, and `config get` reads it."""

    def check(side: Side) -> None:
        try:
            side.nats3.ok("config", "set", key, value)
            assert side.nats3.ok("config", "get", key, "-o", "table").out == f"{value}\n"
        finally:
            side.nats3.ok("config", "set", key, "--unset")

    return check


def _config_show(side: Side) -> None:
    shown = {item["key"]: item for item in side.nats3.ok("config", "show", "-o", "json").json}
    assert {"server_url", "output_format"} <= set(shown)
    assert all(item["source"] for item in shown.values())


COMMANDS: Checks = {
    "--server URL": _server,
    "--output table|json": _output,
    "store list": lambda side: _equal(side.nats3.ok("store", "list", "-o", "json").json[0]["name"], "events"),
    "store create --name NAME": _gets("name", "its_own", "--name", "its-own"),
    "store create --stream STREAM": lambda side: _equal(
        side.created("--stream", "BACK", "--subject", "back.>")["stream"], "BACK"
    ),
    "store create --subject SUBJECT": _gets(
        "subjects", ["subject.2", "subject.3"], "--subject", "subject.2", "--subject", "subject.3"
    ),
    "store create --bucket BUCKET": lambda side: _equal(
        side.created("--bucket", f"cli-{side.bucket}", "--create-bucket")["bucket"], f"cli-{side.bucket}"
    ),
    "store create --prefix PREFIX": _gets("prefix", "team/a", "--prefix", "team/a"),
    "store create --consumer NAME": _create_consumer,
    "store create --batch-max-bytes N": _gets("max_bytes", 5000, "--batch-max-bytes", "5000"),
    "store create --batch-max-count N": _gets("max_messages", 500, "--batch-max-count", "500"),
    "store create --codec json|binary": lambda side: [side.created("--codec", codec) for codec in ("json", "binary")],
    "store create --from-json FILE": _store_json,
    "store create -i": lambda side: (side.asks("store", "create", "-i"), side.asks("store", "create", "--interactive")),
    "store delete --job-id ID": _by_id("store", "delete", "--yes"),
    "store delete -i": lambda side: side.asks("store", "delete", "-i"),
    "store pause --job-id ID": _by_id("store", "pause"),
    "store resume --job-id ID": _by_id("store", "resume"),
    "load list": _load_list,
    "load create --name NAME": lambda side: side.planned("--name", "its-name"),
    "load create --bucket BUCKET": lambda side: _equal(side.planned("--bucket", side.bucket)["archive"], "events"),
    "load create --prefix PREFIX": _cli_chosen("--prefix", "other", prefix="other"),
    "load create --read-stream STREAM": _plans("archive", "events", "--read-stream", "EV"),
    "load create --read-consumer NAME": _cli_chosen(
        "--read-consumer", "theirs", consumer="theirs", batch={"max_count": 1000}
    ),
    "load create --read-subject SUBJECT": _plans("messages", MESSAGES, "--read-subject", "ev.>"),
    "load create --write-subject SUBJECT": _plans("targets", ["BACK"], "--write-subject", "back.one"),
    "load create --poll-interval 5sec": _poll,
    "load create --delete-chunks": _cli_delete_chunks,
    "load create --from-time TIME": _cli_time("--from-time", 4, 11),
    "load create --to-time TIME": _cli_time("--to-time", 4, 1),
    "load create --start N": _plans("messages", 7, "--start", "4"),
    "load create --end N": _plans("messages", 4, "--end", "4"),
    "load create --from-json FILE": _load_json,
    "load create -i": lambda side: (side.asks("load", "create", "-i"), side.asks("load", "create", "--interactive")),
    "load delete --job-id ID": _by_id("load", "delete", "--yes"),
    "load delete -i": lambda side: side.asks("load", "delete", "-i"),
    "load pause --job-id ID": _by_id("load", "pause"),
    "load resume --job-id ID": _load_resume,
    "config show": _config_show,
    "config set server-url URL": _set("server-url", "http://127.0.0.1:8080"),
    "config set output-format json": _set("output-format", "json"),
    "config get server-url": _set("server-url", "https://nats3.example.com"),
    "config get output-format": _set("output-format", "table"),
}


# Configuration

CLI_FILE: Checks = {
    "server_url": lambda side: side.setting("server_url", "http://localhost:8080"),
    "output_format": lambda side: [side.setting("output_format", value) for value in ("table", "json", "yaml")],
}


def _config_file(side: Side) -> None:
    """The file with settings that the variable names, and none other."""
    (side.folder / "else.toml").write_text('server_url = "http://else:1"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NATS3_CONFIG", str(side.folder / "else.toml"))
        assert side.nats3.ok("config", "get", "server-url").out == "http://else:1\n"


def _in_file(field: str, wanted: Any, **job: Any) -> Callable[[Side], None]:
    """A store job of a configuration file is an archive with this value."""
    return lambda side: _equal(side.applied(**job)[field], wanted)


def _file_consumer(side: Side) -> None:
    _durable(side.wire, "jobs", "theirs", "subject.1")
    assert side.applied(consumer="theirs", **{"batch.max_count": 1000})["durable"] == "theirs"


def _file_subject(side: Side) -> None:
    assert side.applied(subject="subject.1")["subjects"] == ["subject.1"]
    path = side.folder / "number.yaml"
    path.write_text(f"store:\n- {{name: a, stream: jobs, bucket: {side.bucket}, subject: 1}}\n")
    assert "subject is 1, and must be text" in side.nats3.refused("store", "apply", "-f", str(path))


def _file_bucket(side: Side) -> None:
    assert side.applied()["bucket"] == side.bucket
    path = side.folder / "bucket.yaml"
    path.write_text(f"store:\n- {{name: a, stream: jobs, bucket: none-{side.bucket}, subject: subject.1}}\n")
    ran = side.nats3("store", "apply", "-f", str(path), "--yes")
    assert (ran.status, "does not exist" in ran.err) == (2, True)


def _file_codec(side: Side) -> None:
    notes = side.applied(**{"encoding.codec": "json"})["notes"]
    assert "left out encoding: every archive is of Parquet objects" in notes


def _environment(variable: str, key: str, value: str) -> Callable[[Side], None]:
    return lambda side: side.setting(key, value, variable=variable)


POSTGRES = "postgresql://u:secret@h/d"
SERVER: Checks = {
    "--config FILE": _config_file,
    "log": lambda side: [side.setting("log_level", level) for level in ("debug", "info", "warning", "error")],
    "server.addr": lambda side: side.setting("api_listen", "0.0.0.0:8080"),
    "nats.url": lambda side: side.setting("nats_url", "localhost:4222"),
    "s3.region": lambda side: side.setting("s3_region", "eu-west-1"),
    "s3.endpoint": lambda side: side.setting("s3_endpoint", "http://localhost:9000"),
    "s3.access": lambda side: side.setting("s3_access_key_id", "test-user"),
    "s3.secret": lambda side: side.setting("s3_secret_access_key", "test-password"),
    "postgres.url": lambda side: side.setting("postgres_url", POSTGRES),
    "postgres.migrate": lambda side: side.nats3.ok("migrate"),
    "store.name": lambda side: _equal(side.applied(name="their-name")["name"], "their_name"),
    "store.stream": _in_file("stream", "jobs", stream="jobs"),
    "store.subject": _file_subject,
    "store.consumer": _file_consumer,
    "store.bucket": _file_bucket,
    "store.prefix": _in_file("prefix", "foo", prefix="foo"),
    "store.batch.max_count": _in_file("max_messages", 500, **{"batch.max_count": 500}),
    "store.batch.max_bytes": _in_file("max_bytes", 5000, **{"batch.max_bytes": 5000}),
    "store.encoding.codec": _file_codec,
    "NATS3_LOG": lambda side: side.renamed("NATS3_LOG", "NATS3_LOG_LEVEL"),
    "NATS3_SERVER_ADDR": lambda side: side.renamed("NATS3_SERVER_ADDR", "NATS3_API_LISTEN"),
    "NATS3_NATS_URL": _environment("NATS3_NATS_URL", "nats_url", "localhost:4222"),
    "NATS3_S3_REGION": _environment("NATS3_S3_REGION", "s3_region", "eu-west-1"),
    "NATS3_S3_ENDPOINT": _environment("NATS3_S3_ENDPOINT", "s3_endpoint", "http://localhost:9000"),
    "NATS3_S3_ACCESS": lambda side: side.renamed("NATS3_S3_ACCESS", "NATS3_S3_ACCESS_KEY_ID"),
    "NATS3_S3_SECRET": lambda side: side.renamed("NATS3_S3_SECRET", "NATS3_S3_SECRET_ACCESS_KEY"),
    "NATS3_POSTGRES_URL": _environment("NATS3_POSTGRES_URL", "postgres_url", POSTGRES),
    "NATS3_POSTGRES_MIGRATE": lambda side: side.renamed("NATS3_POSTGRES_MIGRATE", None),
    "RUST_LOG": _environment("NATS3_LOG_LEVEL", "log_level", "debug"),
}


# Metrics, objects, defaults


def _series(name: str, *labels: dict[str, str]) -> Callable[[Side], None]:
    """The metric has exactly these series, and no other label."""

    def check(side: Side) -> None:
        seen = [dict(pairs) for metric, pairs in side.scraped.samples if metric == name]
        assert sorted(map(str, seen)) == sorted(map(str, labels)), seen

    return check


def _instead(name: str, *ours: str) -> Callable[[Side], None]:
    """A metric of the first releases is not there, and these are."""

    def check(side: Side) -> None:
        names = {metric for metric, _ in side.scraped.samples}
        assert not [metric for metric in names if metric.startswith(name)]
        assert set(ours) <= names

    return check


BOTH = ({"direction": "in"}, {"direction": "out"})
JOBS = ({"job_type": "store"}, {"job_type": "load"})
METRICS: Checks = {
    "nats3_jobs_total{job_type,status}": _series(
        "nats3_jobs_total", *(job | {"status": status} for job in JOBS for status in ("completed", "failed"))
    ),
    "nats3_jobs_current{job_type}": _series("nats3_jobs_current", *JOBS),
    "nats3_nats_messages_total{direction}": _series("nats3_nats_messages_total", *BOTH),
    "nats3_nats_bytes_total{direction}": _series("nats3_nats_bytes_total", *BOTH),
    "nats3_s3_objects_total{direction}": _series("nats3_s3_objects_total", *BOTH),
    "nats3_s3_bytes_total{direction}": _series("nats3_s3_bytes_total", *BOTH),
    "nats3_store_messages, nats3_store_bytes": _instead(
        "nats3_store_", "nats3_archive_captured_messages_total", "nats3_nats_bytes_total"
    ),
    "nats3_load_messages, nats3_load_bytes": _instead(
        "nats3_load_", "nats3_replay_published_messages_total", "nats3_nats_bytes_total"
    ),
    "nats3_store_jobs, nats3_load_jobs": _instead("nats3_store_jobs", "nats3_jobs_current"),
}


def _chunk(side: Side) -> tuple[dict[str, Any], bytes]:
    """A chunk of EV, and its object."""
    chunk = side.nats3.ok("chunk", "list", "events", "-o", "json").json[0]
    path = side.folder / f"{side.name}.parquet"
    side.nats3.ok("chunk", "fetch", "events", str(chunk["id"]), "--to", str(path))
    return chunk, path.read_bytes()


def _table(side: Side) -> Any:
    return pq.read_table(io.BytesIO(_chunk(side)[1])).to_pydict()


def _object_key(side: Side) -> None:
    key = _chunk(side)[0]["key"]
    assert re.fullmatch(
        r"archive=events/date=[\d-]{10}/hour=\d\d/\d{8}T\d{15}Z-\d{20}-\d{20}-[0-9a-f]{12}\.parquet", key
    ), key


def _zstd(side: Side) -> None:
    group = pq.ParquetFile(io.BytesIO(_chunk(side)[1])).metadata.row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {"ZSTD"}


def _sequences(side: Side) -> None:
    table, stored = _table(side), list(side.wire.messages("EV"))
    assert table["seq"] == [m.seq for m in stored]
    assert [f"{t.isoformat()[:26]}" for t in table["time"]] == [m.time[:26] for m in stored]


def _headers(side: Side) -> None:
    block = b"NATS/1.0\r\nA: 1\r\nA:  two\r\n\r\n"
    side.wire.create_stream("HEADERS", "headers")
    side.wire.publish([("headers", block, b"x")])
    archived(side.workspace, side.wire, "HEADERS", side.bucket, "headers")
    (message,) = side.workspace.catalog.chunks.select(side.workspace.catalog.archives.get("headers"))
    path = side.folder / "headers.parquet"
    side.nats3.ok("chunk", "fetch", "headers", str(message.id), "--to", str(path))
    assert pq.read_table(path).to_pydict()["headers"] == [block]


def _hash(side: Side) -> None:
    chunk, body = _chunk(side)
    assert chunk["sha256"] == hashlib.sha256(body).hexdigest()
    assert b"nats3.digest" in pq.ParquetFile(io.BytesIO(body)).metadata.metadata


OBJECTS: Checks = {
    "PREFIX/STREAM/SUBJECT/SECONDS-COUNT.bin, .json": _object_key,
    "bincode or JSON of a block of messages": _zstd,
    "sequence, timestamp of a message": _sequences,
    "headers of a message": _headers,
    "hash of a block": _hash,
}


def _no_durable(side: Side) -> None:
    side.wire.create_stream("AB", "a.b", "a_b")
    for subject in ("a.b", "a_b"):
        side.store(stream="AB", subject=subject)
    assert side.wire.state("AB")["consumer_count"] == 0


DEFAULTS: Checks = {
    "listens on 0.0.0.0:8080": lambda side: _equal(
        side.nats3.ok("config", "get", "api-listen").out, "127.0.0.1:8080\n"
    ),
    "batch.max_count 1,000": lambda side: _equal(
        (side.store()["max_messages"], side.store(batch={"max_bytes": 5})["max_messages"]), (1_000_000, 1000)
    ),
    "batch.max_bytes 1,000,000": lambda side: _equal(
        (side.store()["max_bytes"], side.store(batch={"max_count": 5})["max_bytes"]), (64 << 20, 1_000_000)
    ),
    "a batch waits 10 s at most": _has("store", {"max_age_s": 60}),
    "a missing bucket is created": _bucket,
    "a durable named by the subject: orders.> is orders__": _no_durable,
}

CHECKS: dict[str, Checks] = {
    "HTTP": HTTP, "Fields of a store job": STORE_FIELDS, "Fields of a load job": LOAD_FIELDS, "Status": STATUS,
    "Commands": COMMANDS, "The command line's configuration": CLI_FILE, "The server's configuration": SERVER,
    "Metrics": METRICS, "Objects": OBJECTS, "Defaults": DEFAULTS,
}  # fmt: skip


def test_each_row_has_a_check_and_each_check_a_row() -> None:
    assert {table: list(checks) for table, checks in CHECKS.items()} == tables()
    for table, rows in _AFTER_MERGE.items():
        assert rows <= set(CHECKS[table])


@pytest.mark.parametrize("table", CHECKS)
def test_every_row_is_true(table: str, side: Side) -> None:
    wrong: dict[str, str] = {}
    for row, check in CHECKS[table].items():
        if row in _AFTER_MERGE.get(table, ()):
            continue
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


@contextmanager
def listening(loads: Loads, port: int) -> Iterator[str]:
    """A server behind a socket; its URL."""
    server = uvicorn.Server(uvicorn.Config(loads.app(), host=HOST, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive(), "the server")
        assert server.started, f"port {port} is in use"
        yield f"http://{HOST}:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


def bash(command: str, port: int) -> Any:
    """What a curl line prints. Only the port is another one, where something else has 8080."""
    command = command.replace("http://localhost:8080/", f"http://localhost:{port}/")
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ran.stdout)


def test_the_documented_configuration_and_curl_lines_word_for_word(
    settings: Settings, workspace: Workspace, wire: Wire, s3_client: Any, nats3: Command, tmp_path: Path
) -> None:
    for bucket in ("bucket-1", "bucket-2"):
        s3_client.create_bucket(Bucket=bucket)
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
                "[[store]]\n" + "".join(f'{k} = "{v}"\n' for k, v in (job | {"name": name}).items())
                + 'batch.max_count = 500\nbatch.max_bytes = 1000\nencoding.codec = "json"\n' for name in ("a-b", "a_b")
            )
        )  # fmt: skip
    else:
        path = side.folder / "config.yaml"
        jobs = [{**job, "name": name, "batch": batch, "encoding": codec} for name in ("a-b", "a_b")]
        text = {
            "log": "debug", "server": {"addr": "0.0.0.0:8080"}, "nats": {"url": "localhost:4222"},
            "s3": {"region": "r", "endpoint": "http://localhost:9000", "access": "a", "secret": "s"},
            "postgres": {"url": "u", "migrate": True}, "store": jobs,
        }  # fmt: skip
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
    _durable(wire, "jobs", "orders__", "orders.>")
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
