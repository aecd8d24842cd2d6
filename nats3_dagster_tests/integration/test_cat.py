"""`nats3 message cat`: every message of a selection once, whatever stops it, and on into the live stream."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nats3_dagster.dev.process import wait_for
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

COUNT = 3000


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """An archive `logs` of COUNT messages, three subjects in turn."""
    wire.create_stream("S", "logs.>")
    wire.publish([(f"logs.{seq % 3}", b"", b"%d" % seq) for seq in range(1, COUNT + 1)])
    archived(workspace, wire, "S", bucket, "logs")
    return workspace.catalog.archives.get("logs")


def seqs(lines: str | bytes) -> list[int]:
    return [json.loads(line)["seq"] for line in lines.splitlines()]


def cat(*words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "nats3_dagster.cli", "message", "cat", "logs", "-o", "json", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)


def test_it_prints_what_is_selected(nats3: Command, archive: Archive) -> None:
    def printed(*words: str) -> list[int]:
        return seqs(nats3.ok("message", "cat", "logs", "-o", "json", *words).out)

    assert printed() == list(range(1, COUNT + 1))
    assert printed("--sequences", "10-20", "--subject", "logs.0", "--subject", "logs.1") == [10, 12, 13, 15, 16, 18, 19]
    assert printed("--limit", "3", "--subject", "logs.2") == [2, 5, 8]
    assert printed("--from-time", "2030-01-01") == []
    assert nats3.ok("message", "cat", "logs", "--limit", "4", "-o", "raw").out == "1234"
    assert nats3.ok("message", "cat", "logs", "--limit", "1").out.startswith("[1] Subject: logs.1 Received: 20")
    assert nats3.ok("message", "cat", "logs", "--limit", "2", "-o", "yaml").out.count("---\n") == 2


def test_a_cursor_goes_on_where_it_ended(nats3: Command, archive: Archive, tmp_path: Path) -> None:
    at = ("message", "cat", "logs", "-o", "json", "--cursor", str(tmp_path / "at"), "--limit", "700")
    taken: Sequence[int] = []
    for more in ((), ("--subject", "logs.>"), ()):
        first = ("--subject", "logs.>") if not taken else more
        taken = [*taken, *seqs(nats3.ok(*at, *first).out)]
    assert taken == list(range(1, 2101))
    rest = nats3.ok("message", "cat", "logs", "-o", "json", "--cursor", str(tmp_path / "at")).out
    assert seqs(rest) == list(range(2101, COUNT + 1))
    assert nats3.ok(*at).out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["at"]
    assert nats3.refused(*at, "--subject", "logs.1").startswith("2 Error: The cursor is of another selection")
    (tmp_path / "at").write_text("nonsense")
    assert nats3.refused(*at).startswith("2 Error: 'nonsense' is not a cursor")
    assert nats3.refused(*at[:-3], str(tmp_path / "no" / "at")).startswith("2 Error: There is no folder")


def test_a_reader_that_has_enough_is_no_error(archive: Archive) -> None:
    command = f"{sys.executable} -m nats3_dagster.cli message cat logs -o json | head -2"
    ran = subprocess.run(command, shell=True, capture_output=True, timeout=60, env=os.environ, check=False)
    assert (seqs(ran.stdout), ran.stderr) == ([1, 2], b"")


def test_an_interrupt_leaves_neither_a_hole_nor_a_double(archive: Archive, tmp_path: Path) -> None:
    at = ("--cursor", str(tmp_path / "at"), "--follow")
    taken: list[int] = []
    for stop in (signal.SIGINT, signal.SIGTERM):
        with cat(*at) as process:
            assert process.stdout
            assert process.stderr
            taken.append(json.loads(process.stdout.readline())["seq"])  # it prints
            process.send_signal(stop)
            taken += seqs(process.stdout.read())
            assert process.wait(30) in (130, 143)
            assert process.stderr.read() == b"Interrupted\n"
        if len(taken) == COUNT:
            break
    with cat("--cursor", str(tmp_path / "at")) as process:
        taken += seqs(process.communicate(timeout=60)[0])
    assert taken == list(range(1, COUNT + 1))


@pytest.mark.timeout(120)
def test_following_goes_into_the_stream_and_through_the_next_capture(
    archive: Archive, workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with out.open("wb") as file:
        command = [sys.executable, "-m", "nats3_dagster.cli", "message", "cat", "logs", "--follow", "-o", "json"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, env=os.environ)
        try:
            assert wait_for(lambda: len(out.read_bytes().splitlines()) == COUNT, 60)
            wire.publish([("logs.new", b"", b"%d" % seq) for seq in range(100)])
            assert wait_for(lambda: len(out.read_bytes().splitlines()) == COUNT + 100, 60)
            archived(workspace, wire, "S", bucket, "logs")
            wire.publish([("logs.new", b"", b"%d" % seq) for seq in range(100)])
            assert wait_for(lambda: len(out.read_bytes().splitlines()) == COUNT + 200, 60)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert process.stderr
            process.stderr.close()
    assert seqs(out.read_bytes()) == list(range(1, COUNT + 201))


def test_what_was_lost_is_said(nats3: Command, wire: Wire, workspace: Workspace, bucket: str) -> None:
    wire.create_stream("S", "logs.>", max_msgs=10)
    for _ in range(2):  # of the second 20 messages the stream keeps 10
        wire.publish([("logs.a", b"", b"") for _ in range(20)])
        archived(workspace, wire, "S", bucket, "logs")
    ran = nats3("message", "cat", "logs", "-o", "json")
    assert (ran.status, seqs(ran.out)) == (1, list(range(11, 21)))  # what comes before the loss
    assert ran.error.startswith("Error: Sequences of the selection are not in archive logs: 21-30. ")
    assert ran.error.endswith("or take what there is with --over-gaps")
    assert seqs(nats3.ok("message", "cat", "logs", "-o", "json", "--over-gaps").out) == [*range(11, 21), *range(31, 41)]
