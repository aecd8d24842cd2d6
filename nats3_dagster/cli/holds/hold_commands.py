"""`nats3 hold`: hours and sequences of an archive that nothing removes."""

from typing import Annotated

import typer

from nats3_dagster.archive.keep import holds
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.reads.selecting import FromTime, Sequences, ToTime, selection_of
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveName, Hours, Output
from nats3_dagster.cli.terminal.output import Columns, Format, Prose, Size, counted, show, show_one, when
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.holds import Hold
from nats3_dagster.documents.keeping import DeletedHold, PlacedHold
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
HoldName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the hold.")]
_LIST: Columns = {
    "NAME": lambda h: h["name"],
    "HOURS": lambda h: _span(h["first_hour"], h["last_hour"]),
    "SEQUENCES": lambda h: _span(h["first_seq"], h["last_seq"]),
    "PLACED": lambda h: when(h["created"]),
    "BY": lambda h: h["placed_by"],
    "REASON": lambda h: Prose(h["reason"]),
}


@app.command()
def create(
    archive: ArchiveName,
    name: HoldName,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why these messages must stay.")],
    hour: Hours = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    sequences: Sequences = None,
    output: Output = Format.table,
) -> None:
    """Hold hours or sequences of an archive; without a selection all of it. Times hold the whole hours that have them.

    Until the hold is deleted nothing removes these messages: no expiry, no replay that deletes what it published, no
    deletion of the archive; their objects stay too. Chunks may be replaced by others with the same messages."""
    with Workspace(Settings.load()) as workspace:
        selection = selection_of(hour, from_time, to_time, sequences, None)
        placed = holds.place(workspace, archive, name, selection, reason)
    view = PlacedHold.of_placed(placed).plain()
    lines = {
        "hold": name,
        "hours": _span(view["first_hour"], view["last_hour"]),
        "sequences": _span(view["first_seq"], view["last_seq"]),
        "placed by": view["placed_by"],
        "held chunks": view["held_chunks"],
        "stored": Size(view["held_bytes"]),
    }
    show_one(output, view, lines)
    if placed.removed:
        note(f"Up to {counted(placed.removed, 'message')} of it had been removed before, and no hold brings them back")


@app.command("list")
def list_(archive: ArchiveName, output: Output = Format.table) -> None:
    """The holds of an archive, the oldest first."""
    with Workspace(Settings.load()) as workspace:
        found = workspace.catalog.holds.all(workspace.catalog.archives.get(archive))
    show(output, [Hold.of(one).plain() for one in found], _LIST)


@app.command()
def delete(
    archive: ArchiveName,
    name: HoldName,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why these messages need not stay.")],
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Delete a hold. What should have expired then expires, and objects that waited for it are swept.

    The hold rebuilt is that of an archive that was made again from its bucket: the settings that were found there are
    not confirmed. Look at keep, holds and copies of nats3 store get before you delete it."""
    with Workspace(Settings.load()) as workspace:
        found = workspace.catalog.archives.get(archive)
        confirm(f"What the hold {name} of archive {found.name} covers may be removed then", yes)
        holds.release(workspace, found.name, name, reason)
    view = DeletedHold(archive=found.name, name=name, reason=reason).plain()
    show_one(output, view, {"deleted": name})


def _span(first: object, last: object) -> str:
    if first is None and last is None:
        return "all"
    return str(first) if first == last else f"{first or 'the first'} to {last or 'the last'}"
