"""`nats3 dev`: everything on this machine, and nothing left of it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.stack import Stack
from nats3_dagster.jetstream.streams import create_stream
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.runs import webserver
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def home(server_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of a stack of the test's own; whatever runs there is stopped in the end."""
    folder = server_folder / tmp_path.name
    monkeypatch.setenv("NATS3_HOME", str(folder))
    yield folder
    Stack().stop()


@pytest.fixture
def nats3(capfd: pytest.CaptureFixture[str], home: Path) -> Command:
    return Command(capfd)


def running(nats3: Command) -> set[str]:
    items = nats3.ok("dev", "status", "-o", "json").json
    assert all(bool(s["address"]) == s["running"] for s in items)
    return {s["server"] for s in items if s["running"]}


def test_the_servers_alone(nats3: Command, home: Path) -> None:
    assert running(nats3) == set()
    assert nats3.ok("dev", "status").err.startswith("Nothing runs. To start the servers and the Dagster UI: nats3 dev;")
    started = nats3.ok("dev", "--stack-only", "-o", "json")
    assert running(nats3) == {"nats", "postgres", "s3"}
    assert nats3.ok("dev", "status").err == "To start the Dagster UI: nats3 dev\n"
    settings = Settings.load()
    assert started.json["nats"] == settings.nats_url
    assert settings.s3_secret_access_key is not None
    for secret in (settings.s3_secret_access_key.get_secret_value(), settings.postgres.split("@")[0].split(":")[-1]):
        assert secret not in started.out + started.err
    # What it says of itself is no reason to worry; Java and Spark are the machine's.
    report = nats3("doctor", "-o", "json").json
    assert [f for f in report if f["status"] != "ok" and f["area"] in ("nats", "postgres", "store")] == []
    assert any("The embedded server syncs every 120 s" in f["what"] for f in report)
    # The catalog is there, and who asks for the servers again gets the same ones.
    assert nats3.ok("store", "list", "-o", "json").json == []
    assert nats3.ok("dev", "--stack-only", "-o", "json").json == started.json
    assert set(nats3.ok("dev", "stop", "-o", "json").json["stopped"]) == {"nats", "postgres", "s3"}
    assert running(nats3) == set()
    assert "The address of NATS is not set" in nats3.refused("store", "run", "x") + nats3("doctor").out
    assert nats3.ok("dev", "stop").out.split() == ["stopped", "nothing", "ran"]


@contextmanager
def in_a_script(log: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int, dict[str, str]]]:
    """`nats3 dev` in the background of a script: a shell without a terminal has what it starts so ignore SIGINT. The
    shell, the process id of the command, and what it printed when the UI answered."""
    command = [sys.executable, "-m", "nats3_dagster.cli", "dev", "-o", "json", *options]
    script = ["sh", "-c", '"$@" & echo $!; wait $!', "sh", *command]
    with log.open("w") as err, subprocess.Popen(script, stdout=subprocess.PIPE, stderr=err, text=True) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        try:
            text = ""
            while not text.endswith("}\n"):
                line = shell.stdout.readline()
                assert line, log.read_text()
                text += line
            yield shell, pid, json.loads(text)
        except BaseException:  # it must not go on
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            raise


def ended(nats3: Command, shell: subprocess.Popen[str], log: Path) -> str:
    """What it said until it ended by itself, with all that it had started."""
    out, _ = shell.communicate(timeout=60)
    said = log.read_text()
    assert (shell.returncode, out) == (0, ""), said
    assert "Traceback" not in said
    # Dagster, too, was asked to, and not killed after a while.
    assert "Stopping the Dagster UI" in said
    assert running(nats3) == set()
    return said


