"""`nats3 table`: archives as Iceberg tables."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.tables import table_views as views
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Format, show, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.watch import Watch, watched
from nats3_dagster.documents.tables import DroppedTable, SyncedTable, Table, VerifiedTable
from nats3_dagster.errors import TableError
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.tables import tables
from nats3_dagster.tables.observe import observe
from nats3_dagster.workspace import Workspace

# While a list is watched, the Iceberg catalogs are asked again after this.
_WATCH_S = 10.0

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.command()
def create(
    name: ArchiveName,
    catalog: Annotated[
        str,
        typer.Option(
            "--catalog",
            metavar="NAME|URL",
            help="The Iceberg catalog: a name in pyiceberg's configuration, or the address of a REST catalog or a Hive "
            "metastore. nats3, if it is not configured, is in the same Postgres.",
        ),
    ] = tables.DEFAULT,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAMESPACE.NAME", help="Name of the table (default: nats3.ARCHIVE)."),
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(
            "--location",
            metavar="URL",
            help="Where the table's metadata goes (default: iceberg/ARCHIVE under the archive's prefix).",
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Drop the table that nats3 made there for a former archive; its files stay."),
    ] = False,
    output: Output = Format.table,
) -> None:
    """Make an Iceberg table of an archive, and fill it. From then on each capture adds its chunks."""
    from nats3_dagster.tables.sync import sync as sync_table

    with Workspace(Settings.load()) as workspace:
        known = tables.create(workspace, name, catalog=catalog, identifier=table, location=location, replace=replace)
        note(f"Created the table {known.identifier} in the Iceberg catalog {known.catalog}")
        view = SyncedTable.of(known, sync_table(workspace, known)).plain()
    show_one(output, view, views.synced_lines(view))


@app.command()
def sync(
    name: ArchiveName,
    full: Annotated[
        bool, typer.Option("--full", help="Compare every file, and undo changes of other programs.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Make the table list exactly the live chunks. Captures and a sensor do it by themselves. A table that another
    program changed is left as it is, and the change is named; --full undoes it."""
    from nats3_dagster.tables.sync import sync as sync_table

    with Workspace(Settings.load()) as workspace:
        known = tables.find(workspace, name)
        view = SyncedTable.of(known, sync_table(workspace, known, full=full)).plain()
    show_one(output, view, views.synced_lines(view))
    if view["undone"]:
        note(f"Undone, of another program: {view['undone']}")
    for path in view["rewritten_files"]:
        note(f"{path} is no longer in the table; older snapshots still list it, and it stays in the store")
    if view["rewritten"] > len(view["rewritten_files"]):
        note(f"{view['rewritten']:,} such files in all")
    _note_guard(view)


@app.command()
def verify(name: ArchiveName, output: Output = Format.table) -> None:
    """Compare every file of the table with the archive: rows, sizes, hours, bounds. Exit status 1 if they differ."""
    from nats3_dagster.tables.tables import inspect

    with Workspace(Settings.load()) as workspace:
        known = tables.find(workspace, name)
        seen, found = inspect(workspace, known)
        view = VerifiedTable.of(known, seen, found).plain()
    show_one(output, view, views.verified_lines(view))
    for fault in view["faults"]:
        note(f"{fault['path']} {fault['what']}")
    if view["changed"]:
        note(f"Another program changed the table: {view['changed']}")
    _note_guard(view)
    if view["differences"]:
        # A sync removes and adds data files; delete files of another program stay.
        is_beyond_sync = any(fault.is_foreign for fault in found.faults)
        step = Next.FORGET_TABLE if is_beyond_sync else Next.SYNC_TABLE_FULLY
        raise TableError(
            f"The table {known.identifier} is not archive {known.archive}: {view['differences']} differences",
            step(archive=known.archive),
        )


def _note_guard(view: dict[str, Any]) -> None:
    if view["was_unguarded"]:
        note("The table did not have gc.enabled=false, which keeps other engines from deleting chunks: it is set back")


@app.command("list")
def list_(watch: Watch = None, output: Output = Format.table) -> None:
    """All tables, and their lag after their archives (LAG, in chunks; or changed, by another program)."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with Workspace(settings) as workspace:
            _observe(workspace, workspace.catalog.tables.all(), watch)
            return [Table.of(known).plain() for known in workspace.catalog.tables.all()]

    watched(watch, output, look, lambda items: show(output, items, views.LIST))


@app.command()
def get(name: ArchiveName, watch: Watch = None, output: Output = Format.table) -> None:
    """The table of an archive: its address, its last sync, its missing chunks and the reason, and the effects of other
    programs on it."""
    settings = Settings.load()

    def look() -> dict[str, Any]:
        with Workspace(settings) as workspace:
            _observe(workspace, [tables.find(workspace, name)], watch)
            return Table.of(tables.find(workspace, name)).plain()

    watched(watch, output, look, lambda view: show_one(output, view, views.lines(view)))


def _observe(workspace: Workspace, known: Sequence[ArchiveTable], watch: object) -> None:
    """Ask the Iceberg catalogs; one that does not answer is named, and what is known of it is shown."""
    for seen in observe(workspace, known, age_s=_WATCH_S if watch is not None else 0.0):
        if seen.error and watch is None:
            note(f"The table {seen.table.identifier} was not asked: {seen.error.what}")
        if seen.was_unguarded:
            _note_guard({"was_unguarded": True})


@app.command()
def drop(
    name: ArchiveName,
    yes: Yes = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Do not ask the Iceberg catalog: it is gone for good.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Drop the table of an archive. The archive keeps all of its chunks."""
    with Workspace(Settings.load()) as workspace:
        known = tables.find_any(workspace, name)
        where = f"the table {known.identifier} of the Iceberg catalog {known.catalog}"
        where += " (of a deleted archive)" if known.archive_deleted else ""
        confirm(f"This {'forgets' if forget else 'drops'} {where}; all chunks stay", yes)
        dropped = tables.drop(workspace, known, forget=forget)
    view = DroppedTable.of(known, dropped=dropped).plain()
    show_one(output, view, view)
