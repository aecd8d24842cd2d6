"""The definitions of all archives in the catalog.

The rule kept here: one query a load, whatever the number of archives.
"""

import warnings
from collections.abc import Iterable

from dagster import BetaWarning, Definitions, in_process_executor

from nats3_dagster.catalog import ArchiveTotals, Catalog
from nats3_dagster.defs.assets import chunks_asset, replay_asset, stream_asset
from nats3_dagster.defs.failures import CannotLoad
from nats3_dagster.defs.hours import hours_from
from nats3_dagster.defs.jobs import jobs, window_job
from nats3_dagster.defs.resources import RESOURCES
from nats3_dagster.errors import Nats3Error
from nats3_dagster.settings import Settings


def load() -> Definitions:
    """The definitions as the catalog is now. Raises CannotLoad when it cannot be read."""
    try:
        with Catalog.connect(Settings.load().postgres) as catalog:
            archives = catalog.archive_totals()
    except Nats3Error as error:
        raise CannotLoad(str(error)) from None
    return definitions_of(archives)


def definitions_of(archives: Iterable[ArchiveTotals]) -> Definitions:
    """Three assets and two jobs for each archive, the job `replay`, and the resources of all."""
    found = list(archives)
    with warnings.catch_warnings():
        # Backfill policies are beta in Dagster 1.13, and the partitions of this project rest on them.
        warnings.simplefilter("ignore", BetaWarning)
        assets = [
            made for a in found for hours in [hours_from(a.begins_ns)]
            for made in (chunks_asset(a.archive, hours), replay_asset(a.archive, hours))
        ]  # fmt: skip
        return Definitions(
            assets=[*(stream_asset(s) for s in sorted({a.archive.spec.stream for a in found})), *assets],
            jobs=[*(j for a in found for j in jobs(a.archive)), window_job()], resources=RESOURCES,
            executor=in_process_executor,
        )  # fmt: skip
