"""Messages by the API."""

import base64
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.stored import LIFE, Made, made, store


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs` of the sequences 1 to 8; 5 and 6 were deleted."""
    found = made(workspace, bucket, "logs", last=8)
    store(workspace, found, 10, [Made(seq, f"logs.{seq % 2}", b"\xff%d" % seq) for seq in (1, 2, 3, 4)], (1, 6))
    store(workspace, found, 11, [Made(seq, "other", b"") for seq in (7, 8)])
    return found


@pytest.mark.s3
@pytest.mark.parametrize("prefix", ["", "/api/v1"])
def test_one_message(client: TestClient, archive: Archive, prefix: str) -> None:
    def asked(path: str, **params: Any) -> Any:
        answer = client.get(f"{prefix}/archive/logs/message{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert asked("", seq=2) == {
        "seq": 2,
        "time": "2026-11-21T10:00:00.002000000Z",
        "subject": "logs.0",
        "subject_bytes": None,
        "stream": "S",
        "incarnation": LIFE.token,
        "headers": None,
        "data": base64.b64encode(b"\xff2").decode(),
    }
    assert asked("", at="2026-11-21T10:30:00Z")["seq"] == 7
    assert asked("", seq=8, incarnation=LIFE.token)["data"] == ""
    assert asked("/next", subject="logs.0", after=2)["seq"] == 4
    assert asked("/last", subject="logs.>")["seq"] == 4
    assert asked("/last", subject=">", at="2026-11-21T10:00:00.001Z")["seq"] == 1
    reference = asked("/ref", seq=3, expires=60)
    assert (reference["row"], "X-Amz-Expires=60&" in reference["url"]) == (2, True)


def test_what_is_not_there_has_a_reason(client: TestClient, archive: Archive) -> None:
    asked: list[tuple[str, dict[str, Any], int, str]] = [
        ("logs/message", {"seq": 5}, 404, "Sequence 5 is not in archive logs: it was deleted"),
        ("logs/message", {"seq": 9}, 404, "Sequence 9 is not in archive logs: its last one is 8"),
        ("logs/message", {"at": "2027-01-01"}, 404, "Archive logs has no message stored at 2027"),
        ("logs/message/next", {"subject": "other", "after": 8}, 404, "Archive logs has no message of other after"),
        ("logs/message/last", {"subject": "none"}, 404, "Archive logs has no message of none"),
        ("logs/message/ref", {"seq": 6}, 404, "Sequence 6 is not in archive logs"),
        ("logz/message", {"seq": 1}, 404, "There is no archive logz"),
        ("logs/message", {"seq": 1, "incarnation": "x"}, 404, "Archive logs has no incarnation x"),
        ("logs/message", {}, 422, "The message is not given"),
        ("logs/message", {"seq": 1, "at": "-2h"}, 422, "The message is not given"),
        ("logs/message", {"seq": 0}, 422, ""),
        ("logs/message", {"seq": 2**63}, 422, ""),
        ("logs/message", {"at": "soon"}, 422, "'soon' is not a time"),
        ("logs/message/next", {}, 422, ""),
        ("logs/message/next", {"subject": "a..b"}, 422, ""),
        ("logs/message/last", {"subject": "a b"}, 422, ""),
        ("logs/message/ref", {"seq": 1, "expires": 604801}, 422, ""),
        ("logs/message/ref", {"seq": 1, "expire": 60}, 422, ""),
    ]
    for path, params, status, error in asked:
        answer = client.get(f"/archive/{path}", params=params)
        told = (answer.status_code, answer.headers["content-type"])
        assert told == (status, "application/problem+json"), (path, params, answer.text)
        assert answer.json()["error"].startswith(error), (path, params)


def test_pages_have_every_message_once(client: TestClient, archive: Archive) -> None:
    def seqs(**params: Any) -> list[list[int]]:
        pages: list[list[int]] = []
        while True:
            answer = client.get("/archive/logs/messages", params=params)
            assert answer.status_code == 200, answer.text
            pages.append([one["seq"] for one in answer.json()["messages"]])
            if (cursor := answer.json()["next"]) is None:
                return pages
            params = {"cursor": cursor, "limit": params["limit"]}

    assert seqs() == [[1, 2, 3, 4, 7, 8]]
    assert seqs(limit=4) == [[1, 2, 3, 4], [7, 8]]
    assert seqs(limit=1)[:6] == [[1], [2], [3], [4], [7], [8]]
    assert seqs(subject=["logs.0", "other"], limit=3) == [[2, 4, 7], [8]]
    assert seqs(sequences="2-7", limit=100) == [[2, 3, 4, 7]]
    assert seqs(hour="2026-11-21-11:00", limit=100) == [[7, 8]]
    assert seqs(from_time="2026-11-21T10:00:00.003Z", to_time="2026-11-21T11:00:00.008Z", limit=2) == [[3, 4], [7]]
    assert seqs(subject="none") == [[]]


def test_a_page_ends_at_its_bytes_and_goes_on_later(client: TestClient, archive: Archive, workspace: Workspace) -> None:
    store(workspace, archive, 12, [Made(seq, "big", b"x" * 700_000) for seq in (9, 10)])
    first = client.get("/archive/logs/messages").json()
    assert [one["seq"] for one in first["messages"]] == [1, 2, 3, 4, 7, 8, 9]
    second = client.get("/archive/logs/messages", params={"cursor": first["next"]}).json()
    assert ([one["seq"] for one in second["messages"]], second["next"]) == ([10], None)
    store(workspace, archive, 13, [Made(11, "later")])
    third = client.get("/archive/logs/messages", params={"cursor": second["cursor"]}).json()
    assert [one["seq"] for one in third["messages"]] == [11]


def test_a_message_a_line(client: TestClient, archive: Archive) -> None:
    lines = {"Accept": "application/x-ndjson"}
    answer = client.get("/archive/logs/messages", params={"limit": 4}, headers=lines)
    assert [json.loads(line)["seq"] for line in answer.text.splitlines()] == [1, 2, 3, 4]
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    answer = client.get("/archive/logs/messages", params={"cursor": answer.headers["Nats3-Next"]}, headers=lines)
    assert [json.loads(line)["seq"] for line in answer.text.splitlines()] == [7, 8]
    assert "Nats3-Next" not in answer.headers


def test_what_is_no_page_is_refused(client: TestClient, archive: Archive, workspace: Workspace, bucket: str) -> None:
    def status(**params: Any) -> tuple[int, list[str]]:
        answer = client.get("/archive/logs/messages", params=params)
        return answer.status_code, [one["field"] for one in answer.json()["fields"]]

    made(workspace, bucket, "others")
    token = client.get("/archive/logs/messages").json()["cursor"]
    assert status(cursor="x") == (422, ["cursor"])
    assert status(cursor=token, subject="a") == (422, ["cursor"])
    assert status(limit=1001) == (422, ["limit"])
    # Python, and pydantic with it, takes them for whole numbers.
    for number in ("1_0", " 10", "10.0", "\u0661"):
        assert status(limit=number) == (422, ["limit"])
    assert status(from_time="soon") == (422, ["from_time"])
    assert status(subject="a..b")[0] == 422
    assert status(sequences="9-1")[0] == 422
    other = client.get("/archive/others/messages", params={"cursor": token})
    assert (other.status_code, other.json()["error"]) == (422, "The cursor is of archive logs, not of others")
    store(workspace, archive, 13, [Made(20, "x")])
    page = client.get("/archive/logs/messages").json()
    assert [one["seq"] for one in page["messages"]] == [1, 2, 3, 4, 7, 8]
    answer = client.get("/archive/logs/messages", params={"cursor": page["next"]})
    assert answer.status_code == 503
    assert "9-19" in answer.json()["error"]
