"""A standalone cluster of Spark from PySpark's own jars: a master, and workers of one core each, each on one core of
the machine."""

import json
import os
import re
import shutil
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark

from nats3_dagster.dev.process import HOST, wait_for
from nats3_dagster_tests.support.process_use import tree_of

SPARK_HOME = Path(pyspark.__file__).parent
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Cluster:
    """A master and so many workers, in a folder."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder, self._workers = folder, workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> "Cluster":
        self._folder.mkdir()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)

    def _start(self) -> None:
        master = ("org.apache.spark.deploy.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        log = self._spawn("master", (), *master)
        self.url = _found(log, r"Starting Spark master at (spark://\S+)")
        page = _found(log, r"MasterWebUI.* started at (http://\S+)|(http://127\.0\.0\.1:\d+)")
        cores = sorted(os.sched_getaffinity(0))
        for number in range(self._workers):
            pin = ("taskset", "-c", str(cores[number % len(cores)])) if shutil.which("taskset") else ()
            options = ("--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0", self.url)
            self._spawn(f"worker{number}", pin, "org.apache.spark.deploy.worker.Worker", *options)
        if not wait_for(lambda: _alive(page) == self._workers, 90, every_s=0.2):
            raise AssertionError(f"{self._workers} workers did not register")

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs below the workers."""
        found: list[psutil.Process] = []
        for process in self._tree():
            try:
                if _EXECUTOR in process.cmdline():
                    found.append(process)
            except psutil.Error:  # one that ends
                continue
        return found

    def pids(self) -> list[int]:
        """Master, workers, executors and their Python workers."""
        return [process.pid for process in self._tree()]

    def _tree(self) -> list[psutil.Process]:
        return [process for started in self._processes for process in tree_of(started.pid)]

    def _spawn(self, name: str, before: tuple[str, ...], *words: str) -> Path:
        environment = os.environ | {
            "SPARK_LOCAL_IP": HOST,
            "SPARK_WORKER_DIR": str(self._folder),
            "SPARK_CONF_DIR": str(self._folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        }
        log = self._folder / f"{name}.log"
        command = [*before, str(SPARK_HOME / "bin" / "spark-class"), *words]
        with log.open("wb") as out:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            )
        return log


def _found(log: Path, pattern: str) -> str:
    said: list[str] = []

    def search() -> bool:
        if match := re.search(pattern, log.read_text(errors="replace")):
            said.append(next(group for group in match.groups() if group))
        return bool(said)

    if not wait_for(search, 90, every_s=0.1):
        raise AssertionError(log.read_text(errors="replace")[-2000:])
    return said[0]


def _alive(page: str) -> int:
    """How many workers the master has; 0 while it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError), opener.open(f"{page}/json/", timeout=5) as answer:
        return int(json.load(answer)["aliveworkers"])
    return 0
