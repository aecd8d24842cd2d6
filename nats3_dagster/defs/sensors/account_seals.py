"""The sensor that seals the hours of archives of rules for the account: one for all of them.

Invariant: what is complete is asked of the catalog for those archives alone that changed, or whose hour has ended,
since all their complete hours were sealed.
"""

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dagster import (
    AssetKey,
    DagsterInstance,
    DefaultSensorStatus,
    RunRecord,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from nats3_dagster.defs.instance.internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from nats3_dagster.defs.jobs.failures import tick_failures
from nats3_dagster.defs.keys import ACCOUNT_TAG, INTACT, NO_GAPS, SEALS, Naming
from nats3_dagster.defs.partitions import blocks, range_tags
from nats3_dagster.defs.sensors.account_captures import Shared
from nats3_dagster.defs.sensors.backoff import add_failure, reason, times, wait_s
from nats3_dagster.defs.sensors.failed_archives import ActiveRuns, failed_runs
from nats3_dagster.defs.sensors.sensors import SEAL_HOURS, SEAL_INTERVAL_S, SEAL_RUNS
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Seconds after which a tick asks for no other archive: Dagster gives it 60.
BUDGET_S = 20.0
# Archives of one run, and runs at a time: each archive is two steps, and each run a process. When an hour of 1,000
# archives has ended, captures go on beside them, and later ticks ask for the others.
ARCHIVES_AT_ONCE, MOST_RUNS = 100, 2
# Reasons that a tick gives.
_SHOWN = 8


@dataclass
class _Seen:
    """One tick."""

    # By the newest closed hour at which all complete hours were sealed, and by archive id: the revision then.
    cursor: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    # By the first and the last of adjacent hours, and by the archive that is alone in its run: the archives.
    blocks: dict[tuple[str, str, str], list[str]] = field(default_factory=dict[tuple[str, str, str], list[str]])
    # Reasons why nothing is sealed.
    waits: list[str] = field(default_factory=list[str])
    # Archives that have hours to seal, and those that were not asked for.
    asked: int = 0
    left: int = 0


def account_seals_sensor(naming: Naming, shared: Sequence[Shared]) -> SensorDefinition:
    """`account_seals_sensor`: on unless switched off in the UI."""

    @sensor(
        name=naming.account_seals_sensor,
        asset_selection=[naming.sealed_key(one.name) for one in shared],
        minimum_interval_seconds=SEAL_INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description="Seals each hour of the archives of rules for the account that has ended and is complete, and "
        "evaluates their checks: one run for all that have the same hours to seal.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            seen = _look(context.instance, naming, workspace, shared, json.loads(context.cursor or "{}"))
        requests = [
            _request(naming, (first, last), names[at : at + ARCHIVES_AT_ONCE])
            for (first, last, _), names in sorted(seen.blocks.items(), key=lambda item: (item[0][2] != "", item[0]))
            for at in range(0, len(names), ARCHIVES_AT_ONCE)
        ][:MOST_RUNS]
        left = [f"{seen.left:,} archives wait for the next tick"] if seen.left else []
        why = ". ".join([*seen.waits[:_SHOWN], *left]) or "Every complete hour is sealed"
        return SensorResult(
            run_requests=requests, skip_reason=None if requests else why, cursor=json.dumps(seen.cursor)
        )

    return evaluate


def _look(
    instance: DagsterInstance,
    naming: Naming,
    workspace: Workspace,
    shared: Sequence[Shared],
    before: Mapping[str, Mapping[str, int]],
) -> _Seen:
    from nats3_dagster.archive.proof.seal import newest_closed, sealable
    from nats3_dagster.archive.source.clocks import ask_clocks

    heard = {int(number): (closed, at) for closed, every in before.items() for number, at in every.items()}
    closed = newest_closed(ask_clocks(workspace).earliest_ns)
    revisions = {version.id: version.revision for version in workspace.catalog.archives.versions()}
    changed = {
        one.id: one
        for one in shared
        if one.id in revisions and heard.get(one.id) != (closed, revisions[one.id]) and one.begin <= closed
    }
    seen = _Seen()
    for one in shared:
        if one.id in heard and one.id in revisions:
            seen.cursor.setdefault(heard[one.id][0], {})[str(one.id)] = heard[one.id][1]
    if not changed:
        return seen
    active = ActiveRuns.of(instance, naming, SEALS)
    if active.is_waiting or active.shared >= MOST_RUNS:
        seen.waits.append(f"{active.shared} runs that seal hours of archives of rules have not ended")
        return seen
    failed, until = [*failed_runs(instance, SEALS)], time.monotonic() + BUDGET_S
    # In any order: none waits for ever after those that always change.
    for archive in random.sample(found := workspace.catalog.archives.of([*changed]), len(found)):
        key, first = naming.sealed_key(archive.name), changed[archive.id].begin
        if key in active.by_asset:
            seen.waits.append(f"{active.by_asset[key]} seals hours of {archive.name}")
        elif time.monotonic() > until or seen.asked >= MOST_RUNS * ARCHIVES_AT_ONCE:
            seen.left += 1
        else:
            complete = sealable(workspace, archive, first, SEAL_HOURS * SEAL_RUNS)
            if complete.hours:
                _add(instance, seen, archive.name, key, blocks(complete.hours, SEAL_HOURS)[:SEAL_RUNS], failed)
            elif complete.problem:
                # The cursor stays, so that the next tick asks again.
                seen.waits.append(f"{archive.name}: {complete.problem.text_in(naming.words)}")
            else:
                for every in seen.cursor.values():
                    every.pop(str(archive.id), None)
                at = complete.position
                seen.cursor.setdefault(at.closed, {})[str(archive.id)] = at.revision
                seen.waits += [f"{archive.name}: {complete.clocks}"] if complete.clocks else []
    return seen


def _add(
    instance: DagsterInstance,
    seen: _Seen,
    archive: str,
    key: AssetKey,
    found: Sequence[tuple[str, str]],
    failed: Sequence[RunRecord],
) -> None:
    """Adds the archive to the runs of the tick, unless a run that was to seal these hours failed just now. After that
    it has a run of its own."""
    for first, last in found:
        row: list[RunRecord] = []
        for record in failed:
            tags = record.dagster_run.tags
            begin, end = tags.get(ASSET_PARTITION_RANGE_START_TAG, ""), tags.get(ASSET_PARTITION_RANGE_END_TAG, "")
            if key in (record.dagster_run.asset_selection or ()) and begin <= last and first <= end:
                add_failure(row, record)
        wait = wait_s(row, time.time()) if row else 0
        if wait > 0:
            why = reason(instance, row[0].dagster_run.run_id)
            seen.waits.append(f"Sealing {archive} failed {times(row)}; next try in {wait:.0f} s. {why}")
        else:
            seen.blocks.setdefault((first, last, archive if row else ""), []).append(archive)
            seen.asked += 1


def _request(naming: Naming, block: tuple[str, str], archives: Sequence[str]) -> RunRequest:
    """A run for these hours, with the checks: an error of `no_gaps` ends it for that archive before anything is
    sealed."""
    return RunRequest(
        asset_selection=[naming.sealed_key(name) for name in archives],
        asset_check_keys=[naming.check_key(name, check) for name in archives for check in (NO_GAPS, INTACT)],
        tags={ACCOUNT_TAG: SEALS} | range_tags(*block),
    )
