"""Holds, expiry, copies, compaction and erasure by the API: as the commands do them."""

import json
import uuid
from typing import Any

from fastapi.testclient import TestClient

from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.stored import folder
from nats3_dagster.objects import create_bucket
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.small_chunks import HOUR, live, small
from nats3_dagster_tests.support.stored import made

JSON = {"Content-Type": "application/json"}


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


def test_what_happens_to_an_hour(client: TestClient, workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 3)

    def post(path: str, body: dict[str, Any] | None = None, status: int = 200) -> Any:
        answer = client.post(f"/archive/logs/{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    done = post(f"compact?hour={HOUR}")
    assert (done["chunks_before"], done["chunks_after"], len(live(workspace, archive))) == (3, 1, 1)
    placed = post("holds", {"name": "court", "reason": "order 5", "hours": [HOUR]}, 201)
    assert (placed["first_hour"], placed["held_chunks"], placed["reason"]) == (HOUR, 1, "order 5")
    problem(client.post("/archive/logs/holds", json={"name": "court", "reason": "again"}), 409)
    wanted = {"reason": "case 17", "read_subject": "a.1", "headers": {"A": "b"}, "where": "seq < 12"}
    dry = post("erase", wanted | {"dry_run": True})
    assert (dry["messages"], dry["dry_run"], dry["chosen_by"]) == (2, True, ["subject", "header", "where"])
    held = problem(client.post("/archive/logs/erase", json=wanted), 409)
    assert "The hold court keeps messages" in held["detail"]
    for reason in ("", "?reason=%20", "?reason=a%0Ab"):
        problem(client.delete(f"/archive/logs/holds/court{reason}"), 422)
    ended = {"archive": "logs", "name": "court", "reason": "order 6", "deleted": True}
    assert client.delete("/archive/logs/holds/court?reason=order+6").json() == ended
    problem(client.delete("/archive/logs/holds/court?reason=order+6"), 404)
    assert post("erase", wanted)["messages"] == 2
    assert post("erase", {"reason": "case 18", "sequences": [1, 1]})["messages"] == 1
    proof = post("erase/prove")
    assert (proof["erasures"], proof["messages"], proof["found"]) == (2, 3, [])
    problem(client.delete("/archive/logs/copies/other"), 404)

    assert "no copy" in problem(client.post("/archive/logs/copy"), 422)["detail"]
    other = f"copy-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, other)
    change(workspace, "logs", {"copies": (other,)})
    (copied,) = post("copy")
    assert (copied["bucket"], copied["objects"]) == (other, 2)
    change(workspace, "logs", {"keep_s": 3600})
    assert (post("expire?dry_run=true")["messages"], len(live(workspace, archive))) == (12, 1)
    assert (post("expire")["messages"], live(workspace, archive)) == (12, [])


def test_what_is_refused(client: TestClient, workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 1)
    bodies: list[tuple[str, dict[str, Any], str]] = [
        ("erase", {"reason": "x"}, "Nothing says which messages are meant"),
        ("erase", {"sequences": [1, 2]}, "reason"),
        ("erase", {"reason": " ", "sequences": [1, 2]}, "blank"),
        ("erase", {"reason": "x", "where": "no_column = 1"}, "no_column"),
        ("erase", {"reason": "x", "sequences": [7, 7], "where": "true) OR (true"}, "no expression"),
        ("erase", {"reason": "x", "where": "true UNION SELECT * FROM messages"}, "no single expression"),
        ("erase", {"reason": "x", "where": "x\ud800 = 1"}, "half of a character"),
        ("erase", {"reason": "x", "headers": {"N": "\udcff"}}, "half of a character"),
        ("erase", {"reason": "x", "sequences": [2, 1]}, "sequence range"),
        ("holds", {"name": "a b", "reason": "x"}, "name"),
        ("holds", {"name": "a", "reason": "x", "read_subject": "a.>"}, "not on subjects"),
        ("compact", {}, "hour"),
        ("compact?hour=2026-11-21-25:00", {}, "hour"),
    ]
    for path, body, text in bodies:
        # In ASCII, as JSON may be: a text may have what UTF-8 has not.
        answer = client.post(f"/archive/logs/{path}", content=json.dumps(body), headers=JSON)
        assert answer.status_code in (400, 409, 422), (path, body, answer.text)
        assert text in answer.text, (path, body, answer.text)
    for path in ("erase", "holds", "compact", "expire", "copy"):
        params = {"hour": HOUR} if path == "compact" else {}
        given = {"reason": "x", "sequences": [1, 2]} | ({"name": "h"} if path == "holds" else {})
        problem(client.post(f"/archive/none/{path}", params=params, json=given), 404)
    assert [chunk.meta.messages for chunk in live(workspace, archive)] == [5]
