"""`nats3 doctor`: is everything there, does it fit, and what to do where it does not.

The rule kept here: all areas are looked at whatever the first one says, and nothing that was written stays.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from nats3_dagster.cli.options import Output
from nats3_dagster.cli.progress import step
from nats3_dagster.cli.terminal import Columns, Format, show
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.errors import Nats3Error

if TYPE_CHECKING:
    from nats3_dagster.archive.health.finding import Finding
    from nats3_dagster.settings import Settings


def doctor(
    bucket: Annotated[
        list[str] | None,
        typer.Option("--bucket", help="Try this bucket (default: those of the archives). May be repeated."),
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Start a Spark session as well (5 to 10 s).")] = False,
    output: Output = Format.table,
) -> None:
    """Look at NATS, Postgres, the store, Java and Spark, and say what to do. Exit status 1 if something fails."""
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    findings: list[Finding] = []
    with step("Looking at NATS, Postgres, the store, Java and Spark"):
        findings.extend(_examine(settings, tuple(bucket or ()), spark))
    if output is Format.json:
        items = [{"status": f.status, "area": f.area, "what": f.what, "do": _do(f) or None} for f in findings]
        show(output, items, {})
    else:
        show(output, [line for f in findings for line in _lines(f)], COLUMNS)
    failed = sum(f.status == "fail" for f in findings)
    if failed:
        sys.stdout.flush()
        raise Nats3Error(f"{failed} of {len(findings)} checks fail", "Do what stands beside them, then run it again")


COLUMNS: Columns = {"": lambda f: f[0], "AREA": lambda f: f[1], "FOUND, AND WHAT TO DO": lambda f: f[2]}


def _lines(finding: "Finding") -> Iterator[tuple[str, str, str]]:
    yield finding.status, finding.area, finding.what
    if finding.do:
        yield "", "", f"-> {_do(finding)}"


def _do(finding: "Finding") -> str:
    return finding.do if isinstance(finding.do, str) else finding.do.worded(WORDS)


def _examine(settings: "Settings", buckets: tuple[str, ...], spark: bool) -> Iterator["Finding"]:
    from nats3_dagster.archive.health import catalog_health as postgres
    from nats3_dagster.archive.health import nats_health as nats
    from nats3_dagster.archive.health import store_health as objects
    from nats3_dagster.archive.health.finding import found
    from nats3_dagster.pipeline import engines

    yield from found(nats.AREA, lambda: nats.check(settings))
    yield from found(postgres.AREA, lambda: postgres.check(settings))
    yield from found(objects.AREA, lambda: objects.check(settings, buckets or _buckets(settings)))
    if not settings.connect:  # the server has it
        yield from found(engines.JAVA, engines.check_java)
    yield from found(
        engines.SPARK, lambda: engines.check_spark(settings.spark_master, settings.connect, start=spark)
    )


def _buckets(settings: "Settings") -> tuple[str, ...]:
    """The buckets of the archives; none where the catalog cannot be asked, which is a finding of its own."""
    from nats3_dagster.catalog import Catalog

    try:
        with Catalog.connect(settings.postgres) as catalog:
            return tuple(sorted({a.spec.bucket for a in catalog.archives.all()}))
    except Nats3Error:
        return ()
