"""Requests that no schema generates: bytes that are no text, numbers that fit nowhere, methods and types that nobody
documents."""

import itertools
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.bodies.load_jobs import CreateLoadJob
from nats3_dagster.bodies.store_jobs import CreateStoreJob
from nats3_dagster.bodies.strict_json import loads
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import everything
from nats3_dagster_tests.support.wire import Wire

ID = "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"
JSON = {"Content-Type": "application/json"}
LOAD = {"bucket": "b-1", "read_stream": "jobs", "read_subject": "a", "write_subject": "b"}
STORE = {"name": "job-1", "stream": "jobs", "subject": "subjects.1"}


def body(**values: Any) -> bytes:
    """With what no string of Python has in UTF-8: written as JSON's own escapes."""
    return json.dumps(values).encode()


BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'"\xff"',
    b"[" * 100_000,
    b'{"name":' * 50_000,
    b"1" * 100_000,
    b'{"name": "\xed\xa0\x80"}',
    b'{"name": 1, "name": 2}',
    "\ufeff{}".encode(),
    "{}".encode("utf-16"),
    b"NaN",
    b'{"a": ' + b"9" * 5000 + b"}",
    b"--x\r\n\r\n",
    b"\0",
]
TYPES: list[dict[str, Any]] = [JSON, {"Content-Type": "text/plain"}, {"Content-Type": b"\xff"}, {}]


