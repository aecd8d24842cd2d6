"""Options that select messages of an archive, as commands that read it share them."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from nats3_dagster.archive.selected.removed import Removed
from nats3_dagster.cli.terminal.options import parse_time_text
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.model import Selection

FromTime = Annotated[
    str | None,
    typer.Option(
        "--from-time",
        metavar="TIME",
        parser=parse_time_text,
        help="From this time on: 2026-11-21T07:00:00Z or -2h.",
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option("--to-time", metavar="TIME", parser=parse_time_text, help="Up to before this time."),
]
Sequences = Annotated[str | None, typer.Option("--sequences", metavar="A-B", help="Sequences, both included.")]
Subjects = Annotated[
    list[str] | None,
    typer.Option("--subject", metavar="FILTER", help="Only these subjects (NATS filter). May be given several times."),
]
OverGaps = Annotated[bool, typer.Option("--over-gaps", help="Use the archived messages even if others were lost.")]


def selection_of(
    hours: Sequence[str] | None,
    from_time: str | None,
    to_time: str | None,
    sequences: str | None,
    subjects: Sequence[str] | None,
) -> Selection:
    """Returns the selection that these options make together. Raises OperatorError."""
    return Selection.parse(hours=hours, from_time=from_time, to_time=to_time, sequences=sequences, subjects=subjects)


def note_removed(parts: Iterable[Removed]) -> None:
    """A line for each reason why messages of the selection were removed: nothing else tells them from none."""
    for part in parts:
        note(f"Not in archive {part.archive} any more: {part.text}")
