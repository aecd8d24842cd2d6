"""What a user may get wrong of a read: the command line and the API refuse it alike, and say why and what to do."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.read.cursor_state import CursorState
from nats3_dagster.model import Archive, Gap, Incarnation, Selection, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import points as made_points
from nats3_dagster_tests.support.catalog import LOGS, ranges, spec, state
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.points import add_chunk, message

NOT_THERE = "Sequence {} is not in archive logs: "
SYNTAX = "'a..b' is not a subject filter: token 2 is empty"
# What is wrong; the command, and what it says behind its status; the request, its status, and the parameter that is at
# fault if it is one that the API checks by itself. Else it says the same.
CASES: tuple[tuple[str, tuple[str, ...], str, str, Mapping[str, Any], int, str], ...] = (
    (
        "behind the archive",
        ("get", "logs", "--seq", "31"),
        "1 Error: " + NOT_THERE.format(31) + "its last one is 30.",
        "message",
        {"seq": 31},
        404,
        "",
    ),
    (
        "of an archive that begins later",
        ("get", "late", "--seq", "9"),
        "1 Error: Sequence 9 is not in archive late: the archive begins with 100.",
        "message",
        {"seq": 9},
        404,
        "",
    ),
    ("below 1", ("get", "logs", "--seq", "0"), "2 Error: 0 is not a sequence", "message", {"seq": 0}, 422, "seq"),
    (
        "above all",
        ("get", "logs", "--seq", str(2**63)),
        f"2 Error: {2**63} is not a sequence",
        "message",
        {"seq": 2**63},
        422,
        "seq",
    ),
    ("no number", ("get", "logs", "--seq", "x"), "2 Error: ", "message", {"seq": "x"}, 422, "seq"),
    (
        "in a gap",
        ("get", "logs", "--seq", "12"),
        "1 Error: " + NOT_THERE.format(12) + "a limit of the stream, or a purge, had removed it before it was captured "
        "(so are the sequences 11-20). Ask for the next message after it",
        "message",
        {"seq": 12},
        404,
        "",
    ),
    (
        "the reference of one in a gap",
        ("ref", "logs", "--seq", "12"),
        "1 Error: " + NOT_THERE.format(12) + "a limit of the stream",
        "message/ref",
        {"seq": 12},
        404,
        "",
    ),
    (
        "deleted",
        ("get", "logs", "--seq", "5"),
        "1 Error: " + NOT_THERE.format(5) + "it was deleted from the stream before it was captured (so are the "
        "sequences 5-6). Ask for the next message after it",
        "message",
        {"seq": 5},
        404,
        "",
    ),
    (
        "a filter",
        ("next", "logs", "--subject", "a..b"),
        f"2 Error: {SYNTAX}",
        "message/next",
        {"subject": "a..b"},
        422,
        "",
    ),
    (
        "a filter of the last one",
        ("last", "logs", "--subject", "a.>.b"),
        "2 Error: 'a.>.b' is not a subject filter: > may only be the last token",
        "message/last",
        {"subject": "a.>.b"},
        422,
        "",
    ),
    (
        "one of two filters",
        ("cat", "logs", "--subject", "a", "--subject", "a..b"),
        f"2 Error: {SYNTAX}",
        "messages",
        {"subject": ["a", "a..b"]},
        422,
        "",
    ),
    (
        "a time that comes",
        ("get", "logs", "--at", "2200-01-01"),
        "1 Error: Archive logs has no message stored at 2200-01-01T00:00:00.000000000Z or later.",
        "message",
        {"at": "2200-01-01"},
        404,
        "",
    ),
    (
        "no time",
        ("get", "logs", "--at", "soon"),
        "2 Error: Invalid value for '--at': 'soon' is not a time",
        "message",
        {"at": "soon"},
        422,
        "at",
    ),
    (
        "no such day",
        ("last", "logs", "--subject", "logs.a", "--at", "2026-02-30"),
        "2 Error: Invalid value for '--at': '2026-02-30' is not a time. No such date",
        "message/last",
        {"subject": "logs.a", "at": "2026-02-30"},
        422,
        "at",
    ),
    (
        "a time that no message can have",
        ("get", "logs", "--at", "2300-01-01"),
        "2 Error: Invalid value for '--at': '2300-01-01' is not a time. Nanoseconds in 64 bits end at 2262",
        "message",
        {"at": "2300-01-01"},
        422,
        "at",
    ),
    (
        "too long",
        ("ref", "logs", "--seq", "1", "--expires", "8d"),
        "2 Error: A URL cannot expire after 691200 seconds",
        "message/ref",
        {"seq": 1, "expires": 691200},
        422,
        "expires",
    ),
    (
        "no length",
        ("ref", "logs", "--seq", "1", "--expires", "soon"),
        "2 Error: Invalid value for '--expires': 'soon' is not a duration",
        "message/ref",
        {"seq": 1, "expires": "soon"},
        422,
        "expires",
    ),
    (
        "a length without a unit that is known",
        ("ref", "logs", "--seq", "1", "--expires", "1y"),
        "2 Error: Invalid value for '--expires': '1y' is not a duration",
        "message/ref",
        {"seq": 1, "expires": "1y"},
        422,
        "expires",
    ),
    (
        "nothing",
        ("ref", "logs", "--seq", "1", "--expires", "0s"),
        "2 Error: A URL cannot expire after 0 seconds",
        "message/ref",
        {"seq": 1, "expires": 0},
        422,
        "expires",
    ),
)


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs` of the sequences 1 to 10, without 5 and 6, which were deleted, and 21 to 30: those between
    were lost. And an archive `late` that begins with 100."""
    found = made_points.create(workspace, bucket)
    rows = [message(seq) for seq in range(1, 31)]
    add_chunk(workspace, found, [*rows[:4], *rows[6:10]])
    workspace.catalog.chunks.commit(found, [], [Gap(LOGS, ranges((11, 20)), "expired")])
    add_chunk(workspace, found, rows[20:])
    workspace.catalog.archives.create(spec("late", bucket=bucket), state(first=100))
    return found


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings)) as client:
        yield client


