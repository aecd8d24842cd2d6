"""`nats3 message cat`: the messages of a selection, in order; a cursor in a file says how far it came.

Invariant: the file says that a message was printed only after it was handed to stdout, and an interrupt leaves both as
they agree. A process that is killed in between prints its last part again.
"""

import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from nats3_dagster.archive.read import answers
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.cli.reads import message_output as output_of
from nats3_dagster.cli.reads.message_output import MessageFormat, Text
from nats3_dagster.cli.reads.selecting import (
    FromTime,
    OverGaps,
    Sequences,
    Subjects,
    ToTime,
    note_removed,
    selection_of,
)
from nats3_dagster.cli.terminal.options import ArchiveName, Hours
from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.model import Message, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# What is printed between two looks at signals, and between two writes of the cursor.
_PART_BYTES = 1 << 20
# A cursor has some hundred bytes.
_MOST_BYTES = 1 << 20


def cat(
    name: ArchiveName,
    hour: Hours = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    sequences: Sequences = None,
    subject: Subjects = None,
    over_gaps: OverGaps = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue into the live stream, and wait for new messages.")
    ] = False,
    cursor: Annotated[
        Path | None,
        typer.Option("--cursor", metavar="FILE", help="Save the position in this file, and continue from there."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="COUNT", help="At most this many messages.")
    ] = None,
    text: Text = False,
    output: output_of.Output = MessageFormat.table,
) -> None:
    """Print all messages of a selection, in stream order; in json one per line."""
    selection = selection_of(hour, from_time, to_time, sequences, subject)
    with Workspace(Settings.load()) as workspace:
        saved = _saved(cursor)
        if saved is None:
            reading = answers.cursor(workspace, name, selection, over_gaps=over_gaps)
        else:
            reading = answers.resumed(workspace, name, saved)
            _check_same(reading.selection, selection, from_time, to_time)
        if follow:  # which has no end
            note_removed(reading.removed())
        _print(reading, follow, limit, lambda message: output_of.rendered(output, message, text, many=True), cursor)
        if not follow:
            note_removed(reading.removed())


def _print(
    reading: Cursor, follow: bool, limit: int | None, render: Callable[[Message], bytes], file: Path | None
) -> None:
    left = limit
    for batch in reading.batches(follow=follow):
        messages = answers.messages_of(reading, batch if left is None else batch.slice(0, left))
        for part, last in _parts(messages, render):
            with _unbroken():
                _write(part)
                reading.advance(last)
                if file is not None:
                    _save(file, reading.token())
        if left is not None:
            left -= min(left, batch.num_rows)
            if not left:
                return
    if file is not None:  # also past what was not selected
        _save(file, reading.token())


def _write(part: bytes) -> None:
    """All of it, whatever signals come: a buffered writer gives up what is left when one interrupts it."""
    sys.stdout.flush()
    rest = memoryview(part)
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]


def _parts(messages: Iterator[Message], render: Callable[[Message], bytes]) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yields the output, with sequence and store time of its last message."""
    part, last = bytearray(), (0, 0)
    for message in messages:
        part += render(message)
        last = message.seq, message.time_ns
        if len(part) >= _PART_BYTES:
            yield bytes(part), last
            part.clear()
    if last[0] and part:
        yield bytes(part), last


@contextmanager
def _unbroken() -> Generator[None]:
    """A first interrupt waits for the end of this, a second one does not: stdout may be blocked."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = list[int]()

    def note(number: int, frame: FrameType | None) -> None:
        if waiting:
            raise KeyboardInterrupt
        waiting.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in waiting:
        signal.raise_signal(number)


def _saved(file: Path | None) -> str | None:
    """The cursor in the file; None where there is none yet."""
    if file is None:
        return None
    try:
        with file.open("rb") as source:
            return source.read(_MOST_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        if not file.absolute().parent.is_dir():
            raise OperatorError(f"There is no folder {file.parent}", "Create it, or choose another file") from None
        return None
    except OSError as error:
        raise EngineError(f"{file} cannot be read: {error.strerror}", "Choose another file") from error


def _save(file: Path, token: str) -> None:
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x") as out:
            out.write(token + "\n")
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    except OSError as error:
        raise EngineError(f"{file} cannot be written: {error.strerror}", "Choose another file") from error
    finally:
        draft.unlink(missing_ok=True)


def _check_same(saved: Selection, given: Selection, from_time: str | None, to_time: str | None) -> None:
    """Raises OperatorError if the options select other messages than the cursor. Times before now are times of the
    first call."""

    def differs(text: str | None, saved_ns: int | None, given_ns: int | None) -> bool:
        return text is not None and not text.startswith("-") and saved_ns != given_ns

    if (
        (given.hours and given.hours != saved.hours)
        or (given.sequences and given.sequences != saved.sequences)
        or (given.subjects and given.subjects != saved.subjects)
        or differs(from_time, saved.from_ns, given.from_ns)
        or differs(to_time, saved.to_ns, given.to_ns)
    ):
        raise OperatorError(
            "The cursor is of another selection than the options give",
            "Leave the options out to go on with it, or give another file to start again",
        )
