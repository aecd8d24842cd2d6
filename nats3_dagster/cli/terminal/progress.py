"""Notes and progress on stderr, for people: a bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from nats3_dagster.cli.terminal.wrapping import error_width, wrapped
from nats3_dagster.model import OnProgress

# A log of an hour's replay then has 360 lines.
LINE_EVERY_S = 10.0
# Columns to the right of a bar.
_ROOM = 2
_shown = True


@contextmanager
def shown_progress(wanted: bool) -> Iterator[None]:
    """Shows or hides bars, steps and lines of progress; notes are always shown."""
    global _shown
    before, _shown = _shown, wanted
    try:
        yield
    finally:
        _shown = before


def note(text: str) -> None:
    """A line for the person who waits."""
    print(printable(text), file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """A closing sentence: on a terminal its lines break at white space."""
    for line in wrapped(printable(text), error_width()):
        note(line)


def printable(text: str) -> str:
    """`text` on one line, with control characters spelled out."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(text.split("\n")))


def printable_lines(text: str) -> str:
    """`text` with its line ends, and other control characters spelled out."""
    return "\n".join(map(printable, text.splitlines()))


class OnCount(Protocol):
    """A function to call with the progress. Any thread may call it."""

    def __call__(self, done: int, total: int, note: str = "", /) -> None: ...


@contextmanager
def bar(what: str, unit: str = "messages", *, passing: bool = False) -> Iterator[OnCount]:
    """Gives the function to call with (done, total), and with a note while nothing moves. A `passing` bar is cleared
    from the terminal at its end: one of many."""
    if not _shown:
        yield _ignore
        return
    with _bar(what, unit, passing) if sys.stderr.isatty() else _lines(what, unit) as on_count:
        yield on_count


@contextmanager
def progress_bar(what: str, *, passing: bool = False) -> Iterator[OnProgress]:
    """Gives the function to call with the progress of a capture or a replay; `passing`: see bar."""
    with bar(what, passing=passing) as on_count:
        yield lambda p: on_count(p.done, p.total, p.note)


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Gives the function to call with (step, done, total); total 0: unknown. A step ends where the next begins."""
    current = ""
    on_count: OnCount = _ignore
    with ExitStack() as shown:

        def on_step(what: str, done: int, total: int) -> None:
            nonlocal current, on_count
            if what != current:
                shown.close()
                current = what
                if total:
                    on_count = shown.enter_context(bar(what))
                else:
                    shown.enter_context(step(what))
                    on_count = _ignore
            on_count(done, total)

        yield on_step


@contextmanager
def step(what: str) -> Iterator[None]:
    """Shows something that takes a while and has no numbers."""
    if not _shown:
        yield
        return
    if not sys.stderr.isatty():
        note(f"{what} ...")
        yield
        return
    with Console(stderr=True).status(f"{what} ..."):
        yield


def _ignore(done: int, total: int, note: str = "") -> None:
    """Shows nothing: for a step without numbers, and when no progress is shown."""


class _Middle(BarColumn):
    """The bar, or the task's note in its place."""

    def render(self, task: Task) -> Any:
        note = Text(task.fields["note"], no_wrap=True, overflow="ellipsis")
        return note if note else super().render(task)


class _Pace(TimeRemainingColumn):
    """The pace, and the time that is left; nothing beside a note: neither is known."""

    def render(self, task: Task) -> Text:
        pace = task.fields["pace"]
        return Text.assemble(pace, " ", super().render(task)) if pace else Text("")


@contextmanager
def _bar(what: str, unit: str, passing: bool) -> Iterator[OnCount]:
    columns = (
        TextColumn("{task.description}", markup=False),
        _Middle(None, table_column=Column(max_width=40)),
        TextColumn("{task.fields[count]}"),
        _Pace(table_column=Column(no_wrap=True)),
    )
    console = Console(stderr=True)
    # The terminal writes ^C where the bar ends: on a line without room for it the bar would stand twice.
    console.width -= _ROOM
    with Progress(*columns, console=console, transient=passing) as progress:
        # Shown once its numbers are known: a bar without a total looks full.
        task = progress.add_task(what, total=None, visible=False, count="", pace="", note="")
        began = time.monotonic()

        def on_count(done: int, total: int, note: str = "") -> None:
            nonlocal began
            # Spark takes seconds to start the tasks: they do not count.
            began = began if done else time.monotonic()
            rate = done / max(time.monotonic() - began, 0.001)
            progress.update(
                task,
                completed=done,
                total=total,
                visible=True,
                count=f"{done:,}/{total:,}",
                note=printable(note),
                pace="" if note else f"{unit} {rate:,.0f}/s",
            )

        yield on_count


@contextmanager
def _lines(what: str, unit: str) -> Iterator[OnCount]:
    began = written_at = time.monotonic()

    def on_count(done: int, total: int, note_: str = "") -> None:
        nonlocal began, written_at
        now = time.monotonic()
        began = began if done else now
        if now - written_at >= LINE_EVERY_S:
            written_at = now
            end = f"; {note_}" if note_ else f", {done / max(now - began, 0.001):,.0f} a second"
            note(f"{what}: {done:,} of {total:,} {unit}{end}")

    yield on_count
