"""Notes and progress on stderr, for people: a bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# A log of an hour's replay then has 360 lines.
LINE_EVERY_S = 10.0


def note(text: str) -> None:
    """A line for the person who waits."""
    print(printable(text), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """`text` on one line, with control characters spelled out."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(text.split("\n")))


@contextmanager
def bar(what: str, unit: str = "messages") -> Iterator[Callable[[int, int], None]]:
    """Gives the function to call with (done, total); any thread may call it."""
    with _bar(what, unit) if sys.stderr.isatty() else _lines(what, unit) as on_progress:
        yield on_progress


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Gives the function to call with (step, done, total); total 0: unknown. A step ends where the next begins."""
    current, on_progress = "", _ignore
    with ExitStack() as shown:

        def on_step(what: str, done: int, total: int) -> None:
            nonlocal current, on_progress
            if what != current:
                shown.close()
                current = what
                if total:
                    on_progress = shown.enter_context(bar(what))
                else:
                    shown.enter_context(step(what))
                    on_progress = _ignore
            on_progress(done, total)

        yield on_step


@contextmanager
def step(what: str) -> Iterator[None]:
    """Something that takes a while and has no numbers."""
    if not sys.stderr.isatty():
        note(f"{what} ...")
        yield
        return
    with Console(stderr=True).status(f"{what} ..."):
        yield


def _ignore(done: int, total: int) -> None:
    """For a step without numbers."""


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None, rate="")
        began = time.monotonic()

        def on_progress(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - began, 0.001)
            progress.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s")

        yield on_progress
        # The last report may be lost, and the work is done.
        progress.update(task, completed=progress.tasks[0].total or 0)


@contextmanager
def _lines(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    began = written_at = time.monotonic()

    def on_progress(done: int, total: int) -> None:
        nonlocal written_at
        now = time.monotonic()
        if now - written_at >= LINE_EVERY_S:
            written_at = now
            note(f"{what}: {done:,} of {total:,} {unit}, {done / (now - began):,.0f} a second")

    yield on_progress
