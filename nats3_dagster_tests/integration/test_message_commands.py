"""`nats3 message`: what it prints of single messages, and that a server gives the same."""

import base64
import json
from collections.abc import Iterator

import pytest

from nats3_dagster.api.app import create_app
from nats3_dagster.cli.main import main
from nats3_dagster.model import Archive
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.load_jobs import listening
from nats3_dagster_tests.support.stored import LIFE, Made, made, store
from nats3_dagster_tests.support.terminal import on_terminal

pytestmark = pytest.mark.s3

BINARY = b"\x00\xff\r\n\x1b[31m"
HEADERS = b"NATS/1.0\r\nKind: a\r\nKind: b:c\r\n\r\n"


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs` of the sequences 1 to 4 and 7 to 10; 5 and 6 were deleted."""
    found = made(workspace, bucket, "logs", last=10)
    first = [
        Made(1, "logs.a", b"one", HEADERS),
        Made(2, "logs.b", BINARY),
        Made(3, "logs.a", b""),
        Made(4, "x", b"4\n"),
    ]
    store(workspace, found, 10, first, (1, 6))
    store(workspace, found, 11, [Made(seq, "logs.b", b"%d" % seq) for seq in (7, 8, 9, 10)])
    return found


@pytest.fixture
def url(settings: Settings) -> Iterator[str]:
    with listening(create_app(settings)) as address:
        yield address


def test_one_message_as_people_and_programs_want_it(nats3: Command, archive: Archive) -> None:
    assert nats3.ok("message", "get", "logs", "--seq", "1").out == (
        "[1] Subject: logs.a Received: 2026-11-21T10:00:00.001000000Z\n\n  Kind: a\n  Kind: b:c\n\none\n\n"
    )
    shown = nats3.ok("message", "get", "logs", "--seq", "1", "-o", "json").json
    assert shown == {
        "seq": 1,
        "time": "2026-11-21T10:00:00.001000000Z",
        "subject": "logs.a",
        "subject_bytes": None,
        "stream": "S",
        "incarnation": LIFE.token,
        "headers": base64.b64encode(HEADERS).decode(),
        "data": "b25l",
    }
    text = nats3.ok("message", "get", "logs", "--seq", "1", "-o", "json", "--text").json
    assert (text["headers"], text["data"]) == (HEADERS.decode(), "one")
    binary = nats3.ok("message", "get", "logs", "--seq", "2", "-o", "json", "--text").json
    assert (binary["data_base64"], binary["headers"]) == (base64.b64encode(BINARY).decode(), None)
    assert "data" not in binary
    assert nats3.ok("message", "get", "logs", "--seq", "3", "-o", "raw").out == ""
    assert "seq: 4\n" in nats3.ok("message", "get", "logs", "--seq", "4", "-o", "yaml").out


def test_a_payload_is_printed_byte_by_byte(archive: Archive, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["message", "get", "logs", "--seq", "2", "-o", "raw"]) == 0
    assert capfdbinary.readouterr().out == BINARY


def test_a_message_moves_no_cursor(nats3: Command, workspace: Workspace, archive: Archive) -> None:
    block = b"NATS/1.0\r\nKind: \x1b]0;t\x07\x9b2J\r\n\r\n"
    store(workspace, archive, 12, [Made(11, "logs.\x1b[2J", "\x1b[2Jé\x9b2J\u202e\tx\ny".encode() + b"\xff", block)])
    seen = "\n\n  Kind: \\x1b]0;t\\x07\\x9b2J\n\n\\x1b[2Jé\\x9b2J\\x202e\tx\ny\\xff\n\n"
    words = ["message", "get", "logs", "--seq", "11"]
    assert nats3.ok(*words).out.partition("Z")[2] == seen
    commands = [
        [*command, "-o", output]
        for command in (words, ["message", "cat", "logs", "--sequences", "11-11"])
        for output in ("table", "json", "yaml", "raw")
    ]
    program = f"from nats3_dagster.cli.main import main\nfor words in {commands!r}: main(words)"
    assert {c for c in on_terminal(200, program) if not c.isprintable()} - set("\n\t") == set()


def test_next_last_and_at_find_it(nats3: Command, archive: Archive) -> None:
    def seqs(*words: str) -> list[int]:
        return [json.loads(line)["seq"] for line in nats3.ok("message", *words, "-o", "json").out.splitlines()]

    def seq(*words: str) -> int:
        return nats3.ok("message", *words, "-o", "json").json["seq"]

    assert seq("next", "logs", "--subject", "logs.a") == 1
    assert seq("next", "logs", "--subject", "logs.a", "--after", "1") == 3
    assert seq("next", "logs", "--subject", "logs.*", "--after", "3") == 7
    assert seq("last", "logs", "--subject", "logs.a") == 3
    assert seq("last", "logs", "--subject", "logs.b", "--at", "2026-11-21T10:59:00Z") == 2
    assert seqs("last", "logs", "--subject", "logs.>", "--all") == [10, 3]
    assert seqs("last", "logs", "--subject", ">", "--all", "--at", "2026-11-21T11:00:00.008Z") == [8, 4, 3]
    assert seqs("last", "logs", "--subject", "none", "--all") == []
    assert seq("get", "logs", "--at", "2026-11-21T10:00:00.005Z") == 7
    assert seq("get", "logs", "--seq", "9", "--incarnation", LIFE.token) == 9


NOTHING = (
    (("get", "logs", "--seq", "5"), "1 Error: Sequence 5 is not in archive logs: it was deleted"),
    (("get", "logs", "--seq", "11"), "1 Error: Sequence 11 is not in archive logs: its last one is 10"),
    (("get", "logs", "--at", "2027-01-01"), "1 Error: Archive logs has no message stored at 2027-01-01T00:00:00"),
    (("next", "logs", "--subject", "x", "--after", "4"), "1 Error: Archive logs has no message of x after"),
    (("last", "logs", "--subject", "y"), "1 Error: Archive logs has no message of y. See the chunks of archive logs"),
    (("last", "logs", "--subject", "x", "--at", "2026-01-01"), "1 Error: Archive logs has no message of x stored"),
    (("ref", "logs", "--seq", "6"), "1 Error: Sequence 6 is not in archive logs: it was deleted"),
    (("next", "logs", "--subject", "a..b"), "2 Error: "),
    (("get", "logz", "--seq", "1"), "2 Error: There is no archive logz"),
    (("get", "logs", "--seq", "1", "--incarnation", "20200101T000000000000000Z"), "2 Error: Archive logs has no"),
    (("get", "logs", "--seq", "0"), "2 Error: "),
    (("ref", "logs", "--seq", "1", "--expires", "8d"), "2 Error: "),
)


def test_what_is_not_there_is_one_line_and_why(nats3: Command, archive: Archive) -> None:
    assert nats3.differences((("message", *words), said) for words, said in NOTHING) == []
    assert nats3.refused("message", "get", "logs").startswith("2 Error: Give one of --seq and --at")
    assert nats3.refused("message", "get", "logs", "--at", "soon").startswith(
        "2 Error: Invalid value for '--at': 'soon' is not a time"
    )


def test_a_server_gives_the_same(nats3: Command, archive: Archive, url: str) -> None:
    server = ("--server", url)
    for words in (
        ("get", "logs", "--seq", "1"),
        ("get", "logs", "--seq", "2"),
        ("get", "logs", "--seq", "3"),
        ("get", "logs", "--at", "2026-11-21T11:00:00Z"),
        ("next", "logs", "--subject", "logs.b", "--after", "2"),
        ("last", "logs", "--subject", "logs.*", "--at", "2026-11-21T10:30:00Z"),
        ("get", "logs", "--seq", "1", "--incarnation", LIFE.token),
    ):
        for form in ("table", "json", "raw"):
            assert nats3.ok(*server, "message", *words, "-o", form) == nats3.ok("message", *words, "-o", form)
    assert nats3.differences(((*server, "message", *words), said[:9]) for words, said in NOTHING) == []
    here, there = (nats3.ok(*at, "message", "ref", "logs", "--seq", "7", "-o", "json").json for at in ((), server))
    assert {**here, "url": 0, "expires_at": 0, "python": 0} == {**there, "url": 0, "expires_at": 0, "python": 0}
    assert "cannot ask" not in nats3.refused(*server, "message", "last", "logs", "--subject", ">", "--all")


def test_a_reference_is_a_url_and_how_to_read_it(nats3: Command, archive: Archive) -> None:
    shown = nats3.ok("message", "ref", "logs", "--seq", "4", "--expires", "10m", "-o", "json").json
    assert (shown["row"], shown["seq"], shown["row_group"]) == (3, 4, 0)
    assert "X-Amz-Expires=600" in shown["url"]
    out = nats3.ok("message", "ref", "logs", "--seq", "4").out
    assert "bytes" in out
    assert shown["key"] in out


def test_the_format_may_stand_before_it(nats3: Command, archive: Archive) -> None:
    assert nats3.ok("-o", "json", "message", "get", "logs", "--seq", "7").json["data"] == "Nw=="
