"""Archives in four states, as Dagster gets to know them: healthy, late, lossy and paused.

Each has three hours of its stream's past, captured and sealed in this process. `captured_s` ago Dagster heard of them.
"""

import time

from dagster import AssetMaterialization, DagsterEvent, DagsterEventType, DagsterInstance
from dagster._core.events import StepMaterializationData
from dagster._core.instance import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.read import RangeCapture
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.defs.assets.events import hour_event
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.wire import Wire

HEALTHY, LATE, LOSSY, PAUSED = STATES = ("healthy", "late", "lossy", "paused")
# Hours that are captured, messages of each, and messages that the stream of the lossy archive keeps.
HOURS, EACH, KEEPS = 3, 20, 100
# What is published after the last capture: to the lossy archive's stream, and to that of the late and the paused one.
BURST, WAITING = 150, 20


def in_state(
    settings: Settings, instance: DagsterInstance, bucket: str, state: str, *, captured_s: float = 0.0
) -> list[str]:
    """Make an archive of this name, which is its state; its hours. What waits in the stream of one that is late is as
    old as its last capture. A pause is left to the caller, as are sensors."""
    stream, now_ns = state.upper(), time.time_ns() - int(captured_s * 1e9)
    start = hour_start(hour_of(now_ns)) - HOURS * HOUR_NS
    times = [start + n * HOUR_NS + at * 60 * 10**9 for n in range(HOURS) for at in range(EACH)]
    past = [Past(n + 1, at, f"{state}.a", b"", b"%d" % n) for n, at in enumerate(times)]
    if captured_s:
        late = hour_start(hour_of(now_ns)) + HOUR_NS - 60 * 10**9
        past += [Past(len(past) + 1 + n, late + n, f"{state}.a", b"", b"late") for n in range(WAITING)]
    more = {"max_msgs": KEEPS} if state == LOSSY else {}
    restore_stream(settings.nats, stream, [f"{state}.>"], past, **more)
    hours = [hour_of(start + n * HOUR_NS) for n in range(HOURS)]
    with Workspace(settings) as workspace:
        create(workspace, ArchiveSpec(name=state, stream=stream, bucket=bucket))
        archive = workspace.catalog.archives.get(state)
        for hour in hours:
            planned = plan_hours(workspace, archive, [hour])
            read = [o for seqs in planned.missing for o in RangeCapture(planned.job, seqs, workspace.link).outcomes()]
            commit.commit(workspace, planned, read)
        list(seal_hours(workspace, archive, hours))
        for hour in hours:
            report(instance, hour_event(PROJECT, workspace, archive, hour), time.time() - captured_s)
    if state in (LOSSY, PAUSED):
        with Wire(str(settings.nats_url)) as wire:
            wire.publish([(f"{state}.b", b"", b"x")] * (BURST if state == LOSSY else WAITING))
    return hours


def report(instance: DagsterInstance, event: AssetMaterialization, at_s: float) -> None:
    """Have Dagster keep an event as of a time."""
    kept = DagsterEvent(
        DagsterEventType.ASSET_MATERIALIZATION.value,
        RUNLESS_JOB_NAME,
        event_specific_data=StepMaterializationData(event),
    )
    instance.report_dagster_event(kept, RUNLESS_RUN_ID, timestamp=at_s)
