"""The spark-submit entry points on a real standalone cluster: a master and two workers, each a process of its own."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.settings import Settings
from nats3_dagster_tests.acceptance.stories import archive_events, came_back, hours_of, strange_messages
from nats3_dagster_tests.wire import Wire

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]


@pytest.fixture
def spark_master(tmp_path: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_DAEMON_MEMORY": "256m",
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


@pytest.mark.timeout(170)
def test_capture_and_republish_on_a_standalone_cluster(
    settings: Settings, nats: NatsServer, bucket: str, spark_master: str
) -> None:
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        sent = strange_messages(1500)
        wire.publish(sent)
        archive_events(settings, bucket)
        hours = hours_of(wire, "EV")
        lines = submit(spark_master, "capture.py", "events", *(part for hour in hours for part in ("--hour", hour)))
        assert sum(line["messages"] for line in lines) == len(sent)
        wire.create_stream("BACK", "back.>")
        first, last = submit(
            spark_master, "republish.py", "events", "--read-subject", "ev.>", "--write-subject", "back.>"
        )
        assert (last["id"], last["published"]) == (first["replay"], len(sent))
        assert [came_back(m, "back.", "ev.") for m in wire.messages("BACK")] == sent


def submit(master: str, script: str, *arguments: str) -> list[dict[str, Any]]:
    """Run an entry point as an operator does; what it printed, line by line."""
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--master",
        master,
        "--conf",
        "spark.cores.max=2",
        str(ROOT / "spark" / script),
        *arguments,
    ]
    environment = os.environ | {
        "SPARK_CONF_DIR": str(ROOT / "spark"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


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
