"""Sensors of an archive: one asks for a capture when one is due, one seals hours that have ended and are complete.

Invariant: never two captures of an archive at a time, and a tick that asks for no run says why.

What is complete is asked of the catalog, never of Dagster's events: of 200 hours materialized between two ticks an
asset sensor sees the newest one, and of an hour whose last message was captured before it ended it sees nothing.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dagster import (
    DagsterInstance,
    DefaultSensorStatus,
    HourlyPartitionsDefinition,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from nats3_dagster.defs.assets.assets import CAPTURE_HOURS
from nats3_dagster.defs.checks.checks import keeps_up, paused_out_of_reach
from nats3_dagster.defs.jobs.failures import tick_failures
from nats3_dagster.defs.keys import EARLIER_TAG, INTACT, NO_GAPS, SEAL_TAG, WHY_TAG, Naming
from nats3_dagster.defs.partitions import blocks, range_tags
from nats3_dagster.defs.sensors.backoff import active_capture, active_run, back_off, failing_hours
from nats3_dagster.documents.base import stamp
from nats3_dagster.errors import Nats3Error, UnknownStream
from nats3_dagster.model import Archive, ArchiveSpec, Declaration
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.captures.due import Due

CAPTURE_INTERVAL_S, SEAL_INTERVAL_S = 20, 30
# Hours that one run seals, at some 20 ms each, and runs that one tick asks for: each is a process of its own.
SEAL_HOURS, SEAL_RUNS = 24 * 31, 8
# Cursor of the capture sensor while its archive is paused, before the level; otherwise it is the level alone.
PAUSED = "paused"


def capture_sensor(
    naming: Naming,
    spec: ArchiveSpec,
    job: Any,
    hours: HourlyPartitionsDefinition,
    declaration: Declaration | None = None,
) -> SensorDefinition:
    """`<archive>_capture_sensor`: on unless switched off in the UI; while the archive is paused it asks for no run. It
    creates an archive that is declared and not there yet."""
    name = spec.name

    @sensor(
        name=naming.capture_sensor(name),
        job=job,
        minimum_interval_seconds=CAPTURE_INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Captures stream {spec.stream} into archive {name} when the archive's thresholds are "
        "reached, and each hour when it has ended.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        from nats3_dagster.archive.declared.declaration import ensure_declared

        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            archive = (
                workspace.catalog.archives.find(name)
                if declaration is None
                else ensure_declared(workspace, declaration)
            )
            if archive is None:
                return deleted(name)
            return _evaluate_capture(context, naming, workspace, archive, hours.get_first_partition_key() or "")

    return evaluate


def seal_sensor(naming: Naming, spec: ArchiveSpec, hours: HourlyPartitionsDefinition) -> SensorDefinition:
    """`<archive>_seal_sensor`: on unless switched off in the UI."""
    name = spec.name

    @sensor(
        name=naming.name(f"{name}_seal_sensor"),
        asset_selection=[naming.sealed_key(name)],
        minimum_interval_seconds=SEAL_INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Seals each hour of archive {name} that has ended and is complete, and evaluates its checks.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        with tick_failures(naming):
            return _evaluate_seal(context, naming, Settings.load(), name, hours.get_first_partition_key() or "9")

    return evaluate


def _evaluate_capture(
    context: SensorEvaluationContext, naming: Naming, workspace: Workspace, archive: Archive, begin: str
) -> SensorResult | SkipReason:
    """One tick; `begin` is the first partition. Raises Nats3Error, which the tick then shows, for a stream that was
    re-created, shrank or is gone."""
    from nats3_dagster.archive.captures.due import due
    from nats3_dagster.archive.captures.open import open_source
    from nats3_dagster.archive.source.loss import outlook

    if reason := _of_backup(naming, workspace, archive):
        return reason
    if archive.paused:
        return _evaluate_paused(context, naming, workspace, archive)
    name = archive.name
    try:
        source = open_source(workspace, archive)
    except UnknownStream:
        ended_at = workspace.catalog.accounts.ended_at(archive)
        if ended_at is None:
            raise
        return SkipReason(
            f"Stream {archive.spec.stream} is gone, as seen at {stamp(ended_at)}: archive {name} has ended"
        )
    now = outlook(workspace, source)
    waiting, loss = now.waiting, now.loss
    # Only the first and a change are events: a tick that says the same again would fill Dagster's tables.
    events = [keeps_up(naming, name, loss)] if loss.level != context.cursor else []
    wanted = {*waiting.ended, waiting.open}
    failing = failing_hours(context.instance, naming.capture_job(name), time.time())
    failing = {hour: why for hour, why in failing.items() if hour in wanted}
    for why_held_back in failing.values():
        context.log.warning(f"Held back: {why_held_back}")
    capture_due = due(archive.spec, waiting, CAPTURE_HOURS, failing)
    request, why_not = _capture_request(context.instance, naming, name, capture_due, failing, begin)
    return SensorResult(
        run_requests=[request] if request else [], skip_reason=why_not, cursor=loss.level, asset_events=events
    )


def _of_backup(naming: Naming, workspace: Workspace, archive: Archive) -> SkipReason | None:
    """The reason why nothing is to do for the archive of a backup, unless it was resumed; None for another one."""
    if not archive.paused or workspace.catalog.imports.of(archive) is None:
        return None
    resume = Next.RESUME_ARCHIVE(archive=archive.name).worded(naming.words)
    return SkipReason(f"Archive {archive.name} is of a backup, and follows no stream. {resume}")


def _evaluate_paused(
    context: SensorEvaluationContext, naming: Naming, workspace: Workspace, archive: Archive
) -> SensorResult:
    """One tick of a paused archive: it asks for no run, and the check shows the pause, and how near it is to loss."""
    from nats3_dagster.archive.captures.open import open_source
    from nats3_dagster.archive.source.loss import outlook

    name, before = archive.name, context.cursor or ""
    why = f"Archive {name} is paused. {Next.RESUME_ARCHIVE(archive=name).worded(naming.words)}"
    try:
        source = open_source(workspace, archive)
        loss = outlook(workspace, source).loss
    except Nats3Error as error:
        # NATS may be down because of what the archive is paused for: the tick does not fail.
        known = before.startswith(PAUSED)
        return SensorResult(
            skip_reason=f"{why}. How near it is to loss is unknown: {error.text_in(naming.words)}",
            cursor=before if known else PAUSED,
            asset_events=[] if known else [paused_out_of_reach(naming, name, error)],
        )
    # Not the level alone: an error of a paused archive and one of an active archive have different texts.
    cursor = f"{PAUSED} {loss.level}"
    events = [keeps_up(naming, name, loss)] if cursor != before else []
    return SensorResult(skip_reason=why, cursor=cursor, asset_events=events)


def _capture_request(
    instance: DagsterInstance, naming: Naming, name: str, capture_due: "Due", failing: Mapping[str, str], begin: str
) -> tuple[RunRequest | None, str | None]:
    """The run to start, or why there is none."""
    if active := active_capture(instance, naming, name):
        return None, active
    if not capture_due.hours:
        return None, ". ".join([capture_due.why, *failing.values()])
    if wait := back_off(instance, RunsFilter(job_name=naming.capture_job(name)), "Capture", time.time(), pause=name):
        return None, wait
    first, last = capture_due.hours[0], capture_due.hours[-1]
    why = {WHY_TAG: capture_due.why}
    if earlier := [hour for hour in capture_due.hours if hour < begin]:
        # Dagster has no partitions of them: they go with the first one.
        return RunRequest(partition_key=begin, tags=why | {EARLIER_TAG: ",".join(earlier)}), None
    if first == last:
        return RunRequest(partition_key=first, tags=why), None
    return RunRequest(tags=range_tags(first, last) | why), None


def _evaluate_seal(
    context: SensorEvaluationContext, naming: Naming, settings: Settings, name: str, first: str
) -> SensorResult | SkipReason:
    """One tick, for the hours from `first` on."""
    from nats3_dagster.archive.proof.seal import position, sealable

    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.find(name)
        if archive is None:
            return deleted(name)
        if reason := _of_backup(naming, workspace, archive):
            return reason
        at = position(workspace, archive)
        if context.cursor == json.dumps(asdict(at)):
            return SkipReason("Nothing changed since every complete hour was sealed")
        if first > at.closed:
            return SkipReason("No hour of this archive has ended yet")
        if active := active_run(context.instance, {SEAL_TAG: name}):
            return SkipReason(f"Run {active} seals hours of this archive")
        complete = sealable(workspace, archive, first, SEAL_HOURS * SEAL_RUNS)
    if not complete.hours:
        if complete.problem:
            # The cursor stays, so that the next tick asks again.
            return SkipReason(complete.problem.text_in(naming.words))
        why = f"Every complete hour is sealed. {complete.clocks}".rstrip(". ")
        return SensorResult(skip_reason=why, cursor=json.dumps(asdict(complete.position)))
    if wait := back_off(context.instance, RunsFilter(tags={SEAL_TAG: name}), "Sealing", time.time()):
        return SkipReason(wait)
    chosen = blocks(complete.hours, SEAL_HOURS)[:SEAL_RUNS]
    return SensorResult(run_requests=[_seal_request(naming, name, block) for block in chosen])


def _seal_request(naming: Naming, name: str, block: tuple[str, str]) -> RunRequest:
    """A run for these hours, with the checks: an error of `no_gaps` ends it before anything is sealed."""
    return RunRequest(
        asset_selection=[naming.sealed_key(name)],
        asset_check_keys=[naming.check_key(name, NO_GAPS), naming.check_key(name, INTACT)],
        tags={SEAL_TAG: name} | range_tags(*block),
    )


def deleted(name: str) -> SkipReason:
    """Returns the skip reason of a sensor that has outlived its archive."""
    return SkipReason(f"Archive {name} was deleted: reload the code location, and this sensor is gone")
