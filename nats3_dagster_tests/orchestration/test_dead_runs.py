"""Runs whose process was killed together with everything that could tell: they are found, and living ones are not taken
for dead."""

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    JobDefinition,
    RunsFilter,
    execute_job,
    in_process_executor,
    job,
    op,
    reconstructable,
)
from dagster._core.launcher import WorkerStatus

from nats3_dagster import ArchiveDeclaration, build_archive_definitions
from nats3_dagster.catalog.session import run_locks
from nats3_dagster.defs import run_launcher
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.keys import HELD_TAG
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import CatalogError
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.launches import launch_job, status
from nats3_dagster_tests.support.dagster.processes import Dagster
from nats3_dagster_tests.support.dagster.stories import archive, archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

HOURS, EACH = 3, 1200
TOTAL = HOURS * EACH


@pytest.mark.slow
@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(150)
@pytest.mark.timeout(600)
def test_a_run_that_outlives_its_code_server_goes_on_and_one_that_does_not_is_retried(
    settings: Settings, wire: Wire, bucket: str, tmp_path: Path
) -> None:
    """Neither has a process that could tell of it. The dead one counts as failed, and its retry goes on where it was;
    with a new daemon, which has seen nothing of it."""
    start = hour_start(hour_of(time.time_ns())) - HOURS * HOUR_NS
    past = [
        Past(n + 1, start + n // EACH * HOUR_NS + n % EACH * 1_000_000, "ev.a", b"", b"%d" % n) for n in range(TOTAL)
    ]
    restore_stream(Settings.load().nats, "EV", ["ev.>"], past)
    wire.create_stream("BACK", "back.>")
    hours = [hour_of(start + n * HOUR_NS) for n in range(HOURS)]
    archive(Settings.load(), bucket)
    with Dagster(tmp_path / "dagster", {}) as dagster:
        eventually(lambda: archived(Settings.load()) == TOTAL, "the sensor has captured the three hours", 240)
        ops = {"events__replay": {"config": {"write_subject": "back.>", "rate": 80}}}
        run = launch_job(dagster, "events_replay", hours[0], hours[-1], {"ops": ops})
        eventually(lambda: wire.state("BACK")["messages"] > 300, "the replay publishes", 180)
        processes = dagster.kill_code()
        published = wire.state("BACK")["messages"]
        # Longer than a dead run is looked at.
        eventually(lambda: wire.state("BACK")["messages"] > published + 80 * 25, "the replay goes on", 120)
        assert status(dagster, run) == "STARTED"
        dagster.power_cut(processes)
        assert status(dagster, run) == "STARTED"
        assert eventually(lambda: _ended(dagster, run), "the dead run is found", 90) == "FAILURE"
        (retry,) = eventually(lambda: _retries(dagster, run), "the run is retried", 90)
        assert eventually(lambda: _ended(dagster, retry), "the retry ends", 180) == "SUCCESS"
    assert [m.data for m in wire.messages("BACK")] == [b"%d" % n for n in range(TOTAL)]


def _ended(dagster: Dagster, run_id: str) -> str | None:
    found = status(dagster, run_id)
    return found if found in ("SUCCESS", "FAILURE", "CANCELED") else None


def _retries(dagster: Dagster, run_id: str) -> list[str]:
    return [run["id"] for run in dagster.runs() if run["tags"].get("dagster/parent_run_id") == run_id]


# The process of a waiting run has come to its step; it may end.
BEGAN, MAY_END = threading.Event(), threading.Event()
ALIVE, DEAD = WorkerStatus.RUNNING, WorkerStatus.FAILED


@op
def wait() -> None:
    BEGAN.set()
    assert MAY_END.wait(60)


@job(executor_def=run_executor)
def ours() -> None:
    wait()


@job(executor_def=in_process_executor)
def of_others() -> None:
    wait()


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are taken again at once, and looks need no time between them."""
    monkeypatch.setattr(run_locks, "LOOK_S", 0.1)
    monkeypatch.setattr(run_launcher, "FREE_S", 0.0)


@contextmanager
def living(instance: DagsterInstance, made: JobDefinition) -> Iterator[str]:
    """A run that waits in its step until the end of the context; its id. Afterwards it holds nothing any more, as one
    that was killed."""
    BEGAN.clear()
    MAY_END.clear()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(execute_job, reconstructable(globals()[made.name]), instance)
        try:
            eventually(lambda: BEGAN.is_set() or running.done(), "the step begins")
            (run,) = instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.STARTED]))
            yield run.run_id
        finally:
            MAY_END.set()
        assert running.result().success


def looks(instance: DagsterInstance, run_id: str, times: int = 4) -> list[WorkerStatus]:
    """The answers to run monitoring, one after another."""
    run = instance.get_run_by_id(run_id)
    assert run
    return [instance.run_launcher.check_run_worker_health(run).status for _ in range(times)]


@pytest.mark.usefixtures("_hurried")
def test_a_run_lives_as_long_as_its_lock(kept: DagsterInstance, settings: Settings) -> None:
    """Also after Postgres ended the lock's connection. A lock that is free is looked at again."""
    with living(kept, ours) as run_id, psycopg.connect(settings.postgres, autocommit=True) as postgres:
        assert looks(kept, run_id) == [ALIVE] * 4
        holder = "select pid from pg_locks where locktype = 'advisory' and mode = 'ShareLock'"
        before = postgres.execute(holder).fetchall()
        assert len(before) == 1
        postgres.execute("select pg_terminate_backend(%s)", before[0])
        eventually(lambda: postgres.execute(holder).fetchall() not in ([], before), "the lock is taken again", 10)
        assert looks(kept, run_id) == [ALIVE] * 4
    assert looks(kept, run_id, 7) == [ALIVE, ALIVE, DEAD] * 2 + [ALIVE]


@pytest.mark.usefixtures("_hurried")
def test_a_job_of_a_user_has_the_executor_that_holds_the_lock(settings: Settings) -> None:
    """As docs/components.md writes it."""
    page = (Path(__file__).parents[2] / "docs" / "components.md").read_text()
    (block,) = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "run_executor" in text]
    names: dict[str, Any] = {}
    exec(block, names)
    archives = build_archive_definitions(
        archives=[ArchiveDeclaration(name="orders", stream="ORDERS", bucket="archive")]
    )
    found = Definitions.merge(archives, Definitions(jobs=[names["nightly"]])).resolve_job_def("nightly")
    assert found.executor_def is run_executor


