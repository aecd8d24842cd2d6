"""`nats3 catalog`: a dump of it, and archives made again from their objects."""

from typing import Annotated

import typer

from nats3_dagster.archive.recovery import moving
from nats3_dagster.archive.recovery import rebuild as use_case
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, print_document, show, show_one, text_of
from nats3_dagster.cli.terminal.progress import note, remark, step
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.recovery import DumpedCatalog, RebuiltArchive, RebuiltCatalog
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
_COLUMNS: Columns = {
    "ARCHIVE": lambda r: r["archive"],
    "STATE": lambda r: r["state"],
    "CHUNKS": lambda r: r["chunks"],
    "MESSAGES": lambda r: r["messages"],
    "GAPS": lambda r: r["gaps"],
    "SEALED": lambda r: r["sealed"],
    "CHANGED": lambda r: r["changed"],
    "UNLISTED": lambda r: r["unlisted"],
    "MISSING": lambda r: len(r["missing"]),
}


@app.callback()
def catalog() -> None:
    """The catalog in Postgres as a whole."""


@app.command()
def rebuild(
    bucket: Annotated[str, typer.Option("--bucket", metavar="BUCKET", help="The bucket that has the archives.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ARCHIVE", help="Only these archives. Default: all.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Key prefix of the archives.")] = "",
    verify: Annotated[
        bool, typer.Option("--verify", help="Read whole objects, and compare them with the hashes in manifests.")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Leave out chunks that manifests name and that cannot be read.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what there is, and write nothing.")] = False,
    output: Output = Format.table,
) -> None:
    """Make the catalog's archives again from a bucket: from footers of chunks, manifests and the folder's settings.

    For a catalog that is lost: run nats3 migrate on an empty database first. The archives become the owners of their
    folders: the catalog that had them before, if it is still there, may then neither capture into them nor purge
    them. Archives that the catalog has already stay as they are."""
    with Workspace(Settings.load()) as workspace, step("Reading the bucket"):
        rebuilt = [
            RebuiltArchive.of(one, WORDS)
            for one in use_case.rebuild(
                workspace, bucket, prefix, names or (), whole=verify, accept_loss=accept_loss, dry_run=dry_run
            )
        ]
    document = RebuiltCatalog(archives=rebuilt, unknown=list(use_case.UNKNOWN), dry_run=dry_run).plain()
    if output is Format.table:
        show(output, document["archives"], _COLUMNS)
    else:
        print_document(output, document)
    for one in rebuilt:
        _say(one)
    if any(one.state == "rebuilt" for one in rebuilt):
        note("Not known, because no object says it:")
        for line in use_case.UNKNOWN:
            note(f"  {line}")
    if dry_run:
        note("A dry run: nothing was written")
    if refused := [one for one in rebuilt if one.state == "refused"]:
        raise ChunkError(
            f"{len(refused)} of {len(rebuilt)} archives were not made again: "
            + "; ".join(f"{one.archive}: {one.error}" for one in refused[:5]),
            refused[0].hint or "",
        )


@app.command()
def dump(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write. There may be none yet.")],
    output: Output = Format.table,
) -> None:
    """Write the whole catalog into one file, as it is at one moment; captures and replays go on meanwhile.

    The messages stay in the bucket, and Dagster's own tables are not in the file."""
    with step("Reading the catalog"):
        dumped = moving.dump(Settings.load(), file)
    _show_dump(dumped, output)


@app.command()
def load(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that nats3 catalog dump wrote.")],
    output: Output = Format.table,
) -> None:
    """Put a dump into an empty catalog of the same release: all of it, or nothing.

    The loaded catalog owns the folders that the dumped one owns: stop whatever uses that one first."""
    with step("Writing the catalog"):
        loaded = moving.load(Settings.load(), file)
    _show_dump(loaded, output)
    note("Do not use the catalog that was dumped any more: nats3 cannot tell the two apart")


def _say_settings(one: RebuiltArchive) -> None:
    """Show the settings that remove or copy messages: another program may have changed them in the bucket."""
    settings = {setting.name: setting for setting in settings_of(ArchiveSpec)}
    keep = {"keep_s": one.keep_s, "keep_bytes": one.keep_bytes}
    kept = [f"{settings[name].label} {text_of(settings[name].shown(value))}" for name, value in keep.items() if value]
    remark(f"{one.archive}: {', '.join(kept) or 'keeps all'}; copies: {', '.join(one.copies) or 'none'}")
    for hold in one.holds:
        remark(f"{one.archive}: hold {hold.name} by {hold.placed_by}: {hold.reason}")
    if not one.holds:
        remark(f"{one.archive}: no holds")
    remark(
        f"{one.archive}: until you say that this is right, nothing leaves it and nothing is copied. "
        f"{Next.CHECK_REBUILT(archive=one.archive, hold=REBUILT).worded(WORDS)}"
    )


def _show_dump(dumped: moving.Dumped, output: Format) -> None:
    document = DumpedCatalog.of(dumped)
    show_one(output, document.plain(), {name: rows for name, rows in document.rows.items() if rows})


def _say(one: RebuiltArchive) -> None:
    if one.state == "rebuilt":
        _say_settings(one)
    for text in filter(None, (one.settings, one.stream, one.erasures)):
        remark(f"{one.archive}: {text}")
    for left in one.missing:
        note(f"{one.archive}: left out: {left.reason}")
    for left in one.refused:
        note(f"{one.archive}: not taken: {left.key}: {left.reason}")
    if one.unlisted:
        remark(
            f"{one.archive}: {one.unlisted:,} objects are not chunks of it: they were replaced or retired, or their "
            f"capture did not end. What they have and the archive has not: {Next.ADOPT(archive=one.archive).command}"
        )
