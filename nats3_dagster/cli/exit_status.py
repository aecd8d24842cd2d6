"""The end of a command: an exit status, and one line on stderr when it is not 0.

Invariant: the text of an unforeseen exception is not shown, for it may hold anything, a password included. `--debug`
shows all of it.
"""

import errno
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from nats3_dagster.cli.terminal.progress import note, printable_lines
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.errors import Nats3Error
from nats3_dagster.plausible import secret_in
from nats3_dagster.redaction import redact_logs, redacted
from nats3_dagster.steps import Next

INTERRUPTED, TERMINATED = 130, 143
# Of the file that stdout is, or of a temporary one.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Loggers that at DEBUG write what they send: session tokens of S3, and the functions of tasks with their logins.
_TELLING = ("botocore", "boto3", "py4j")


def run(command: Callable[[], object], *, debug: bool = False, words: Mapping[Next, str] = WORDS) -> int:
    """Run the command; its exit status. `words`: of the next steps of errors."""
    with _termination() as terminated:
        status = _run(command, debug, words)
    return TERMINATED if status == INTERRUPTED and terminated.is_set() else status


def _run(command: Callable[[], object], debug: bool, words: Mapping[Next, str]) -> int:
    try:
        with _logs(debug=debug):
            status = command()
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        _forget_output()
        return 1
    except BaseException as error:
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        if debug:
            print(printable_lines(redacted(traceback.format_exc())), file=sys.stderr)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _forget_output()
        line, status = _ending(error, words)
        if line:
            note(redacted(line))
        return status
    if status == INTERRUPTED:
        note("Interrupted")
    return status if isinstance(status, int) else 0


def _ending(error: BaseException, words: Mapping[Next, str]) -> tuple[str, int]:
    """The line, or an empty one, and the exit status."""
    match error:
        case Nats3Error():
            return f"Error: {error.text_in(words)}", error.exit_status
        case typer.TyperException():
            at = getattr(getattr(error, "ctx", None), "command_path", "nats3")
            message = error.format_message().rstrip(".").replace("Value error, ", "")
            if kind := secret_in(message):  # such a message repeats the word at fault
                message = f"An argument holds {kind}, and is not what the command takes"
            # It is empty where the help was shown instead.
            stop = "" if message.endswith("?") else "."
            return message and f"Error: {message}{stop} See {at} --help", error.exit_code
        case typer.Abort() | KeyboardInterrupt():
            return "Interrupted", INTERRUPTED
        case ModuleNotFoundError(name=str(name)) if not name.startswith("nats3_dagster"):
            lacks = f"This installation has no {name.partition('.')[0]}, which the command needs"
            return f"Error: {lacks}. Install nats3-dagster; nats3-reader has only what reads archives", 1
        case OSError(errno=number) if number in _NO_ROOM:
            # The stores' own files have errors of their own: this is the output, or a temporary file.
            return f"Error: A file could not be written whole: {os.strerror(number)}. Make room, then run it again", 1
        case _:
            return f"Error: internal error, {type(error).__name__} {_where(error)}. Run it again with --debug", 1


def _forget_output() -> None:
    """Drop what is still to be written to stdout. Without this, Python tries once more when it exits, complains, and
    has another exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _where(error: BaseException) -> str:
    """The last line of our own code that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "nats3_dagster" in f.filename] or frames
    return f"in {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "somewhere"


@contextmanager
def _termination() -> Iterator[threading.Event]:
    """SIGTERM ends a command as Ctrl-C does: a replay stops publishing and says so in the catalog."""
    terminated = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        terminated.set()
        # Not SIGINT itself: a shell's background process ignores it.
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield terminated
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield terminated
    finally:
        signal.signal(signal.SIGTERM, before)


def end_by_interrupts() -> None:
    """SIGINT ends this process from now on also where it was ignored: a shell's script starts a process in the
    background so. What this process starts gets the signal's default again, and not the one that is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Lines(logging.Formatter):
    """Log records may have names of others: nothing in them moves the cursor."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


@contextmanager
def _logs(*, debug: bool) -> Iterator[None]:
    """Shows our own warnings as lines on stderr. We report in our own words what libraries log: it is shown with
    `--debug` only."""
    redact_logs()
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(name)s: %(message)s" if debug else "Warning: %(message)s"))
    logger = logging.getLogger() if debug else logging.getLogger("nats3_dagster")
    level, propagate, root = logger.level, logger.propagate, logging.getLogger()
    quiet = logging.NullHandler()  # else logging's last resort prints what has no handler
    logger.addHandler(handler)
    root.addHandler(quiet)
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    for name in _TELLING:
        logging.getLogger(name).setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        root.removeHandler(quiet)
        logger.setLevel(level)
        logger.propagate = propagate
