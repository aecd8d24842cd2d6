"""The spark-submit entry points on a real standalone cluster: a master and two workers, each a process of its own."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest

from nats3_dagster.catalog import grant
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.pipeline.pyspark_features import READ_LIMITS
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.planting import forms
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.runs import archive_events, came_back, hours_of, strange_messages
from nats3_dagster_tests.support.servers.roles import PASSWORD, ROLE, role
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
DRIVER = "nats3_dagster_tests.acceptance.cluster_driver"
SECRET = "planted-7Zq"
# Of the master's log; of an application that is gone it says that it got disassociated.
_GIVEN_BACK = "Received unregister request from application"


@pytest.fixture(scope="module")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the master, the workers and the executors write."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def spark_master(cluster_folder: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    tmp_path = cluster_folder
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }
    log = tmp_path / "master.log"
    processes = []

    def start(output: Path, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
        with output.open("wb") as out:
            processes.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            )

    try:
        start(log, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = _found(log, r"Starting Spark master at (spark://\S+)")
        page = _found(log, r"MasterWebUI.* started at (http://\S+)|(http://127\.0\.0\.1:\d+)")
        for n in range(2):
            start(
                tmp_path / f"worker{n}.log",
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "600m",
                "--webui-port",
                "0",
                url,
            )
        _wait_for_workers(page, 2)
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)


@pytest.mark.timeout(300)
def test_capture_on_a_standalone_cluster_and_a_replay_whose_executors_are_killed_and_that_is_resumed(
    settings: Settings, nats: NatsServer, bucket: str, spark_master: str
) -> None:
    sent = [*strange_messages(1500), *((f"ev.{n % 5}", b"", b"%d" % n) for n in range(8500))]
    count = len(sent)
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish(sent)
        archive_events(settings, bucket)
        hours = hours_of(wire, "EV")
        lines = submit(spark_master, "capture.py", "events", *(part for hour in hours for part in ("--hour", hour)))
        assert sum(line["messages"] for line in lines) == count

        wire.create_stream("BACK", "back.>", duplicate_window=1_000_000_000)
        mapped = ("--read-subject", "ev.>", "--write-subject", "back.>")
        with started(spark_master, "republish.py", "events", *mapped, "--rate", "1500") as process:
            while wire.state("BACK")["messages"] < count // 8:
                assert process.poll() is None
                time.sleep(0.05)
            for executor in executors():
                executor.kill()
            said, _ = process.communicate(timeout=60)
        assert process.returncode == 1, said
        assert "Traceback" not in said
        wire.quiet("BACK", 1.2)
        replay = next(json.loads(line)["replay"] for line in said.splitlines() if '"replay"' in line)
        assert f"Resume replay {replay}" in said
        first, last = submit(spark_master, "republish.py", "--resume", replay)
        assert (first["replay"], last["replay"]) == (replay, replay)
        assert (last["published"] + last["found"], wire.state("BACK")["messages"]) == (count, count)
        assert [came_back(m, "back.", "ev.") for m in wire.messages("BACK")] == sent


@pytest.mark.timeout(420)
def test_sources_and_sinks_lose_double_and_show_nothing_while_executors_are_killed(
    settings: Settings,
    nats_factory: NatsFactory,
    postgres_url: str,
    bucket: str,
    spark_master: str,
    cluster_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 3000
    users = f"{{user: planted, password: {SECRET}}}, {{user: wire, password: wire}}"
    server = nats_factory(f"authorization {{users: [{users}]}}\nno_auth_user: wire")
    folder = tmp_path / "driver"
    folder.mkdir()
    with Wire(server.url) as wire, role(postgres_url) as url:
        grant(postgres_url, ROLE)
        wire.create_stream("EV", "ev.>")
        with Workspace(settings.model_copy(update={"nats_url": server.url})) as workspace:
            for numbers in (range(count // 2), range(count // 2, count)):
                wire.publish([(f"ev.{n % 5}", b"NATS/1.0\r\nN: %d\r\n\r\n" % n, b"%d" % n) for n in numbers])
                archived(workspace, wire, "EV", bucket, "events")
        wire.create_stream("COPY", "copy.>")
        wire.create_stream("AGAIN", "again.>")
        planted = {
            "NATS3_NATS_URL": server.url,
            "NATS3_NATS_USER": "planted",
            "NATS3_NATS_PASSWORD": SECRET,
            "NATS3_POSTGRES_URL": url,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [sys.executable, "-m", DRIVER, spark_master, server.url, str(folder)]
        with (
            (folder / "driver.log").open("w") as log,
            subprocess.Popen(
                command, env=os.environ | planted, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            ) as process,
        ):
            for stream, killed in (("COPY", 2), ("AGAIN", 1)):
                while not count // 10 < wire.state(stream)["messages"]:
                    assert process.poll() is None, (folder / "driver.log").read_text()[-3000:]
                    time.sleep(0.05)
                for executor in executors()[:killed]:
                    executor.kill()
                assert wire.state(stream)["messages"] < count  # it was in the middle
            assert process.wait(300) == 0, (folder / "driver.log").read_text()[-3000:]
        output = (folder / "driver.log").read_text()
        said: dict[str, Any] = {}
        for line in re.findall(r"^said:(.*)$", output, re.MULTILINE):
            said |= json.loads(line)
        streamed = [1500] * 2 if READ_LIMITS.is_there else [count]
        assert said == {"read": [count, 4], "archive": [count, 2], "streamed": streamed}
        copies = list(wire.messages("COPY"))
        assert sorted((m.subject, int(m.data)) for m in copies) == sorted((f"copy.{n % 5}", n) for n in range(count))
        assert all(b"Nats-Msg-Id: copy-%d\r\nN: %b\r\n" % (int(m.data) + 1, m.data) in m.headers for m in copies)
        again = sorted((m.subject, int(m.data)) for m in wire.messages("AGAIN"))
        assert again == sorted((f"again.{n % 5}", n) for n in range(count))
    # What Spark shows: logs of the driver, the master, the workers and the executors, the event log, pages of the UI.
    seen = {path: path.read_bytes() for at in (folder, cluster_folder) for path in at.rglob("*") if path.is_file()}
    everything = b"\n".join(seen.values())
    for there in (
        b"SparkListenerSQLExecutionStart",
        b"Running task",
        b" DEBUG ",
        b"created_ns",
        b"sparkProperties",
        b"concat(copy.",
    ):
        assert there in everything, there
    assert len([path for path in seen if path.name == "stderr"]) >= 5  # of two executors, and of those that followed
    assert settings.s3_secret_access_key
    for secret in (SECRET, PASSWORD, settings.s3_secret_access_key.get_secret_value()):
        for form in forms(secret):
            assert [str(path) for path, content in seen.items() if form.encode() in content] == []


@pytest.mark.timeout(120)
def test_a_run_of_dagster_gives_its_executors_back_before_its_process_ends(
    spark_master: str, cluster_folder: Path
) -> None:
    """In a pod the process takes its JVM along, and Spark could not remove the pods of executors any more."""
    environment = os.environ | {"NATS3_SPARK_MASTER": spark_master, "PYSPARK_PYTHON": sys.executable}
    log = cluster_folder / "master.log"
    before = log.read_text().count(_GIVEN_BACK)
    # The JVM has no time for a hook of its own.
    script = """if True:
        import os, signal
        from dagster import build_resources
        from nats3_dagster.defs.instance.resources import RESOURCES, start_spark
        from nats3_dagster.pipeline import jvm
        from nats3_dagster.settings import Settings
        with build_resources({"spark": RESOURCES["nats3_spark"]}) as resources:
            start_spark(resources.spark, Settings.load(), needs_nats=False)
        os.killpg(jvm._running._process.pid, signal.SIGKILL)
    """
    command = [sys.executable, "-c", script]
    subprocess.run(command, env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"}, cwd=ROOT, check=True, timeout=60)
    eventually(lambda: log.read_text().count(_GIVEN_BACK) > before, "the master hears that the application has ended")


def executors() -> list[psutil.Process]:
    """The executors' JVMs: those that were told to report to a driver, by workers that this process started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # one that ends
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline():
                found.append(process)
    return found


