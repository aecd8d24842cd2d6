"""Tables and exports: do they have what their archives have? Nothing is said where there are none."""

from collections.abc import Iterator

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.archive.outputs import outputs
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.model.exported import ExportLag
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

TABLES, EXPORTS = "tables", "exports"


def check(workspace: Workspace) -> Iterator[Finding]:
    """One finding for each that is behind, and one for all the others."""
    try:
        made = outputs(workspace)
    except Nats3Error:
        return  # a catalog that cannot be asked is a finding of its own
    if made.tables:
        behind = [known for known in made.tables if known.is_behind]
        yield from map(_table, behind)
        if rest := len(made.tables) - len(behind):
            yield Finding("ok", TABLES, f"{rest} Iceberg tables have what their archives have")
    if made.exports:
        failing = [one for one in made.exports if one.failed]
        yield from map(_export, failing)
        rest = [one for one in made.exports if not one.failed]
        if rest:
            waiting, undecoded = sum(one.due for one in rest), sum(one.undecoded for one in rest)
            yield Finding(
                "ok", EXPORTS, f"No hour of {len(rest)} exports failed: {waiting:,} hours wait, and {undecoded:,} "
                "messages did not decode",
            )  # fmt: skip


def _table(known: ArchiveTable) -> Finding:
    if known.changed:
        return Finding(
            "warn", TABLES, f"Another program changed the table {known.identifier} of archive {known.archive}: "
            f"{known.changed}", Next.RESTORE_TABLE(archive=known.archive),
        )  # fmt: skip
    what = f"The table {known.identifier} of archive {known.archive} is {known.lacking + known.surplus:,} chunks behind"
    return Finding(
        "warn", TABLES, f"{what}: {known.error}" if known.error else what, Next.SYNC_TABLE(archive=known.archive)
    )


def _export(one: ExportLag) -> Finding:
    return Finding(
        "warn", EXPORTS, f"{one.failed:,} hours of export {one.export} of archive {one.archive} failed, and "
        f"{one.due:,} wait: {one.error}", Next.GET_EXPORT_HOURS(archive=one.archive, export=one.export),
    )  # fmt: skip