def test_a_free_lock_says_nothing_before_a_living_process_had_the_time_to_take_it_again(
    kept: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with living(kept, ours) as run_id:
        pass
    monkeypatch.setattr(run_launcher, "FREE_S", 1.5)
    assert looks(kept, run_id, 6) == [ALIVE] * 6
    time.sleep(1.6)
    assert looks(kept, run_id, 1) == [DEAD]


@pytest.mark.usefixtures("_hurried")
def test_looks_that_could_not_be_are_none_in_a_row(kept: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that does not answer is an error of run monitoring, and no sign of death."""
    with living(kept, ours) as run_id:
        pass
    assert looks(kept, run_id, 2) == [ALIVE] * 2
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/nothing")
        with pytest.raises(CatalogError):
            looks(kept, run_id)
    assert looks(kept, run_id, 3) == [ALIVE, ALIVE, DEAD]


@pytest.mark.usefixtures("_hurried")
def test_a_run_that_showed_no_lock_here_is_left_alone(kept: DagsterInstance) -> None:
    """Runs of other jobs; a retry, which has the tags of the run before it; a lock in another database."""
    with living(kept, of_others) as run_id:
        assert HELD_TAG not in tags(kept, run_id)
        assert looks(kept, run_id) == [ALIVE] * 4
        for tag in (f"another-run@{database()}", f"{run_id}@1.2"):
            kept.add_run_tags(run_id, {HELD_TAG: tag})
            assert looks(kept, run_id) == [ALIVE] * 4
        kept.add_run_tags(run_id, {HELD_TAG: f"{run_id}@{database()}"})
        assert looks(kept, run_id, 3) == [ALIVE, ALIVE, DEAD]


def test_under_another_launcher_runs_hold_no_lock(dagster_home: Path) -> None:
    own = yaml.safe_load((dagster_home / "dagster.yaml").read_text())
    own["run_launcher"] = {"module": "dagster", "class": "DefaultRunLauncher"}
    (dagster_home / "dagster.yaml").write_text(yaml.safe_dump(own))
    with DagsterInstance.get() as instance, living(instance, ours) as run_id:
        assert HELD_TAG not in tags(instance, run_id)


def tags(instance: DagsterInstance, run_id: str) -> dict[str, str]:
    run = instance.get_run_by_id(run_id)
    assert run
    return dict(run.tags)


def database() -> str:
    with Workspace(Settings.load()) as workspace:
        return workspace.catalog.run_locks.database()