def test_with_the_dagster_ui_until_it_is_interrupted(nats3: Command, home: Path, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with in_a_script(log) as (process, pid, told):
        with urllib.request.urlopen(f"{told['ui']}/server_info", timeout=10) as answer:
            assert "dagster_version" in json.load(answer)
        # Spark Connect is not waited for. Commands and runs of this stack use it, and other users have no token.
        all_of_it = {"nats", "postgres", "s3", "spark", "dagster"}
        eventually(lambda: running(nats3) == all_of_it, "Spark Connect listens", 120, every_s=1)
        remote = Settings.load().connect
        assert remote
        assert remote.startswith(f"{told['spark']}/;token=")
        assert (home / "spark" / "token").stat().st_mode & 0o777 == 0o600
        assert remote not in log.read_text() + json.dumps(told)
        # `nats3 store create` in another shell knows whom to ask for a reload.
        assert Settings.load().dagster_url == told["ui"]
        assert reload_dagster(Settings.load()) == "Dagster reloaded nats3; its daemon follows within a minute"
        # Of an archive that a program creates without that, Dagster hears by itself.
        with Workspace(Settings.load()) as workspace:
            create_stream(workspace.link, {"name": "QUIET", "subjects": ["quiet.>"], "storage": "file"})
            create(workspace, ArchiveSpec(name="quiet", stream="QUIET", bucket="archive"), create_bucket=True)
        eventually(lambda: webserver.place_of(told["ui"], "quiet_replay"), "Dagster loads the archive", every_s=1)
        # A second one says where it runs, and touches nothing.
        again = nats3.ok("dev", "-o", "json")
        assert again.json == told
        assert f"Dagster runs already at {told['ui']} (pid " in again.err
        assert "stop it with nats3 dev stop" in again.err
        at = {s["server"]: s["address"] for s in nats3.ok("dev", "status", "-o", "json").json}
        assert at == {name: told[name] for name in ("nats", "postgres", "s3", "spark")} | {"dagster": told["ui"]}
        assert process.poll() is None
        # What dies comes back, and its death is said.
        for server in ("postgres", "s3.*proxy", "SparkConnectServer", r"dagster.*daemon run"):
            _kill_below(pid, server)
        for server in ("Postgres", "S3 server", "Spark Connect", "Dagster"):
            eventually(
                lambda server=server: f"{server} runs again" in log.read_text() or process.poll(), f"{server} again"
            )
        assert process.poll() is None
        eventually(lambda: running(nats3) == all_of_it, "Spark Connect listens again", 120, every_s=1)
        # At the same place: runs of this Dagster know that one.
        assert Settings.load().connect == remote
        os.kill(pid, signal.SIGINT)
        said = ended(nats3, process, log)
    assert Settings.load().connect is None
    for server in ("Postgres", "S3 server", "Spark Connect"):
        assert f"{server} ended (signal SIGKILL); starting it again" in said
    assert "Dagster ended (dagster-daemon process shut down unexpectedly with return code -9)" in said


def test_a_signal_of_a_supervisor_stops_it(nats3: Command, home: Path, tmp_path: Path) -> None:
    with in_a_script(tmp_path / "stderr", "--no-connect") as (process, pid, told):
        assert told["spark"] is None
        assert "spark" not in running(nats3)
        os.kill(pid, signal.SIGTERM)
        ended(nats3, process, tmp_path / "stderr")


def test_stopped_by_another_command_it_ends_and_starts_nothing_again(nats3: Command, home: Path) -> None:
    command = [sys.executable, "-m", "nats3_dagster.cli", "dev", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in ("}\n", ""):
            pass
        stopped = nats3.ok("dev", "stop", "-o", "json").json["stopped"]
        _, err = process.communicate(timeout=60)
    assert set(stopped) == {"nats", "postgres", "s3", "spark", "dagster"}
    assert (process.returncode, running(nats3)) == (0, set()), err
    assert "Another command stopped the servers" in err


def test_migrate_waits_for_postgres(home: Path) -> None:
    postgres = Postgres(home / "postgres", fast=True).start()
    postgres.stop()
    command = [sys.executable, "-m", "nats3_dagster.cli", "migrate", "--wait", "90", "-o", "json"]
    settings = os.environ | {"NATS3_POSTGRES_URL": postgres.url()}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings) as process:
        assert process.stderr is not None
        assert "is not reachable" in process.stderr.readline()
        with postgres:
            out, err = process.communicate(timeout=90)
    assert (process.returncode, json.loads(out).keys(), err) == (0, {"schema"}, "")


def _kill_below(pid: int, pattern: str) -> None:
    """kill -9 of the oldest process below `pid` whose command line has the pattern."""
    for process in sorted(psutil.Process(pid).children(recursive=True), key=psutil.Process.create_time):
        with suppress(psutil.Error):  # one that ends just now
            if re.search(pattern, " ".join(process.cmdline())):
                process.kill()
                return
    raise AssertionError(f"nothing runs that is {pattern}")
