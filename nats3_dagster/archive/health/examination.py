"""The examination of NATS, Postgres and the store: each is looked at whatever the one before says."""

from collections.abc import Iterator, Sequence

from nats3_dagster.archive.health import (
    catalog_health,
    nats_health,
    settings_health,
    store_health,
)
from nats3_dagster.archive.health.finding import Finding, findings
from nats3_dagster.errors import Nats3Error
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def examine(settings: Settings, buckets: Sequence[str] = ()) -> Iterator[Finding]:
    """`buckets` are tried; without any, those of the archives."""
    with Workspace(settings) as workspace:
        own = _buckets(workspace)
        yield from findings(settings_health.AREA, lambda: settings_health.check(settings))
        yield from findings(settings_health.AREA, lambda: settings_health.check_transport(settings))
        yield from findings(nats_health.AREA, lambda: nats_health.check(workspace))
        yield from findings(catalog_health.AREA, lambda: catalog_health.check(settings))
        yield from findings(catalog_health.CLOCKS, lambda: catalog_health.check_clocks(workspace))
        yield from findings(catalog_health.REBUILDS, lambda: catalog_health.check_rebuilt(workspace))
        yield from findings(catalog_health.TABLES, lambda: catalog_health.check_outputs(workspace))
        store = list(findings(store_health.AREA, lambda: store_health.check(settings, buckets or own)))
        yield from store
        # A store that does not work is one finding, and not one for each archive.
        if own and not buckets and all(finding.status != "fail" for finding in store):
            yield from findings(store_health.AREA, lambda: store_health.check_folders(workspace))


def _buckets(workspace: Workspace) -> tuple[str, ...]:
    """The buckets of the archives and of their copies; none where the catalog cannot be asked, which is a finding of
    its own."""
    try:
        archives = workspace.catalog.archives.all()
    except Nats3Error:
        return ()
    return tuple(sorted({bucket for archive in archives for bucket in archive.spec.buckets}))
