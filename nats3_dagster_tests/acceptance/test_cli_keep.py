"""`nats3 store expire`, `nats3 hold` and `nats3 history` on a real catalog and store."""

import json
import re
from datetime import UTC, datetime
from typing import get_args

import psycopg
import pytest
from starlette.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.api.tokens import new_token
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.documents.keeping import What
from nats3_dagster.model import Archive, CaptureEnd
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.recovery import HOURS, new_archive, put


@pytest.fixture
def logs(workspace: Workspace, bucket: str) -> Archive:
    """An archive of three sealed hours, 10 messages in each."""
    archive = new_archive(workspace, bucket)
    covers = ((1, 10), (11, 20), (21, 30))
    metas = [put(workspace, archive, hour, span) for hour, span in zip(HOURS, covers, strict=True)]
    workspace.catalog.chunks.commit(archive, metas)
    assert len(list(seal_hours(workspace, archive, HOURS))) == 3
    return archive


def test_each_event_of_the_catalog_has_a_name_in_the_document(postgres_url: str) -> None:
    """An event that the document does not know would end the whole history."""
    query = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'event_what_check'"
    with psycopg.connect(postgres_url) as connection:
        ((check,),) = connection.execute(query).fetchall()
    assert {*re.findall(r"'(\w+)'::text", check)} | {
        "captured",
        "capture_failed",
        "sealed",
        "replayed",
        "replay_failed",
    } == {*get_args(What)}


def test_holds_expiry_and_history(nats3: Command, workspace: Workspace, logs: Archive) -> None:
    placed = json.loads(
        nats3.ok("hold", "create", "logs", "case-7", "--hour", HOURS[1], "--reason", "court order", "-o", "json").out
    )
    assert (placed["first_hour"], placed["last_hour"], placed["held_chunks"]) == (HOURS[1], HOURS[1], 1)
    (listed,) = json.loads(nats3.ok("hold", "list", "logs", "-o", "json").out)
    assert (listed["name"], listed["reason"], "@" in listed["placed_by"]) == ("case-7", "court order", True)
    assert nats3("hold", "create", "logs", "case-7", "--reason", "again").status == 1
    assert nats3("hold", "create", "logs", "a b", "--reason", "x").status == 2
    assert nats3("hold", "create", "logs", "b", "--reason", " ").status == 2

    nats3.ok("store", "set", "logs", "--keep", "1h")
    planned = json.loads(nats3.ok("store", "expire", "logs", "--dry-run", "-o", "json").out)
    assert (planned["hours"], planned["messages"], planned["held_chunks"], planned["dry_run"]) == (2, 20, 1, True)
    done = json.loads(nats3.ok("store", "expire", "logs", "-o", "json").out)
    assert done == planned | {"dry_run": False}
    ran = nats3.ok("message", "cat", "logs", "-o", "raw", "--hour", HOURS[0])
    assert (
        ran.err.strip()
        == "Not in archive logs any more: 10 messages of the selection, which it does not keep any longer"
    )
    refused = nats3("message", "get", "logs", "--seq", "3")
    assert (refused.status, "does not keep messages of its age" in refused.err) == (1, True)
    refused = nats3("store", "delete", "logs", "--yes")
    assert (refused.status, "The hold case-7 keeps them" in refused.err) == (1, True)
    assert refused.error.endswith("nats3 hold delete logs case-7 --reason 'no longer needed'")
    assert nats3.ok("store", "get", "logs", "-o", "json").json["holds"] == [listed]
    assert "case-7 (court order)" in nats3.ok("store", "get", "logs").out
    assert nats3("hold", "delete", "logs", "case-7", "--yes").status == 2
    token = new_token()[0]
    for words in (
        ("create", "logs", "case-8", "--reason", f"see {token}"),
        ("create", "logs", token, "--reason", "a"),
        ("delete", "logs", "case-7", "--yes", "--reason", token),
        ("delete", "logs", "case-7", "--yes", "--reason", " "),
    ):
        told = nats3.refused("hold", *words)
        assert (told[0], token in told) == ("2", False), words
    refused = nats3("message", "erase", "logs", "--sequences", "12-12", "--reason", "request 9", "--yes")
    assert (refused.status, "The hold case-7 keeps messages" in refused.err) == (1, True)
    nats3.ok("hold", "delete", "logs", "case-7", "--yes", "--reason", "the court released it")
    assert nats3("hold", "delete", "logs", "case-7", "--yes", "--reason", "again").status == 2

    catalog = workspace.catalog
    failed = CaptureEnd(HOURS[2], 0, 0, ("store", "The bucket is gone"))
    catalog.measures.add_captures(logs, datetime.now(UTC), [failed])
    lines = json.loads(nats3.ok("history", "logs", "-o", "json").out)
    assert [one["what"] for one in lines[:4]] == ["capture_failed", "released", "erasure_refused", "sealed"]
    assert ["@" in one["who"] for one in lines] == [True] * len(lines)
    assert [one["what"] for one in lines if one["what"] not in ("sealed", "capture_failed")] == [
        "released",
        "erasure_refused",
        "expired",
        "changed",
        "held",
        "created",
    ]
    assert lines[1]["detail"] == {"name": "case-7", "reason": "the court released it", "held_for": "court order"}
    assert "@" in lines[1]["who"]
    asked = next(one for one in lines if one["what"] == "erasure_refused")
    assert asked["detail"] == {"reason": "request 9", "by": ["sequences"]}
    assert (asked["error"].startswith("held: The hold case-7 keeps messages"), "@" in asked["who"]) == (True, True)
    assert (lines[0]["error"], lines[0]["next"] is not None) == ("store: The bucket is gone", True)
    expired = next(one for one in lines if one["what"] == "expired")
    assert expired["detail"] == {
        "first_hour": HOURS[0],
        "last_hour": HOURS[2],
        "chunks": 2,
        "messages": 20,
        "bytes": done["bytes"],
    }
    changed = next(one for one in lines if one["what"] == "changed")
    assert changed["detail"] == {"keep_s": [0, 3600]}
    assert all("@" in one["who"] for one in (expired, changed))
    assert [one["what"] for one in json.loads(nats3.ok("history", "logs", "--limit", "2", "-o", "json").out)] == [
        "capture_failed",
        "released",
    ]
    assert json.loads(nats3.ok("history", "logs", "--since", "2100-01-01", "-o", "json").out) == []
    assert "keep for ever -> 1h" in nats3.ok("history", "logs").out


def test_the_history_of_a_deleted_archive_says_who_deleted_it(
    nats3: Command, workspace: Workspace, logs: Archive
) -> None:
    assert nats3.refused("history", "logs", "--deleted").startswith("2 Error: No archive logs was deleted")
    nats3.ok("store", "delete", "logs", "--yes")
    former = nats3.ok("history", "logs", "-o", "json").json
    assert (former[0]["what"], "@" in former[0]["who"], len(former)) == ("deleted", True, 5)
    with TestClient(create_app(workspace.settings)) as client:
        over_http = client.get("/store/job/history", params={"job_id": str(logs.job_id)})
    assert (over_http.status_code, over_http.json()) == (200, former)
    # One of the same name has a history of its own.
    new_archive(workspace, logs.spec.bucket, prefix="again")
    assert [one["what"] for one in nats3.ok("history", "logs", "-o", "json").json] == ["created"]
    assert nats3.ok("history", "logs", "--deleted", "-o", "json").json == former
    assert nats3.refused("history", "none").startswith("2 Error: There is no archive none")
