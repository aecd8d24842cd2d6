"""Progress on stderr: a bar on a terminal, a line now and then in a log.

The rule kept here: for eyes only. Nothing is written where nobody waits, and nothing on stdout.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from nats3_dagster.cli.terminal import note

# A log of an hour's replay then has 360 lines.
LINE_EVERY_S = 10.0


@contextmanager
def bar(what: str, unit: str = "messages") -> Iterator[Callable[[int, int], None]]:
    """Gives the function that hears (done, total); any thread may call it."""
    with _bar(what, unit) if sys.stderr.isatty() else _lines(what, unit) as told:
        yield told


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Gives the function that hears (step, done, total); total 0: nobody knows. A step ends where the next begins."""
    current, told = "", _nobody
    with ExitStack() as shown:

        def tell(what: str, done: int, total: int) -> None:
            nonlocal current, told
            if what != current:
                shown.close()
                current = what
                if total:
                    told = shown.enter_context(bar(what))
                else:
                    shown.enter_context(step(what))
                    told = _nobody
            told(done, total)

        yield tell


@contextmanager
def step(what: str) -> Iterator[None]:
    """Something that takes a while and cannot say how far it is."""
    if not sys.stderr.isatty():
        note(f"{what} ...")
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield


def _nobody(done: int, total: int) -> None:
    """Hears of a step that shows no numbers."""


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None, rate="")
        began = time.monotonic()

        def told(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - began, 0.001)
            progress.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s")

        yield told
        # The last report may be lost, and the work is done.
        progress.update(task, completed=progress.tasks[0].total or 0)


@contextmanager
def _lines(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    began = said_at = time.monotonic()

    def told(done: int, total: int) -> None:
        nonlocal said_at
        now = time.monotonic()
        if now - said_at >= LINE_EVERY_S:
            said_at = now
            note(f"{what}: {done:,} of {total:,} {unit}, {done / (now - began):,.0f} a second")

    yield told
