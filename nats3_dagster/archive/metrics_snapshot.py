"""Metrics snapshot: every number of every archive, for monitoring.

Invariant: each number is asked of the catalog or the source now. What does not answer within seconds has no number:
never an old one, and never 0.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nats3_dagster.archive.proof.seal import newest_closed
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.source.condition import PATIENCE_S, Condition, conditions
from nats3_dagster.archive.source.loss import Loss, time_to_loss
from nats3_dagster.archive.status import Outputs, outputs
from nats3_dagster.errors import Nats3Error
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import Archive, ArchiveTotals, Count
from nats3_dagster.model.drill import Drill
from nats3_dagster.objects import Bucket, bucket_exists
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# How long a store is asked that does not answer; it may be silent for 1.6 times that.
STORE_PATIENCE_S = 2.0
HOUR_STATES = ("sealed", "unsealed", "open")


@dataclass(frozen=True, slots=True)
class ArchiveMeasure:
    """An archive as it is now."""

    totals: ArchiveTotals
    condition: Condition
    # Hours with messages, by HOUR_STATES; `open` are those that have not ended.
    hours: Mapping[str, int]
    # Sequences that are lost for good, by reason.
    missing: Mapping[str, int]
    # When its newest capture that completed ended, in seconds since 1970; None where none did.
    completed_at: int | None
    # Sequences that were removed on purpose, by reason.
    removed: Mapping[str, int]
    # Holds in force; hours that should have expired and are there.
    holds: int
    overdue: int
    # Objects that are missing in each copy, and for how many seconds the oldest is. A copy that has all is left out.
    copy_missing: Mapping[str, int]
    copy_lag_s: Mapping[str, int]
    # Objects that have erased messages and are still there.
    erased_objects: int
    # The last drill; None where there was none.
    drill: Drill | None = None

    @property
    def archive(self) -> Archive:
        return self.totals.archive

    @property
    def loss(self) -> Loss | None:
        """The stream's progress towards deleting what is not captured; None if its source does not say."""
        waiting = self.condition.waiting
        return time_to_loss(waiting, paused=self.archive.paused) if waiting else None


@dataclass(frozen=True, slots=True)
class ArchiveMeasures:
    """All archives."""

    archives: tuple[ArchiveMeasure, ...] = ()
    # Sums that only grow, of deleted archives too.
    grown: Sequence[Count] = field(default=())
    outputs: Outputs = field(default=Outputs())


def archive_measures(workspace: Workspace, totals: Sequence[ArchiveTotals]) -> ArchiveMeasures:
    """The archives of these totals. Raises CatalogError."""
    measures = workspace.catalog.measures
    with workspace.catalog.together():  # some calls for each archive
        counts, grown = measures.current(newest_closed(ask_clocks(workspace).earliest_ns)), measures.grown()
        made = outputs(workspace)
        drills = workspace.catalog.account_restores.drills([sums.archive.id for sums in totals])
        of_source = conditions(workspace, [sums.archive for sums in totals], aged=True)
    return ArchiveMeasures(
        tuple(
            ArchiveMeasure(
                sums,
                of_source[sums.archive.id],
                _by_label(counts, sums.archive.name, "hours"),
                _by_label(counts, sums.archive.name, "missing"),
                _by_label(counts, sums.archive.name, "completed").get(""),
                _by_label(counts, sums.archive.name, "removed"),
                _by_label(counts, sums.archive.name, "holds").get("", 0),
                _by_label(counts, sums.archive.name, "overdue").get("", 0),
                _by_label(counts, sums.archive.name, "copy_missing"),
                _by_label(counts, sums.archive.name, "copy_lag"),
                _by_label(counts, sums.archive.name, "erased_objects").get("", 0),
                drills.get(sums.archive.id),
            )
            for sums in totals
        ),
        grown,
        made,
    )


def nats_answers(settings: Settings) -> bool:
    """True if NATS accepts a connection."""
    try:
        with Link(settings.nats, reconnect=False, patience_s=PATIENCE_S):
            return True
    except Nats3Error:
        return False


def store_answers(settings: Settings, bucket: str | None) -> bool:
    """True if the store lists this bucket; without one, if it answers at all."""
    try:
        options = replace(settings.store, patience_s=STORE_PATIENCE_S)
        if bucket is None:
            bucket_exists(options, f"nats3-metrics-{secrets.token_hex(8)}")
        else:
            next(Bucket(options, bucket).list(".nats3-nothing"), None)
    except Nats3Error:
        return False
    return True


def _by_label(counts: Sequence[Count], archive: str, what: str) -> dict[str, int]:
    return {count.label: count.value for count in counts if (count.archive, count.what) == (archive, what)}
