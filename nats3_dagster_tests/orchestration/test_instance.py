"""The user's Dagster instance: what `nats3 doctor` finds there, and the lines that `nats3 dagster instance` prints."""

import os
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from dagster import AssetMaterialization, DagsterInstance

from nats3_dagster.defs.instance.instance import examine, instance_file, instance_state
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.waiting import eventually


def found() -> list[tuple[str, str]]:
    """The state of each finding and its first words."""
    return [(one.status, one.what) for one in examine()]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an instance with nothing set."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


def test_what_is_missing_is_named_and_the_lines_add_it(home: Path, nats3: Command) -> None:
    assert [status for status, _ in found()] == ["ok", *["warn"] * 6]
    says = [
        "not monitored",
        "together with its code server",
        "not run again",
        "Pool jetstream has no",
        "Pool replay has no",
        "Pool export has no",
    ]
    for part, (_, what) in zip(says, found()[1:], strict=True):
        assert part in what
    printed = nats3.ok("dagster", "instance").out
    assert "default_limit" not in printed
    # Each of them is in the project's own file as well.
    own = yaml.safe_load(instance_file().read_text())
    for section, values in yaml.safe_load(printed).items():
        assert values.items() <= own[section].items()
    with (home / "dagster.yaml").open("a") as file:
        file.write(printed)
    commands = re.findall(r"^#   dagster instance concurrency set (\w+) (\d)$", printed, re.MULTILINE)
    assert commands == [("jetstream", "1"), ("replay", "1"), ("export", "1")]
    with DagsterInstance.from_config(str(home)) as instance:
        for pool, limit in commands:
            instance.event_log_storage.set_concurrency_slots(pool, int(limit))
    assert {status for status, _ in found()} == {"ok"}
    state = instance_state()
    assert state
    assert state.limit("of_others") is None
    assert nats3.ok("dagster", "instance").out == "# Nothing is missing\n"
    with DagsterInstance.from_config(str(home)) as instance:
        instance.event_log_storage.set_concurrency_slots("replay", 4)
    (warning,) = [what for status, what in found() if status == "warn"]
    assert warning.startswith("Pool replay takes 4 runs at once: two replays may publish into one target at once")
    assert nats3.ok("dagster", "instance").out.splitlines()[1:] == ["#   dagster instance concurrency set replay 1"]


def test_an_instance_that_has_none_of_it_or_cannot_be_read(
    home: Path, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "dagster.yaml").write_text(
        "concurrency: {pools: {default_limit: 1}}\n"
        "run_launcher: {module: dagster, class: DefaultRunLauncher}\n"
        "run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}\n"
    )
    assert found()[0][1].endswith("Its runs are not queued: limits of pools hold back no run")
    (home / "dagster.yaml").write_text("run_monitoring: {enabledd: true}\n")
    ((status, what),) = found()
    assert (status, what.startswith(f"The Dagster instance of {home} cannot be read: ")) == ("fail", True)
    assert "cannot be read" in nats3.refused("dagster", "instance")
    monkeypatch.delenv("DAGSTER_HOME")
    assert found() == [("ok", "DAGSTER_HOME is not set here: no Dagster instance was looked at")]
    assert nats3.ok("dagster", "instance").out.count("dagster instance concurrency set") == 3


def test_the_instance_of_the_project_has_all(dagster_home: Path) -> None:
    assert {status for status, _ in found()} == {"ok"}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, in a process with threads
def test_it_keeps_its_connections_and_outlives_them(kept: DagsterInstance, postgres_url: str) -> None:
    """Each event of Dagster's own storage opens several. What Postgres ended is opened again. Instances that a process
    makes one after the other, as a code server does, share them; one that is forked has its own."""
    sessions = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def report() -> set[int]:
            kept.report_runless_asset_event(AssetMaterialization("a"))
            kept.get_runs_count()
            return {pid for (pid,) in connection.execute(sessions).fetchall()}

        def kept_of(pids: set[int]) -> set[int]:
            """Those of the sessions that are still there once all that were closed have ended."""

            def settled() -> set[int] | None:
                now = report()
                return now if len(now) <= 2 and now <= pids else None

            return eventually(settled, "the other sessions end", 30)

        first = kept_of(report())
        connection.execute(f"select pg_terminate_backend(pid) from ({sessions}) s")
        second = kept_of(report())
        assert second.isdisjoint(first)
        for _ in range(5):
            with DagsterInstance.get() as other:
                other.get_runs_count()
        assert kept_of(second) == second
        child = os.fork()
        if child == 0:
            status = 1
            try:
                storage: Any = kept.run_storage
                with storage.connect() as own:
                    status = int(own.exec_driver_sql("select pg_backend_pid()").scalar() in second)
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert kept_of(second) == second
