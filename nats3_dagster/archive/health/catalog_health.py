"""Postgres, the clocks, tables and exports: does the catalog keep what it commits, and does the rest keep up?"""

from collections.abc import Iterator

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.status import outputs
from nats3_dagster.catalog.session.health import health
from nats3_dagster.catalog.session.refusals import incomplete
from nats3_dagster.catalog.session.schema import VERSION
from nats3_dagster.errors import Nats3Error
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.model.export import ExportLag
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

AREA = "postgres"
CLOCKS = "clocks"
TABLES, EXPORTS, REBUILDS = "tables", "exports", "rebuilds"


def check(settings: Settings) -> Iterator[Finding]:
    """Version, extension, migrations, durability."""
    seen = health(settings.postgres)
    if seen.number < 140000:
        yield Finding(
            "fail", AREA, f"Postgres {seen.server} at {seen.where}", "Use 14 or newer: the catalog needs multiranges"
        )
        return
    yield Finding("ok", AREA, f"Postgres {seen.server} at {seen.where}")
    if seen.standby:
        yield Finding("fail", AREA, "It is a standby and takes no writes", "Name the primary in NATS3_POSTGRES_URL")
    elif seen.read_only:
        yield Finding(
            "fail",
            AREA,
            "It takes no writes: default_transaction_read_only is on",
            "Set it to off for nats3's role and database; some providers set it where the disk is nearly full",
        )
    if seen.gist_installed:
        yield Finding("ok", AREA, "Extension btree_gist is installed")
    elif seen.gist_available:
        yield Finding("fail", AREA, "Extension btree_gist is there and not installed", Next.INSTALL_GIST())
    else:
        yield Finding(
            "fail", AREA, "Extension btree_gist is missing", "Install the server's contrib package (postgresql-contrib)"
        )
    if seen.missing:
        error = incomplete(seen.where, seen.missing)
        yield Finding("fail", AREA, error.what, error.hint)
    elif seen.schema == VERSION:
        yield Finding("ok", AREA, f"The catalog has schema {VERSION}, as this release needs")
    else:
        has = f"schema {seen.schema}" if seen.schema else "no schema"
        yield Finding("fail", AREA, f"The catalog has {has}, this release needs {VERSION}", Next.MIGRATE())
    if not seen.durable:
        yield Finding(
            "warn",
            AREA,
            "fsync or synchronous_commit is off: a crash of Postgres may forget committed chunks",
            "Set both to on; what was acknowledged to NATS by then is gone there",
        )
    if seen.forgets_on_failover:
        yield Finding(
            "warn",
            AREA,
            "Its standbys replicate asynchronously: a failover may forget committed chunks",
            "Set synchronous_standby_names, so that a commit waits for a standby, and synchronous_commit to on",
        )


def check_clocks(workspace: Workspace) -> Iterator[Finding]:
    """A finding if clocks differ by more than they may. NATS is asked by a stream that is archived, if there is one."""
    try:
        archives = workspace.catalog.archives.all()
        state = find_stream(workspace.link, archives[0].spec.stream) if archives else None
    except Nats3Error:
        state = None  # which is a finding of its own
    try:
        difference = ask_clocks(workspace, state).difference
    except Nats3Error:
        return
    if difference:
        yield Finding("warn", CLOCKS, difference, "Set the clocks right: until then hours are sealed late")


def check_outputs(workspace: Workspace) -> Iterator[Finding]:
    """Yields one finding for each that lags, and one for all the others."""
    try:
        made = outputs(workspace)
    except Nats3Error:
        return  # a catalog that cannot be asked is a finding of its own
    if made.tables:
        lagging = [known for known in made.tables if known.is_behind]
        yield from map(_table, lagging)
        if rest := len(made.tables) - len(lagging):
            yield Finding("ok", TABLES, f"{rest} Iceberg tables have what their archives have")
    if made.exports:
        failing = [one for one in made.exports if one.failed]
        yield from map(_export, failing)
        rest = [one for one in made.exports if not one.failed]
        if rest:
            waiting, undecoded = sum(one.due for one in rest), sum(one.undecoded for one in rest)
            yield Finding(
                "ok",
                EXPORTS,
                f"No hour of {len(rest)} exports failed: {waiting:,} hours wait, and {undecoded:,} "
                "messages did not decode",
            )


def check_rebuilt(workspace: Workspace) -> Iterator[Finding]:
    """Yields a finding for each archive that was made again, and whose settings are not confirmed."""
    try:
        names = workspace.catalog.holds.archives_with(REBUILT)
    except Nats3Error:
        return
    for name in names:
        yield Finding(
            "warn",
            REBUILDS,
            f"Archive {name} was made again from its bucket: nothing expires, is deleted or copied until a person has "
            "looked at its settings",
            Next.CHECK_REBUILT(archive=name, hold=REBUILT),
        )


def _table(known: ArchiveTable) -> Finding:
    if known.changed:
        return Finding(
            "warn",
            TABLES,
            f"Another program changed the table {known.identifier} of archive {known.archive}: {known.changed}",
            Next.RESTORE_TABLE(archive=known.archive),
        )
    what = f"The table {known.identifier} of archive {known.archive} lags by {known.lacking + known.surplus:,} chunks"
    return Finding(
        "warn", TABLES, f"{what}: {known.error}" if known.error else what, Next.SYNC_TABLE(archive=known.archive)
    )


def _export(one: ExportLag) -> Finding:
    return Finding(
        "warn",
        EXPORTS,
        f"{one.failed:,} hours of export {one.export} of archive {one.archive} failed, and "
        f"{one.due:,} wait: {one.error}",
        Next.GET_EXPORT_HOURS(archive=one.archive, export=one.export),
    )
