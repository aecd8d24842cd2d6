"""`--interactive`: questions on a terminal, each answer checked at once."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow


class Screen:
    """A command on a terminal of its own; its stdout is a pipe."""

    def __init__(self, terminal: int, process: "subprocess.Popen[str]") -> None:
        self._terminal, self._process = terminal, process
        self.shown = ""
        self._from = 0

    def answer(self, question: str, text: str) -> None:
        """Wait until this is shown, behind what was answered last, and type the text."""
        until = time.monotonic() + 20
        while (at := self.shown.find(question, self._from)) < 0:
            assert time.monotonic() < until, " ".join(self.shown[-600:].split())
            self._read()
        self._from = at + len(question)
        os.write(self._terminal, text.encode())

    def end(self) -> tuple[int, str]:
        """The exit status, and stdout."""
        assert self._process.stdout
        with suppress(OSError):
            while self._process.poll() is None:
                self._read()
        return self._process.wait(60), self._process.stdout.read()

    def _read(self) -> None:
        if select.select([self._terminal], [], [], 0.1)[0]:
            raw = os.read(self._terminal, 65536).decode(errors="replace")
            if "\x1b[6n" in raw:  # prompt_toolkit asks where the cursor is
                os.write(self._terminal, b"\x1b[1;1R")
            self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw)


@contextmanager
def screen(*words: str) -> Iterator[Screen]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 200))
    process = subprocess.Popen(
        [sys.executable, "-m", "nats3_dagster.cli", *words],
        stdin=slave,
        stderr=slave,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Screen(master, process)
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
        os.close(master)


CLEAR = "\x15"  # Ctrl-U


@pytest.mark.timeout(240)
def test_an_archive_is_created_by_answers(nats3: Command, settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    with screen("store", "create", "-i", "--max-age", "5s") as terminal:
        terminal.answer("Name of the archive", " bad\r")
        terminal.answer("' bad' is not a name", f"{CLEAR}job-1\r")
        terminal.answer("Stream to archive", "EV\r")
        terminal.answer("Subjects", f"{CLEAR}ev..a\r")
        terminal.answer("is not a subject filter", f"{CLEAR}ev.a\r")
        terminal.answer("Bucket for the chunks", f"{bucket}\r")
        terminal.answer("Key prefix", "\r")
        terminal.answer("This creates an archive. Go on?", "y\n")
        status, out = terminal.end()
    assert status == 0, terminal.shown
    assert out.lstrip(" ").startswith("archive        job_1\n")  # and no question
    made = nats3.ok("store", "get", "job-1", "-o", "json").json
    assert (made["stream"], made["subjects"], made["prefix"], made["max_age_s"]) == ("EV", ["ev.a"], None, 5)
    with screen("store", "delete", "--interactive") as terminal:
        terminal.answer("Archive to delete", "\r")
        terminal.answer("This deletes archive job_1", "n\n")
        assert terminal.end()[0] == 2
    assert len(nats3.ok("store", "list", "-o", "json").json) == 1


def test_without_a_terminal_nothing_is_asked(nats3: Command, settings: Settings) -> None:
    assert nats3.refused("store", "create", "-i") == (
        "2 Error: There is no terminal to ask on. Leave out --interactive, and give all as options"
    )
    assert nats3.refused("load", "create", "--interactive").startswith("2 Error: There is no terminal to ask on")
