"""Requests that no schema generates: bytes that are no text, numbers that fit nowhere, methods and types that nobody
documents."""

import itertools
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster_tests.wire import Wire

ID = "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"
JSON = {"Content-Type": "application/json"}
LOAD = {"bucket": "b-1", "read_stream": "jobs", "read_subject": "a", "write_subject": "b"}
STORE = {"name": "job-1", "stream": "jobs", "subject": "subjects.1"}


def body(**values: Any) -> bytes:
    """With what no string of Python has in UTF-8: written as JSON's own escapes."""
    return json.dumps(values).encode()


BODIES = [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'"\xff"', b"[" * 100_000, b'{"name":' * 50_000, b"1" * 100_000,
    b'{"name": "\xed\xa0\x80"}', b'{"name": 1, "name": 2}', "\ufeff{}".encode(), "{}".encode("utf-16"), b"NaN",
    b'{"a": ' + b"9" * 5000 + b"}", b"--x\r\n\r\n", b"\0",
]  # fmt: skip
TYPES: list[dict[str, Any]] = [JSON, {"Content-Type": "text/plain"}, {"Content-Type": b"\xff"}, {}]


@pytest.mark.parametrize("path", ["/store/job", "/load/job"])
def test_a_body_that_is_none(client: TestClient, path: str) -> None:
    for content, headers in itertools.product(BODIES, TYPES):
        answer = client.post(path, content=content, headers=headers)
        assert answer.status_code in (400, 415, 422), (content[:50], headers, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error"]


STRANGE: list[Any] = [
    "\0", "a\0b", "\ud800", "\U0001f600" * 300, "a\r\nb", "x" * 1025, " ", "\u202e", "../..", "a/b", "$JS.>", "a..b",
    ">.a", -1, 0, 2**63, 2**64, 10**400, 1e400, float("nan"), True, [], {}, [[]], [None],
]  # fmt: skip


def test_a_value_that_fits_nowhere_in_a_store_job(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    whole = STORE | {"bucket": bucket}
    names = (*whole, "subjects", "consumer", "prefix", "batch", "encoding", "mode", "max_bytes", "zstd_level")
    for name, strange in itertools.product(names, STRANGE):
        answer = client.post("/store/job", content=body(**whole | {name: strange}), headers=JSON)
        assert answer.status_code in (201, 404, 409, 422), (name, ascii(strange), answer.text)
        if answer.status_code == 201:
            job_id = answer.json()["id"]
            assert client.get("/store/jobs").json()[0]["id"] == job_id
            assert client.delete("/store/job", params={"job_id": job_id}).status_code == 200


def test_a_value_that_fits_nowhere_in_a_load_job(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    assert client.post("/store/job", json=STORE | {"bucket": bucket}).status_code == 201
    whole = LOAD | {"bucket": bucket, "dry_run": True}
    names = (
        *whole, "name", "archive", "prefix", "read_consumer", "write_stream", "poll_interval", "from_time", "start",
        "end", "sequences", "hours", "rate", "create_stream", "delete_chunks",
    )  # fmt: skip
    for name, strange in itertools.product(names, STRANGE):
        answer = client.post("/load/job", content=body(**whole | {name: strange}), headers=JSON)
        assert answer.status_code in (200, 404, 409, 422), (name, ascii(strange), answer.text)


VALUES = ("%00", "%ff", "%ed%a0%80", "9" * 5000, "-1", "", "a" * 5000, "%0d%0a", "1e3", "٣")
QUERIES = {
    "/store/job": ["job_id"], "/store/jobs": ["stream", "bucket", "status", "limit"], "/store/job/lag": ["job_id"],
    "/load/jobs": ["archive", "bucket", "replay", "limit", "status"], "/load/job/progress": ["job_id"],
    "/chunks": ["archive", "hour", "from_time", "subject", "limit", "cursor"],
}  # fmt: skip


def test_a_query_that_is_none(client: TestClient, jobs_stream: Wire) -> None:
    for value in VALUES:
        for path, name in ((path, name) for path, names in QUERIES.items() for name in names):
            answer = client.get(f"{path}?{name}={value}")
            lists = path.endswith("jobs") and name in ("stream", "bucket")  # a list of none
            assert answer.status_code in ((200, 404, 422) if lists else (404, 422)), (path, name, value, answer.text)
        assert client.get(f"/chunks/{value}x").status_code == 422
    assert client.get("/chunks/9223372036854775808").status_code == 422


def test_a_parameter_given_twice(client: TestClient) -> None:
    """Which of the two was meant is not known."""
    for path in ("/store/job", "/load/job", "/store/jobs", "/chunks"):
        answer = client.get(f"{path}?job_id={ID}&job_id={ID.replace('7', '8')}")
        assert (answer.status_code, [one["field"] for one in answer.json()["fields"]][:1]) == (422, ["job_id"]), path
    assert client.delete(f"/store/job?job_id={ID}&purge=true&purge=false").status_code == 422


def test_a_method_that_is_none(client: TestClient) -> None:
    for path in ("/store/job", "/load/job", "/store/jobs", "/chunks", "/ping", "/metrics"):
        for method in ("HEAD", "OPTIONS", "TRACE", "PATCH", "PUT", "BREW"):
            answer = client.request(method, path)
            assert answer.status_code == 405, (method, path)
            assert answer.headers["allow"] == ("DELETE, GET, POST" if path.endswith("job") else "GET")
    assert client.put("/docs/files/swagger-ui.css").headers["allow"] == "GET, HEAD"
