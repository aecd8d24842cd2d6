"""`nats3 doctor`: checks all dependencies, and names the fix for each problem."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from nats3_dagster.archive.health import catalog_health, settings_health
from nats3_dagster.archive.health.examination import examine
from nats3_dagster.archive.health.finding import Finding, findings
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, Prose, show
from nats3_dagster.cli.terminal.progress import step
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.defs.instance import instance
from nats3_dagster.documents.installation import Finding as FindingDocument
from nats3_dagster.errors import Nats3Error
from nats3_dagster.pipeline import engines
from nats3_dagster.settings import Settings
from nats3_dagster.tables.observe import observe
from nats3_dagster.workspace import Workspace

_COLUMNS: Columns = {"": lambda f: f[0], "AREA": lambda f: f[1], "FOUND, AND WHAT TO DO": lambda f: f[2]}


def doctor(
    bucket: Annotated[
        list[str] | None,
        typer.Option("--bucket", help="Try this bucket (default: those of the archives). May be repeated."),
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Start a Spark session as well (5 to 10 s).")] = False,
    output: Output = Format.table,
) -> None:
    """Check NATS, Postgres, the store, Java, Spark and Dagster, and name the fix for each problem.

    Exit status 1 if a check fails."""
    settings, faults = Settings.examine()
    wrong = [Finding("fail", settings_health.AREA, fault, "Correct it where it is set") for fault in faults]
    with step("Looking at NATS, Postgres, the store, Java, Spark and Dagster"):
        # Before the catalog is read: what another program did to tables is kept there.
        tables = list(_tables(settings))
        engines_found = list(_engines(settings, spark))
        report = [*wrong, *examine(settings, bucket or ()), *tables, *engines_found, *instance.examine()]
    documents = [FindingDocument.of(found, WORDS) for found in report]
    if output is not Format.table:
        show(output, [document.plain() for document in documents], {})
    else:
        show(output, [line for document in documents for line in _lines(document)], _COLUMNS)
    if failed := sum(f.status == "fail" for f in report):
        sys.stdout.flush()
        raise Nats3Error(f"{failed} of {len(report)} checks fail", "Do what stands beside them, then run it again")


def _engines(settings: Settings, start: bool) -> Iterator[Finding]:
    if not settings.connect:  # a server of Spark Connect has its own Java
        yield from findings(engines.JAVA, engines.check_java)
    yield from findings(
        engines.SPARK, lambda: engines.check_spark(settings.spark_master, settings.connect, start=start)
    )


def _tables(settings: Settings) -> Iterator[Finding]:
    """Asks the Iceberg catalogs for the tables. A catalog of tables that cannot be asked is a finding elsewhere."""
    try:
        with Workspace(settings) as workspace:
            seen = observe(workspace, workspace.catalog.tables.all())
    except Nats3Error:
        return
    for table in seen:
        if table.error:
            what = f"The table {table.table.identifier} cannot be compared: {table.error.what}"
            yield Finding("warn", catalog_health.TABLES, what, table.error.hint)
        elif table.was_unguarded:
            yield Finding(
                "warn",
                catalog_health.TABLES,
                f"The table {table.table.identifier} did not have gc.enabled=false, "
                "which keeps other engines from deleting chunks: it is set back",
                "Find out which program set it, and verify the chunks",
            )


def _lines(finding: FindingDocument) -> Iterator[tuple[str, str, str]]:
    yield finding.status, finding.area, Prose(finding.what)
    if finding.do:
        yield "", "", Prose(f"-> {finding.do}")
