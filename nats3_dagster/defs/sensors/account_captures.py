"""The sensor that captures the archives of rules for the account: one for all of them.

Invariant: never two captures of an archive at a time, and an archive that fails stops no other one.

A sensor, a job and a run for each archive cost a code location of 1,000 archives a minute to load, and each capture a
JVM. This one lists the streams, and asks for one run of all archives that have a little to capture.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster import (
    AssetCheckEvaluation,
    DefaultSensorStatus,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from nats3_dagster.defs.assets.assets import CAPTURE_HOURS
from nats3_dagster.defs.checks.checks import keeps_up
from nats3_dagster.defs.instance.internals import PARTITION_NAME_TAG
from nats3_dagster.defs.jobs.failures import CannotTick, tick_failures
from nats3_dagster.defs.keys import ACCOUNT_TAG, CAPTURES, EARLIER_TAG, WHY_TAG, Naming
from nats3_dagster.defs.partitions import range_tags
from nats3_dagster.defs.sensors.failed_archives import ActiveRuns, failed_captures
from nats3_dagster.defs.sensors.sensors import CAPTURE_INTERVAL_S
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.captures.due_archives import Batch, Outlooked

# Names in the summary of a tick.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Shared:
    """An archive of a rule, as it was loaded."""

    name: str
    id: int
    # Its first partition.
    begin: str


def account_captures_sensor(naming: Naming, shared: Sequence[Shared]) -> SensorDefinition:
    """`account_captures_sensor`: on unless switched off in the UI. While an archive is paused it has no run."""
    begins = {one.name: one.begin for one in shared}

    @sensor(
        name=naming.account_captures_sensor,
        asset_selection=[naming.chunks_key(one.name) for one in shared],
        minimum_interval_seconds=CAPTURE_INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description="Captures the archives of rules for the account when their thresholds are reached, and each hour "
        "when it has ended: one run for all that have a little to capture, and one for each that has much.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        # It imports nats, 0.1 s of each load of the definitions.
        from nats3_dagster.archive.captures.due_archives import batches, look_at

        failures = failed_captures(context.instance, naming, time.time())
        active = ActiveRuns.of(context.instance, naming, CAPTURES)
        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            archives = workspace.catalog.archives.of([one.id for one in shared])
            every, left = look_at(workspace, archives, CAPTURE_HOURS, failures.hours)
        for one in every:
            if one.error:
                context.log.warning(f"Archive {one.archive.name}: {one.error.text_in(naming.words)}")
        held = [*failures.archives.values()]
        held += [failures.hours[one.archive.name][hour] for one in every for hour in one.held]
        for why in held:
            context.log.warning(f"Held back: {why}")
        free = [
            one
            for one in every
            if one.archive.name not in failures.archives and naming.chunks_key(one.archive.name) not in active.by_asset
        ]
        alone = failures.suspects | {n for one in free if _is_before(one, begins[n := one.archive.name])}
        # What is due meanwhile goes with the next run of several archives.
        asked = [batch for batch in batches(free, alone) if batch.is_alone or not active.is_waiting]
        known: dict[str, str] = json.loads(context.cursor or "{}")
        levels, events = _levels(naming, every, {name: level for name, level in known.items() if name in begins})
        problems = [one.error for one in every if one.error]
        if problems and not asked and not events:
            raise CannotTick(problems[0], naming)
        return SensorResult(
            run_requests=[_request(naming, batch, begins) for batch in asked],
            skip_reason=None if asked else _summary(every, left, held, active),
            cursor=json.dumps(levels),
            asset_events=events,
        )

    return evaluate


def _request(naming: Naming, batch: "Batch", begins: Mapping[str, str]) -> RunRequest:
    """A run for these hours. Each archive has partitions of its own, so that no one set of them has the run: the tags
    name its hours."""
    hours, begin = batch.hours, begins[batch.archives[0]]
    tags = {PARTITION_NAME_TAG: hours[0]} if len(hours) == 1 else range_tags(hours[0], hours[-1])
    if batch.is_alone and (earlier := [hour for hour in hours if hour < begin]):
        # Dagster has no partitions of them: they go with the first one.
        tags = {PARTITION_NAME_TAG: begin, EARLIER_TAG: ",".join(earlier)}
    return RunRequest(
        asset_selection=[naming.chunks_key(name) for name in batch.archives],
        # Each step evaluates the checks of its archive.
        asset_check_keys=[],
        tags={ACCOUNT_TAG: CAPTURES, WHY_TAG: batch.why, **tags},
    )


def _is_before(one: "Outlooked", begin: str) -> bool:
    """True if an hour is due that Dagster has no partition of."""
    return bool(one.due and one.due.hours and one.due.hours[0] < begin)


def _levels(
    naming: Naming, every: Collection["Outlooked"], before: Mapping[str, str]
) -> tuple[dict[str, str], list[AssetCheckEvaluation]]:
    """Returns how near archives are to loss, without those that are not, and an event for each change."""
    levels = dict(before)
    events: list[AssetCheckEvaluation] = []
    for one in every:
        name = one.archive.name
        if one.loss and one.loss.level != before.get(name, "ok"):
            events.append(keeps_up(naming, name, one.loss))
            levels[name] = one.loss.level
    return {name: level for name, level in levels.items() if level != "ok"}, events


def _summary(every: Collection["Outlooked"], left: int, held: Sequence[str], active: ActiveRuns) -> str:
    """Returns the reason why nothing is asked for."""
    waiting = sorted(one.archive.name for one in every if one.due and one.due.hours)
    open_ = sum(bool(one.due and not one.due.hours and one.loss and one.loss.waits_s) for one in every)
    ended = sum(one.ended_at is not None for one in every)
    paused = sum(one.archive.paused for one in every)
    said = [
        f"{_counted(waiting)}: captured already, or with the next run" if waiting else "",
        f"{open_:,} archives have messages that no threshold takes yet" if open_ else "",
        "A run of several archives waits to begin" if active.is_waiting else "",
        *held[:_SHOWN],
        f"{paused:,} archives are paused" if paused else "",
        f"{ended:,} archives have ended, their streams are gone" if ended else "",
        f"{left:,} archives wait for the next tick" if left else "",
    ]
    return ". ".join(filter(None, said)) or "Everything is captured"


def _counted(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
