"""What processes of the fault tests do: the use cases of the faces, and the drivers of pipeline/ without a JVM.

The drivers are pipeline/'s own. Only `run_tasks` is another one: it gives each task to a process of the fork server,
which outlives the driver, as a worker on another host does.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nats3_dagster.archive.captures import due, hour_windows
from nats3_dagster.archive.captures import plan as planning
from nats3_dagster.archive.captures import read as reading
from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.archive.keep import compaction
from nats3_dagster.archive.lifecycle import create as creating
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.proof import seal, verify
from nats3_dagster.archive.stored import removal
from nats3_dagster.archive.take import flow_capture
from nats3_dagster.errors import EngineError, Nats3Error, from_json
from nats3_dagster.jetstream.take import flow, handover
from nats3_dagster.model import ArchiveSpec, ReplaySpec
from nats3_dagster.pipeline import capture_run, replay_run
from nats3_dagster.pipeline import tasks as pipeline_tasks
from nats3_dagster.pipeline.tasks import Finished
from nats3_dagster.replay import begin as beginning
from nats3_dagster.replay import pages
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults.clocks import CLOCK
from nats3_dagster_tests.faults.forks import Job, Request

# Tasks of a capture or a replay that run at a time.
PARALLEL = 2
# Sequences and hours of a task, hours of a job, messages of a chunk and chunks of a replay's page: small workloads then
# have several of each.
TASK_SEQS, TASK_HOURS, JOB_HOURS, CHUNK_MESSAGES, PAGE_CHUNKS = 300, 3, 8, 100, 2
# How long a store is asked again.
PATIENCE_S = 3.0
TASK_S = 80.0
# In the environment: the socket of the fork server, and whether tasks merge the hours of a compaction.
FORKS, MERGE_IN_TASKS = "NATS3_FAULTS_FORKS", "NATS3_FAULTS_MERGE_IN_TASKS"
_store: Any = Settings.store.fget
SESSION: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default=None: str(PARALLEL)))


def prepare() -> None:
    """In the fork server: small settings, tasks without Spark, and what takes long to import."""
    import pyiceberg.catalog.sql  # noqa: F401

    small_settings()
    pipeline_tasks.run_tasks = run_tasks  # type: ignore[assignment]  # a compaction asks for it when it runs
    for module in (capture_run, replay_run):
        module.run_tasks = run_tasks  # type: ignore[attr-defined]
        module.parallelism = lambda spark, setting="": PARALLEL  # type: ignore[attr-defined]


def small_settings() -> None:
    """In this process."""
    planning.TASK_SEQS, planning.TASK_HOURS = TASK_SEQS, TASK_HOURS
    hour_windows.JOB_HOURS = JOB_HOURS
    reading.CHUNK_MESSAGES = flow_capture.CHUNK_MESSAGES = CHUNK_MESSAGES
    flow.BATCH_MESSAGES = CHUNK_MESSAGES // 2
    handover.GONE_S = 1.0
    pages.PAGE = PAGE_CHUNKS
    compaction.HOURS_AT_ONCE = 2
    Settings.store = property(lambda self: replace(_store(self), patience_s=PATIENCE_S))  # type: ignore[assignment]


def run_tasks(session: Any, name: str, work: Callable[[Any], Iterator[Any]], tasks: Sequence[Any]) -> Finished[Any]:
    """As pipeline.tasks.run_tasks: errors that we foresee are kept, a lost worker loses what all of them did."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        done = list(pool.map(lambda task: _in_worker(name, work, task), tasks))
    errors = [from_json(error) for _, error in done if error]
    return Finished(tuple(r for results, _ in done for r in results), errors[0] if errors else None)


def _in_worker(name: str, work: Callable[[Any], Iterator[Any]], task: Any) -> tuple[list[Any], str | None]:
    environment = {name: os.environ.get(name, "") for name in ("NATS3_FAULT", CLOCK)}
    ended = Job(Path(os.environ[FORKS]), Request(run_task, (work, task), environment)).wait(TASK_S)
    if not ended.ok:
        raise EngineError(f"Spark lost a task of {name}: {ended}", "Run it again: it is safe")
    return ended.value


def run_task(work: Callable[[Any], Iterator[Any]], task: Any) -> tuple[list[Any], str | None]:
    """In a worker: the results, and the JSON of the error."""
    results: list[Any] = []
    try:
        results.extend(work(task))
    except Nats3Error as error:
        return results, error.to_json()
    return results, None


# What a person asks for


def create(spec: ArchiveSpec) -> None:
    with Workspace(Settings.load()) as workspace:
        creating.create(workspace, spec)


def capture(archive: str, adopt: bool = False) -> int:
    """Capture all that the archive lacks; the messages."""
    settings = Settings.load()
    with Workspace(settings) as workspace:
        hours = due.select_hours(workspace, archive, adopt=adopt)
    return capture_hours(SESSION, settings, archive, hours, adopt=adopt)


def capture_hours(session: Any, settings: Settings, archive: str, hours: Sequence[str], *, adopt: bool = False) -> int:
    """Capture these hours; the messages."""
    run = HourRun(hours)
    jobs = capture_run.run_captures(session, settings, archive, run, lambda *_: None, adopt=adopt)
    messages = sum(result.messages for done in jobs for result in done)
    run.raise_errors()
    return messages


def begin(spec: ReplaySpec, replay_id: str | None = None) -> str:
    with Workspace(Settings.load()) as workspace:
        return beginning.begin(workspace, spec, replay_id=replay_id)[0].id


def replay(replay_id: str) -> tuple[int, int]:
    """Run or resume; messages published and found."""
    done = replay_run.run_replay(SESSION, Settings.load(), replay_id)
    return done.published, done.found


def verify_all(archive: str) -> list[str]:
    """The keys of the chunks that are not what was written, and `holes` where sequences are missing."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        checked = verify.verify_chunks(workspace, verify.chunks_to_verify(workspace, row))
        bad = [v.chunk.meta.key for v in checked if v.error]
        return bad + (["holes"] if verify.find_holes(workspace, row).sequences else [])


def seal_all(archive: str) -> list[str]:
    """Seal all that can be; the hours."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        first, _ = seal.ended_hours(workspace, row)
        found = seal.sealable(workspace, row, first)
        return [made.hour for made in seal.seal_hours(workspace, row, found.hours)]


def seal_hour(archive: str, hour: str) -> None:
    """Seal this one."""
    with Workspace(Settings.load()) as workspace:
        list(seal.seal_asked(workspace, archive, [hour]))


def now_ns() -> int:
    """What the process takes for the time."""
    return time.time_ns()


def delete(archive: str) -> int:
    """Delete with all objects; how many."""
    with Workspace(Settings.load()) as workspace:
        return remove.delete(workspace, archive, purge=True).objects


def remove_rest(archive: str) -> int:
    """Remove what a deletion left."""
    with Workspace(Settings.load()) as workspace:
        return removal.remove_dead(workspace, archive)