def test_the_command_line_says_what_is_wrong(nats3: Command, archive: Archive) -> None:
    assert nats3.differences((("message", *words), begin) for _, words, begin, *_ in CASES) == []


def test_the_api_says_the_same(client: TestClient, archive: Archive) -> None:
    for case, _, begin, path, params, status, field in CASES:
        answer = client.get(f"/archive/{'late' if 'later' in case else 'logs'}/{path}", params=params)
        problem = answer.json()
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), case
        if field:
            assert [one["field"] for one in problem["fields"]] == [field], case
        else:
            what = begin[len("1 Error: ") :].split(". ")[0].rstrip(".")
            assert problem["error"].startswith(what), (case, problem)


def saved(workspace: Workspace, archive: Archive) -> CursorState:
    """Of a cursor behind the fourth message."""
    progress = CursorState.begin(archive, Selection(sequences=SeqRange(1, 8)), over_gaps=False)
    progress.move(LOGS, 4)
    return progress


def test_a_saved_cursor_that_does_not_fit(
    nats3: Command, client: TestClient, workspace: Workspace, archive: Archive, tmp_path: Path
) -> None:
    good = saved(workspace, archive).token()
    of_another_life, later = saved(workspace, archive), Incarnation("LOGS", LOGS.created_ns + 1_000)
    of_another_life.move(later, 4)
    elsewhere = CursorState.begin(archive, Selection(), over_gaps=False)
    elsewhere.job_id = "another"
    late = workspace.catalog.archives.get("late")
    digits = base64.urlsafe_b64decode(good + "=" * (-len(good) % 4)).replace(b",4]", b",7]")
    damaged = base64.urlsafe_b64encode(digits).decode().rstrip("=")
    cases = (
        (damaged, f"{damaged[:40]!r} is not a cursor, or one that was cut or changed"),
        (good[:-5], f"{good[:40]!r} is not a cursor"),
        ("\x00\x01 no text", "'\\x00\\x01 no text' is not a cursor"),
        (of_another_life.token(), f"The cursor is of the LOGS of {later.token}, which archive logs does not have"),
        (elsewhere.token(), "The cursor is of another archive logs: one that was deleted, or of another catalog"),
        (CursorState.begin(late, Selection(), over_gaps=False).token(), "The cursor is of archive late, not of logs"),
    )
    file = tmp_path / "at"
    for token, why in cases:
        file.write_text(token)
        assert nats3.refused("message", "cat", "logs", "--cursor", str(file)).startswith(f"2 Error: {why}")
        assert file.read_text() == token  # nothing was printed, and nothing is forgotten
        answer = client.get("/archive/logs/messages", params={"cursor": token})
        assert (answer.status_code, answer.json()["error"][: len(why)]) == (422, why)
    file.write_text("")
    assert nats3.refused("message", "cat", "logs", "--cursor", str(file)).startswith("2 Error: '' is not a cursor")
    file.write_text(good)
    assert nats3.ok("message", "cat", "logs", "--cursor", str(file), "-o", "raw").out == "78"
    assert Cursor.resume(workspace, file.read_text().strip()).position == (LOGS, 10)


def test_as_of_a_time_that_comes_is_as_of_now(nats3: Command, archive: Archive) -> None:
    last = ("message", "last", "logs", "--subject", "logs.a", "-o", "raw")
    assert nats3.ok(*last, "--at", "2200-01-01").out == nats3.ok(*last).out == "30"
