"""Rows of HTTP routes."""

import uuid
from collections.abc import Callable

from nats3_dagster_tests.acceptance.migrating.shared import Checks, ids, one, pause_load, pause_store, slow_load
from nats3_dagster_tests.acceptance.migrating.side import Side
from nats3_dagster_tests.support.load_jobs import MESSAGES
from nats3_dagster_tests.support.replays import archived


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
    running = slow_load(side)
    side.answer("DELETE", one("/load/job", running), 409)
    side.answer("POST", one("/load/job/pause", running), 200)


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


def _list_loads(side: Side) -> None:
    older, newer = side.load(), side.load()
    assert ids(side.answer("GET", "/load/jobs", 200))[:2] == [newer["id"], older["id"]]


def _same_id(path: str, make: str) -> Callable[[Side], None]:
    def check(side: Side) -> None:
        job = getattr(side, make)()
        assert side.answer("GET", one(path, job), 200)["id"] == job["id"]

    return check


def _list_stores(side: Side) -> None:
    job = side.store()
    assert job["id"] in ids(side.answer("GET", "/store/jobs", 200))
    assert job["id"] in ids(side.answer("GET", f"/store/jobs?status=Created&stream=jobs&bucket={side.bucket}", 200))
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
    "POST /store/job/pause?job_id=ID": pause_store,
    "POST /store/job/resume?job_id=ID": _resume_store,
    "POST /load/job": _post_load,
    "GET /load/job?job_id=ID": _same_id("/load/job", "load"),
    "GET /load/jobs": _list_loads,
    "DELETE /load/job?job_id=ID": _delete_load,
    "POST /load/job/pause?job_id=ID": pause_load,
    "POST /load/job/resume?job_id=ID": _resume_load,
    '{"error": "..."}': _error,
    "POST /store, POST /load": _first_routes,
}