@pytest.mark.parametrize("path", ["/store/job", "/load/job"])
def test_a_body_that_is_none(client: TestClient, path: str) -> None:
    for content, headers in itertools.product(BODIES, TYPES):
        answer = client.post(path, content=content, headers=headers)
        assert answer.status_code in (400, 415, 422), (content[:50], headers, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error"]


@pytest.mark.parametrize("path", ["/store/job", "/api/v1/load/job"])
def test_json_has_each_key_once_and_an_error_its_place(client: TestClient, path: str) -> None:
    cases = {
        # As the README of nats-s3-connector has it: a comma after the last field.
        b'{\n  "bucket": "bucket-1",\n  "name": "job-1",\n}': ("(line 4, column 1)", "(line 3, column 18)"),
        b'{"name": \xc3\xa4}': ("It is not JSON: Expecting value (line 1, column 10)",),
        b'{"name": "a", "bucket": "b", "name": "c"}': ("It is not JSON: the key 'name' is there twice in one object",),
        b'{"batch": {"a": 1, "a": 1}}': ("It is not JSON: the key 'a' is there twice in one object",),
        b'{"rate": NaN}': ("It is not JSON: NaN is no number of JSON",),
    }
    for content, errors in cases.items():
        answer = client.post(path, content=content, headers=JSON)
        assert answer.status_code == 422, content
        (field,) = answer.json()["fields"]
        assert field["field"] == "", content
        # Versions of Python differ in which of the two places they name.
        assert field["message"].startswith("It is not JSON: "), content
        assert any(error in field["message"] for error in errors), (content, field)


def test_head_is_get_without_the_body(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    job = client.post("/store/job", json=STORE | {"bucket": bucket}).json()
    asked = {
        "/ping": {},
        "/ready": {},
        "/metrics": {},
        "/store/jobs": {},
        "/store/job": {"job_id": job["id"]},
        "/load/job": {"job_id": ID},
        "/load/jobs": {"limit": 0},
        "/openapi.json": {},
        "/nowhere": {},
        "/docs": {},
        "/docs/files/swagger-ui.css": {},
        "/api/v1/chunks": {"archive": "job_1"},
    }
    for path, params in asked.items():
        get, head = client.get(path, params=params), client.head(path, params=params)
        assert (head.status_code, head.content) == (get.status_code, b""), path
        assert head.headers["content-type"] == get.headers["content-type"], path
        if path not in ("/metrics", "/ready", "/store/jobs", "/store/job"):  # they have clocks
            assert head.headers["content-length"] == str(len(get.content)), path


def test_what_is_long_is_not_repeated(client: TestClient) -> None:
    long = "x" * 10_000
    answers = [
        client.get(f"/{long}"),
        client.put(f"/docs/files/{long}"),
        client.get("/store/jobs", params={long: "1"}),
        client.get("/store/jobs", params={"limit": long}),
        client.get(f"/archive/{long}/message", params={"seq": 1}),
        client.post("/store/job", json={"name": long * 90, "stream": f"{long}.", "bucket": long[:9], long: 1}),
        client.post("/store/job", json={"name": "a", "stream": "a", "bucket": "b-1", "subjects": [f"..{long[:1000]}"]}),
        client.post("/store/job", content=b'{"%s": 1, "%s": 1}' % (long.encode(), long.encode()), headers=JSON),
    ]
    for at, answer in enumerate(answers):
        assert 400 <= answer.status_code < 500, at
        assert len(answer.content) < 9000, (at, answer.text[:300])


STRANGE: list[Any] = [
    "\0",
    "a\0b",
    "\ud800",
    "\U0001f600" * 300,
    "a\r\nb",
    "x" * 1025,
    " ",
    "\u202e",
    "../..",
    "a/b",
    "$JS.>",
    "a..b",
    ">.a",
    -1,
    0,
    2**63,
    2**64,
    10**400,
    1e400,
    float("nan"),
    True,
    [],
    {},
    [[]],
    [None],
]


Strange = tuple[str, bytes]


def strange(model: type[CreateStoreJob | CreateLoadJob], whole: dict[str, Any]) -> tuple[list[Strange], list[Strange]]:
    """Bodies with each field and each strange value, and the field: those that cannot be right, and the others."""
    wrong, others = list[Strange](), list[Strange]()
    for name, value in itertools.product((field.alias or key for key, field in model.model_fields.items()), STRANGE):
        content = body(**whole | {name: value})
        try:
            model.model_validate(loads(content)).spec()
        except (ValueError, OperatorError):
            wrong.append((name, content))
        else:
            others.append((name, content))
    return wrong, others


def check_refused(
    client: TestClient, path: str, bodies: list[Strange], settings: Settings, s3_client: Any, bucket: str
) -> None:
    """Asserts that each is refused by its field, or as no JSON, and that nothing is written."""
    before = everything(settings.postgres, settings.nats_url or "", s3_client, bucket)
    for name, content in bodies:
        answer = client.post(path, content=content, headers=JSON)
        fields = {one["field"].split(".")[0] for one in answer.json()["fields"]}
        assert (answer.status_code, fields) in ((422, {name}), (422, {""})), (name, content[:200], answer.text)
    assert everything(settings.postgres, settings.nats_url or "", s3_client, bucket) == before


def test_a_value_that_fits_nowhere_in_a_store_job(
    client: TestClient, jobs_stream: Wire, bucket: str, settings: Settings, s3_client: Any
) -> None:
    wrong, others = strange(CreateStoreJob, STORE | {"bucket": bucket})
    check_refused(client, "/store/job", wrong, settings, s3_client, bucket)
    for name, content in others:
        answer = client.post("/store/job", content=content, headers=JSON)
        assert answer.status_code in (201, 404, 409, 422), (name, content[:200], answer.text)
        if answer.status_code == 201:
            job_id = answer.json()["id"]
            assert client.get("/store/jobs").json()[0]["id"] == job_id
            assert client.delete("/store/job", params={"job_id": job_id}).status_code == 200


def test_a_value_that_fits_nowhere_in_a_load_job(
    client: TestClient, jobs_stream: Wire, bucket: str, settings: Settings, s3_client: Any
) -> None:
    assert client.post("/store/job", json=STORE | {"bucket": bucket}).status_code == 201
    wrong, others = strange(CreateLoadJob, LOAD | {"bucket": bucket})
    check_refused(client, "/load/job", wrong, settings, s3_client, bucket)
    for name, content in others:
        answer = client.post("/load/job", content=content[:-1] + b', "dry_run": true}', headers=JSON)
        assert answer.status_code in (200, 404, 409, 422), (name, content[:200], answer.text)


VALUES = ("%00", "%ff", "%ed%a0%80", "9" * 5000, "-1", "", "a" * 5000, "%0d%0a", "1e3", "٣")
QUERIES = {
    "/store/job": ["job_id"],
    "/store/jobs": ["stream", "bucket", "status", "limit"],
    "/store/job/lag": ["job_id"],
    "/load/jobs": ["archive", "bucket", "replay", "limit", "status"],
    "/load/job/progress": ["job_id"],
    "/chunks": ["archive", "hour", "from_time", "subject", "limit", "cursor"],
}


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
        for method in ("OPTIONS", "TRACE", "PATCH", "PUT", "BREW"):
            answer = client.request(method, path)
            assert answer.status_code == 405, (method, path)
            assert answer.headers["allow"] == ("DELETE, GET, HEAD, POST" if path.endswith("job") else "GET, HEAD")
    pause = client.head("/store/job/pause")
    assert (pause.status_code, pause.headers["allow"]) == (405, "POST")
    assert client.put("/docs/files/swagger-ui.css").headers["allow"] == "GET, HEAD"
