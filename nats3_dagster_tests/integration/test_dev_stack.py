"""The embedded stack: started once, found by whoever comes next, stopped whole, and never left behind by a test run."""

import gc
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import psutil
import psycopg
import pytest

from nats3_dagster.dev.nats_server import find_nats_server, version_of
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.process import Process, free_port, wait_for
from nats3_dagster.dev.stack import Stack, StoppedElsewhere
from nats3_dagster.dev.supervisor import Ended, Supervisor
from nats3_dagster.errors import EngineError

pytestmark = pytest.mark.slow

START_ALL = """
import sys, time
from pathlib import Path
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.s3.server import S3Server
folder = Path(sys.argv[1])
servers = [NatsServer(folder / "nats"), Postgres(folder / "pg", fast=True), S3Server(folder / "s3")]
for server in servers:
    server.start()
print("up", flush=True)
%s
"""


def _of(folder):
    """The live servers whose command line names the folder."""
    servers = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or ()
        if process.info["status"] == psutil.STATUS_ZOMBIE or any("NatsServer" in word for word in words):
            continue
        if any(str(folder) in word for word in words):
            servers.append(process)
    return servers


def _pid(server):
    assert server.process
    return server.process.pid


def _left(folder):
    """The command lines that still run after 15 s."""
    wait_for(lambda: not _of(folder), 15)
    return [process.cmdline() for process in _of(folder)]


@pytest.fixture
def home(server_folder, request):
    """A folder for a stack, with a name that needs quoting; what a failed test leaves running there is ended."""
    folder = server_folder / f"a stack für {request.node.name[:40]}"
    yield folder
    for process in _of(folder):
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _run(home, action, umask=-1):
    env = {**os.environ, "NATS3_HOME": str(home)}
    argv = [sys.executable, "-m", "nats3_dagster.dev.stack", action]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, umask=umask)


