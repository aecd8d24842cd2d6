"""`nats3 table`: archives as Iceberg tables."""

from typing import Annotated, Any

import typer

from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.tables import table_views as views
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Format, show, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.watch import Watch, watched
from nats3_dagster.errors import TableError
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.tables import tables
from nats3_dagster.views import tables as documents
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.command()
def create(
    name: ArchiveName,
    catalog: Annotated[
        str,
        typer.Option(
            "--catalog", metavar="NAME|URL",
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
            "--location", metavar="URL",
            help="Where the table's metadata goes (default: iceberg/ARCHIVE under the archive's prefix).",
        ),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Make an Iceberg table of an archive, and fill it. From then on each capture adds its chunks."""
    from nats3_dagster.tables.sync import sync as sync_table

    with Workspace(Settings.load()) as workspace:
        known = tables.create(workspace, name, catalog=catalog, identifier=table, location=location)
        note(f"Created the table {known.identifier} in the Iceberg catalog {known.catalog}")
        view = documents.synced(known, sync_table(workspace, known))
    show_one(output, view, views.synced_lines(view))


@app.command()
def sync(
    name: ArchiveName,
    full: Annotated[bool, typer.Option("--full", help="Compare every file of the table with the archive.")] = False,
    output: Output = Format.table,
) -> None:
    """Make the table list exactly the live chunks. Captures and a sensor do it by themselves."""
    from nats3_dagster.tables.sync import sync as sync_table

    with Workspace(Settings.load()) as workspace:
        known = tables.find(workspace, name)
        view = documents.synced(known, sync_table(workspace, known, full=full))
    show_one(output, view, views.synced_lines(view))


@app.command()
def verify(name: ArchiveName, output: Output = Format.table) -> None:
    """Compare every file of the table with the archive: rows, sizes, hours, bounds. Exit status 1 if they differ."""
    from nats3_dagster.tables.verify import verify as verify_table

    with Workspace(Settings.load()) as workspace:
        known = tables.find(workspace, name)
        view = documents.verified(known, verify_table(workspace, known))
    show_one(output, view, views.verified_lines(view))
    for fault in view["faults"]:
        note(f"{fault['path']} {fault['what']}")
    if view["differences"]:
        raise TableError(
            f"The table {known.identifier} is not archive {known.archive}: {view['differences']} differences",
            Next.SYNC_TABLE_FULLY(archive=known.archive),
        )


@app.command("list")
def list_(watch: Watch = None, output: Output = Format.table) -> None:
    """All tables, and how far they are behind their archives (LAG, in chunks)."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with Workspace(settings) as workspace:
            return [documents.table(known) for known in tables.tables(workspace)]

    watched(watch, output, look, lambda items: show(output, items, views.LIST))


@app.command()
def get(name: ArchiveName, watch: Watch = None, output: Output = Format.table) -> None:
    """The table of an archive: where it is, what it was last made equal to, what it lacks, and why. The Iceberg catalog
    is not asked."""
    settings = Settings.load()

    def look() -> dict[str, Any]:
        with Workspace(settings) as workspace:
            return documents.table(tables.find(workspace, name))

    watched(watch, output, look, lambda view: show_one(output, view, views.lines(view)))


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
        known = tables.find(workspace, name)
        where = f"the table {known.identifier} of the Iceberg catalog {known.catalog}"
        confirm(f"This {'forgets' if forget else 'drops'} {where}; all chunks stay", yes)
        dropped = tables.drop(workspace, known, forget=forget)
    view = {"archive": known.archive, "catalog": known.catalog, "table": known.identifier, "dropped": dropped}
    show_one(output, view, view)
