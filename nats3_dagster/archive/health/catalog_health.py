"""Postgres: can it hold the catalog, and does it keep what it commits?"""

from collections.abc import Iterator

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.catalog.health import health
from nats3_dagster.catalog.schema import VERSION
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next

AREA = "postgres"


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
    if seen.gist_installed:
        yield Finding("ok", AREA, "Extension btree_gist is installed")
    elif seen.gist_available:
        yield Finding("fail", AREA, "Extension btree_gist is there and not installed", Next.INSTALL_GIST())
    else:
        yield Finding(
            "fail", AREA, "Extension btree_gist is missing", "Install the server's contrib package (postgresql-contrib)"
        )
    if seen.schema == VERSION:
        yield Finding("ok", AREA, f"The catalog has schema {VERSION}, as this release needs")
    else:
        has = f"schema {seen.schema}" if seen.schema else "no schema"
        yield Finding("fail", AREA, f"The catalog has {has}, this release needs {VERSION}", Next.MIGRATE())
    if not seen.durable:
        yield Finding(
            "warn", AREA, "fsync or synchronous_commit is off: a crash of Postgres may forget committed chunks",
            "Set both to on; what was acknowledged to NATS by then is gone there",
        )  # fmt: skip
    if seen.forgets_on_failover:
        yield Finding(
            "warn", AREA, "Its standbys replicate asynchronously: a failover may forget committed chunks",
            "Set synchronous_standby_names, so that a commit waits for a standby, and synchronous_commit to on",
        )  # fmt: skip