def _open_to_others(home):
    """What other users may do something with: below a folder that they cannot pass nothing is."""
    return [path for path in (home, *home.rglob("*")) if not path.is_symlink() and path.stat().st_mode & 0o077]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("time.sleep(60)", "kill -9"),
        ("import os; os.fork(); time.sleep(60)", "kill -9 while a fork still holds its files"),
        ("", "forgot to stop them"),
        ("raise SystemExit(1)", "failed"),
    ],
)
def test_no_server_outlives_the_process_that_started_it(home, end, why):
    home.mkdir()
    child = subprocess.Popen([sys.executable, "-c", START_ALL % end, str(home)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout
        assert child.stdout.readline() == "up\n"
        if "kill" in why:
            assert len([p for p in _of(home) if p.ppid() == child.pid]) == 6  # nats, postgres, four of Swift's
            child.kill()
        child.wait(30)
        assert _left(home) == []
    for fork in (p for p in psutil.process_iter(["cmdline"]) if str(home) in (p.info["cmdline"] or ())):
        fork.kill()


def test_servers_started_by_a_thread_live_on_after_it(nats_factory):
    server = []
    thread = threading.Thread(target=lambda: server.append(nats_factory()))
    thread.start()
    thread.join()
    with pytest.raises(psutil.TimeoutExpired):
        psutil.Process(_pid(server[0])).wait(0.5)


def test_the_stack_outlives_its_starter_is_found_again_and_stops_whole(home):
    began = _run(home, "start", umask=0)
    assert (began.returncode, began.stderr) == (0, "")
    # The files are their owner's, whatever the umask is.
    assert _open_to_others(home) == []
    first = json.loads((home / "stack.json").read_text())
    pids = {p.pid for p in _of(home)}
    assert stat.S_IMODE((home / "stack.json").stat().st_mode) == 0o600

    stack = Stack(home).start()
    assert {p.pid for p in _of(home)} == pids
    assert json.loads((home / "stack.json").read_text()) == first
    assert stack.running() == {"nats": True, "postgres": True, "s3": True}
    with psycopg.connect(stack.endpoints.postgres_url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)

    assert _run(home, "stop").returncode == 0
    assert _of(home) == []
    assert not (home / "stack.json").exists()
    assert stack.running() == {"nats": False, "postgres": False, "s3": False}


def test_what_died_is_started_again_on_its_port_and_keeps_its_data(home):
    stack = Stack(home, stay=False, fast=True).start()
    before = stack.endpoints
    with psycopg.connect(before.postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id int)")
    alive = _pid(stack.nats)
    stack.postgres.kill()
    stack.s3.processes["proxy"].kill()

    again = stack.start()
    assert again.endpoints == before
    assert _pid(again.nats) == alive
    with psycopg.connect(before.postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    with urllib.request.urlopen(f"{before.s3_endpoint}/healthcheck") as answer:
        assert answer.status == 200
    stack.stop()
    assert _of(home) == []


def test_a_postgres_killed_whose_starter_does_not_reap_it_starts_again(home):
    """A zombie has its pid still, and postmaster.pid names it."""
    folder = home / "postgres"
    killed = Postgres(folder, fast=True, stay=True).start()
    os.kill(_pid(killed), signal.SIGKILL)
    assert wait_for(lambda: psutil.Process(_pid(killed)).status() == psutil.STATUS_ZOMBIE, 10)
    with Postgres(folder, port=killed.port, fast=True) as again:
        assert again.process is not None
        assert again.process.running
        assert psutil.Process(_pid(killed)).status() == psutil.STATUS_ZOMBIE
    assert killed.ended is not None


def test_servers_that_end_are_named_and_started_again_but_not_for_ever(home):
    stack = Stack(home, stay=False, fast=True).start()
    supervisor = Supervisor(stack, restarts=1)
    assert supervisor.restore() == []
    proxy = stack.s3.processes["proxy"]
    os.kill(_pid(stack.postgres), signal.SIGKILL)
    assert wait_for(lambda: stack.postgres.ended is not None, 10)

    def kill_proxy(_: Ended) -> None:
        os.kill(proxy.pid, signal.SIGKILL)
        assert wait_for(lambda: not proxy.running, 10)

    # What ends while another is started again is named by the next look.
    ended = [supervisor.restore(kill_proxy), supervisor.restore()]
    assert [[(e.server, e.how) for e in look] for look in ended] == [
        [("Postgres", "signal SIGKILL")],
        [("S3 server", "signal SIGKILL")],
    ]
    assert stack.running() == {"nats": True, "postgres": True, "s3": True}
    # What another process has started again is taken over.
    os.kill(_pid(stack.nats), signal.SIGKILL)
    assert wait_for(lambda: stack.nats.ended is not None, 10)
    assert _run(home, "start").returncode == 0
    assert [e.server for e in supervisor.restore()] == ["nats-server"]
    assert stack.nats.ended is None
    # It ended twice, and may be started again once.
    os.kill(_pid(stack.postgres), signal.SIGKILL)
    assert wait_for(lambda: stack.postgres.ended is not None, 10)
    with pytest.raises(EngineError, match=r"Postgres ended 2 times within .* See .*postgres/server\.log"):
        supervisor.restore()
    assert not stack.postgres.find()
    # Another process stopped all of it on purpose.
    assert _run(home, "stop").returncode == 0
    with pytest.raises(StoppedElsewhere):
        supervisor.restore()
    assert _of(home) == []


def test_servers_whose_folder_is_gone_are_still_found_and_stopped(home):
    stack = Stack(home, stay=False, fast=True).start()
    for name in ("s3", "nats"):
        shutil.rmtree(home / name)
    assert stack.running() == {"nats": False, "postgres": True, "s3": False}
    Stack(home).stop()
    assert _of(home) == []


def test_a_stack_that_stays_is_not_taken_for_a_forgotten_one(home):
    Stack(home, fast=True).start()
    gc.collect()  # a dropped handle of a live child is a warning, and a warning is an error
    Stack(home).stop()
    assert _of(home) == []


def test_a_port_of_last_time_that_is_taken_by_now_is_another_one(home):
    with Stack(home, stay=False, fast=True) as stack:
        before = stack.endpoints
    with socket.create_server(("127.0.0.1", stack.nats.port)), Stack(home, stay=False, fast=True) as again:
        assert again.endpoints.nats_url != before.nats_url
        assert again.endpoints.s3_endpoint == before.s3_endpoint


def test_two_starts_at_once_make_one_stack(home):
    argv = [sys.executable, "-m", "nats3_dagster.dev.stack", "start"]
    both = [subprocess.Popen(argv, env={**os.environ, "NATS3_HOME": str(home)}) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert len([p for p in _of(home) if p.ppid() not in {q.pid for q in _of(home)}]) == 6
    Stack(home).stop()
    assert _of(home) == []


def test_a_stack_that_cannot_start_leaves_nothing_running(home, monkeypatch):
    home.mkdir()
    (home / "s3").write_text("not a folder")
    with pytest.raises((EngineError, OSError)):
        Stack(home).start()
    assert _of(home) == []
    assert not (home / "stack.json").exists()


def test_a_stranger_with_a_recycled_pid_is_left_alone():
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        ours = Process(stranger.pid, ("-c", "/some/server.conf"))
        assert not ours.running
        ours.stop(timeout_s=1)
        ours.kill()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_never_answers_is_killed(tmp_path):
    argv = [sys.executable, "-c", "import time; time.sleep(60)", str(tmp_path)]
    process = Process.start(argv, (str(tmp_path),), tmp_path / "log")
    with pytest.raises(EngineError, match=r"It did not answer within 0\.2 s"):
        process.wait_until(lambda: False, "It", timeout_s=0.2)
    assert not process.running


def test_a_folder_that_cannot_be_written_is_one_line():
    with pytest.raises(EngineError, match="Set NATS3_HOME to a folder that you may write"):
        Stack(Path("/proc/nats3") if sys.platform == "linux" else Path("/nats3")).start()


@pytest.mark.skipif(sys.platform != "linux", reason="makes a file system without xattrs")
def test_a_folder_without_xattrs_is_one_line_with_the_next_step(home):
    home.mkdir()
    script = f"mount -t ramfs none '{home}' && exec {sys.executable} -m nats3_dagster.dev.s3.server '{home}/s3'"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("needs to be allowed to mount")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no user xattrs there" in done.stderr
    assert "Set NATS3_HOME to a folder on" in done.stderr


def test_a_missing_nats_server_names_the_next_step(tmp_path, monkeypatch):
    monkeypatch.setenv("NATS_SERVER", "/no/such/nats-server")
    with pytest.raises(EngineError, match="NATS_SERVER names no program: /no/such/nats-server"):
        find_nats_server()
    monkeypatch.delenv("NATS_SERVER")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    if not Path("/usr/sbin/nats-server").exists():
        with pytest.raises(EngineError, match=r"Install it \(package nats-server .*in a checkout: make setup"):
            find_nats_server()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nats-server").write_text("#!/bin/sh\necho nats-server: v2.14.3-RC.1\n")
    (tmp_path / "bin" / "nats-server").chmod(0o755)
    assert find_nats_server() == tmp_path / "bin" / "nats-server"
    assert version_of(find_nats_server()) == (2, 14, 3)


def test_a_server_that_does_not_start_says_why(nats_factory):
    with pytest.raises(EngineError, match=r"nats-server ended as soon as it started: .*nonsense.*See .*server\.log"):
        nats_factory(config="include nonsense.conf")
    taken = free_port()
    with socket.create_server(("127.0.0.1", taken)), pytest.raises(EngineError, match=f"Port {taken} of 127.0.0.1"):
        nats_factory(port=taken)
