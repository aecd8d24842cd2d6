"""Metrics snapshot: everything that is monitored, archives and replays together.

Invariant: it always answers. Where a dependency does not, what only that one knows is left out.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from nats3_dagster.archive.metrics_snapshot import ArchiveMeasures, archive_measures, nats_answers, store_answers
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Count
from nats3_dagster.workspace import Workspace

# States of replays as people see them, and how attempts of replays end.
REPLAY_STATES = ("planned", "running", "interrupted", "paused", "succeeded", "failed", "canceled")
ATTEMPT_ENDS = ("succeeded", "failed", "lost", "canceled", "paused")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one look at everything."""

    # Whether nats, postgres and store answer; one that was not asked is left out.
    up: Mapping[str, bool]
    # None where Postgres does not answer.
    archives: ArchiveMeasures | None = None
    # Replays by archive and state, and attempts, of deleted replays too, by how they ended.
    replays: Sequence[Count] = field(default=())
    # Seconds that it took.
    seconds: float = 0.0


def measure(workspace: Workspace) -> Measurement:
    """Look at everything: some seconds at most, unless Postgres takes a question and never answers it."""
    began = time.monotonic()
    settings, catalog = workspace.settings, None
    try:
        catalog = workspace.catalog
        totals = catalog.archives.totals()
    except Nats3Error:
        totals = None
    with ThreadPoolExecutor(2, thread_name_prefix="measure") as asking:
        nats = asking.submit(nats_answers, settings)
        store = asking.submit(store_answers, settings, totals[0].archive.spec.bucket if totals else None)
        archives, replays = None, ()
        if catalog is not None and totals is not None:
            try:
                replays = catalog.measures.replays()
                archives = archive_measures(workspace, totals)
            except Nats3Error:
                archives, replays = None, ()
        up = {"nats": nats.result(), "postgres": archives is not None, "store": store.result()}
    return Measurement(up, archives, replays, time.monotonic() - began)
