"""The reason why an archive of a rule is not captured or sealed now: a run that has it is under way, or it failed.

A run of several archives has one state. Which of them failed in a capture is in the run's notes (shared_steps.py); of a
run that seals, those whose hours are still to be sealed failed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from nats3_dagster.defs.instance.internals import IMPLICIT_ASSET_JOB_NAME, BulkActionsFilter
from nats3_dagster.defs.jobs.shared_steps import Notes
from nats3_dagster.defs.keys import ACCOUNT_TAG, ARCHIVE_TAG, CAPTURES, Naming
from nats3_dagster.defs.sensors.backoff import (
    BACKFILLING,
    FAILED,
    LONGEST_WAIT_S,
    UNFINISHED,
    add_failure,
    reason,
    times,
    wait_s,
)

# Failed runs that are looked at: of 20 archives that always fail, those of more than an hour.
LOOK_BACK_RUNS = 100
# Failures that a tick gives the reason of.
_NAMED = 5
_WAITING = (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.QUEUED)


@dataclass
class Failures:
    """Archives and hours that failed in the last runs of several archives, and have to wait."""

    # Archives that are left out, with the reason.
    archives: dict[str, str] = field(default_factory=dict[str, str])
    # By archive: the hours that are held back, with the reason.
    hours: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    # Archives that a run was at when its process ended: the next tries are in runs of their own.
    suspects: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class ActiveRuns:
    """The runs and backfills that have not ended."""

    # By the key of an asset: its run or backfill, in a sentence.
    by_asset: Mapping[AssetKey, str]
    # The runs of several archives, and whether one of them has not begun: what is due meanwhile goes with the next one.
    shared: int
    is_waiting: bool

    @classmethod
    def of(cls, instance: DagsterInstance, naming: Naming, kind: str) -> "ActiveRuns":
        """`kind`: the value of ACCOUNT_TAG. However a run was started, and by a job of another code location too."""
        by_asset: dict[AssetKey, str] = {}
        for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=BACKFILLING)):
            # Between two of its runs there is none to see.
            by_asset |= dict.fromkeys(backfill.asset_selection or (), f"Backfill {backfill.backfill_id}")
        unfinished = instance.get_runs(RunsFilter(statuses=UNFINISHED))
        for run in unfinished:
            by_asset |= dict.fromkeys(_assets(naming, run), f"Run {run.run_id} ({run.status.value.lower()})")
        shared = [run.status for run in unfinished if run.tags.get(ACCOUNT_TAG) == kind]
        return cls(by_asset, len(shared), any(status in _WAITING for status in shared))


def failed_captures(instance: DagsterInstance, naming: Naming, now_s: float) -> Failures:
    """The archives and hours that failed in the last captures of several archives."""
    archives: dict[str, list[RunRecord]] = {}
    hours: dict[tuple[str, str], list[RunRecord]] = {}
    found = Failures()
    for record in failed_runs(instance, CAPTURES):
        if at := _killed_at(record, now_s):
            found.suspects.add(at)
        for archive, failed in _failed(naming, record.dagster_run).items():
            rows = [hours.setdefault((archive, hour), []) for hour in failed] or [archives.setdefault(archive, [])]
            for row in rows:
                add_failure(row, record)
    named = 0
    for (archive, hour), row in [*(((name, ""), row) for name, row in archives.items()), *hours.items()]:
        if (wait := wait_s(row, now_s)) > 0:
            step, named = naming.chunks_key(archive).to_python_identifier(), named + 1
            why = f" {reason(instance, row[0].dagster_run.run_id, step=step)}" if named <= _NAMED else ""
            text = f"{hour or 'Capture'} of {archive} failed {times(row)}; next try in {wait:.0f} s.{why}"
            if hour:
                found.hours.setdefault(archive, {})[hour] = text
            else:
                found.archives[archive] = text
    return found


def failed_runs(instance: DagsterInstance, kind: str) -> Iterable[RunRecord]:
    """The last runs of several archives that failed or were canceled, the newest first."""
    return instance.get_run_records(RunsFilter(tags={ACCOUNT_TAG: kind}, statuses=FAILED), limit=LOOK_BACK_RUNS)


def _failed(naming: Naming, run: DagsterRun) -> Mapping[str, Collection[str]]:
    """The archives that failed in a run, each with the hours that did, or none where nothing of it was captured."""
    notes = Notes.of(run)
    if notes is None or run.status == DagsterRunStatus.CANCELED:
        prefix = len(naming.prefix)
        return {key.path[prefix]: () for key in run.asset_selection or () if len(key.path) > prefix}
    return {**notes.failed, **({notes.at: ()} if notes.at else {})}


def _killed_at(record: RunRecord, now_s: float) -> str:
    """The archive that a run was at when its process ended, not long ago; else empty."""
    run = record.dagster_run
    notes = Notes.of(run) if run.status == DagsterRunStatus.FAILURE else None
    return notes.at if notes and wait_s([record], now_s) > -2 * LONGEST_WAIT_S else ""


def _assets(naming: Naming, run: DagsterRun) -> Collection[AssetKey]:
    if run.job_name == IMPLICIT_ASSET_JOB_NAME:
        return run.asset_selection or ()
    archive = run.tags.get(ARCHIVE_TAG)
    return (naming.chunks_key(archive),) if archive and run.job_name.endswith("_capture") else ()