def started(master: str, script: str, *arguments: str) -> subprocess.Popen[str]:
    """An entry point, started as an operator does."""
    command = [
        *(str(ROOT / "spark" / "submit.sh"), "--master", master, "--conf", "spark.cores.max=2"),
        *(str(ROOT / "spark" / script), *arguments),
    ]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    # spark-submit sends what the script writes on standard error to its own standard output.
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def submit(master: str, script: str, *arguments: str) -> list[dict[str, Any]]:
    """Run an entry point to its end; what it printed, line by line: Spark prints nothing, but that it waits for
    executors, which may take 15 s to start on a busy machine."""
    with started(master, script, *arguments) as process:
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said[-3000:]
    lines = [line for line in said.splitlines() if "Initial job has not accepted any resources" not in line]
    assert [line for line in lines if not line.startswith("{")] == []
    return [json.loads(line) for line in lines]


def _found(log: Path, pattern: str) -> str:
    for _ in range(300):
        if match := re.search(pattern, log.read_text(errors="replace")):
            return next(group for group in match.groups() if group)
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])


def _wait_for_workers(page: str, count: int) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(300):
        with opener.open(f"{page}/json/", timeout=5) as answer:
            if json.load(answer)["aliveworkers"] == count:
                return
        time.sleep(0.1)
    raise AssertionError("the workers did not register")
