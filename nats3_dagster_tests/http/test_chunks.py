"""Chunks by the API: pages in the order of the stream, each chunk once."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.archive.read import chunk_pages
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS, chunk, spec, state

LATER = "2026-11-21-08:00"


@pytest.fixture
def archive(workspace: Workspace) -> Archive:
    """With 25 chunks of 10 sequences: `logs.a` in all of them, `logs.b` in each tenth; the last five an hour later."""
    archive = workspace.catalog.archives.create(spec(), state(last=1000))
    begins = HOUR_NS + 3600 * 10**9
    later: dict[str, Any] = {"hour": LATER, "first_ns": begins, "last_ns": begins + 9}
    made = [
        chunk(
            at * 10 + 1,
            at * 10 + 10,
            subjects={"logs.a": 9, "logs.b": 1} if at % 10 == 0 else {"logs.a": 10},
            **(later if at >= 20 else {}),
        )
        for at in range(25)
    ]
    workspace.catalog.chunks.commit(archive, made)
    return archive


def pages(client: TestClient, **params: Any) -> list[list[int]]:
    """The first sequences of all pages."""
    found: list[list[int]] = []
    while True:
        answer = client.get("/chunks", params={"archive": "logs", **params})
        assert answer.status_code == 200, answer.text
        found.append([c["first_seq"] for c in answer.json()["chunks"]])
        if (cursor := answer.json()["next"]) is None:
            return found
        params["cursor"] = cursor


def test_pages(client: TestClient, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [at * 10 + 1 for at in range(25)]
    assert pages(client) == [every]
    assert pages(client, limit=10) == [every[:10], every[10:20], every[20:]]
    assert pages(client, limit=5) == [every[at : at + 5] for at in range(0, 25, 5)]
    assert pages(client, hour=LATER) == [every[20:]]
    assert pages(client, hour=[HOUR, LATER], limit=20) == [every[:20], every[20:]]
    assert pages(client, from_time=LATER, limit=3) == [every[20:23], every[23:]]
    assert pages(client, to_time=LATER) == [every[:20]]
    assert pages(client, subject="logs.b", limit=2) == [[1, 101], [201]]
    assert pages(client, subject="logs.*", limit=20) == [every[:20], every[20:]]
    assert pages(client, subject="other") == [[]]
    monkeypatch.setattr(chunk_pages, "MOST_READ", 6)
    assert [seq for page in pages(client, subject="logs.b", limit=3) for seq in page] == [1, 101, 201]


def test_by_the_job_and_one_by_its_id(client: TestClient, archive: Archive) -> None:
    page = client.get("/chunks", params={"job_id": str(archive.job_id), "limit": 1}).json()
    (first,) = page["chunks"]
    one = client.get(f"/api/v1/chunks/{first['id']}").json()
    assert one | first == one
    assert one["subjects"] == {"logs.a": 9, "logs.b": 1}
    assert one["replays"] == []
    assert client.get("/chunks/999999").json()["error"] == "There is no chunk 999999"
    assert client.get("/chunks/999999").status_code == 404


def test_what_is_refused(client: TestClient, archive: Archive) -> None:
    refused: list[tuple[dict[str, Any], int, str | None]] = [
        ({}, 422, "archive"),
        ({"archive": "nothing"}, 404, None),
        ({"archive": "logs", "limit": -1}, 422, "limit"),
        ({"archive": "logs", "limit": 1001}, 422, "limit"),
        ({"archive": "logs", "cursor": "x"}, 422, "cursor"),
        ({"archive": "logs", "cursor": f"1-{2**63}"}, 422, "cursor"),
        ({"archive": "logs", "hour": "now"}, 422, None),
        ({"archive": "logs", "from_time": "soon"}, 422, "from_time"),
        ({"archive": "logs", "subject": "a..b"}, 422, None),
        ({"archive": "a\0"}, 422, "archive"),
        ({"archive": "logs", "hours": "x"}, 422, "hours"),
    ]
    for params, status, field in refused:
        answer = client.get("/chunks", params=params)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), params
        assert answer.json()["error"]
        if field:
            assert [f["field"] for f in answer.json()["fields"]] == [field], params
    for bad in ("0", "-1", "x", str(2**63)):
        assert client.get(f"/chunks/{bad}").status_code == 422, bad
