"""The process that Spark forks its Python workers from on this machine."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.pipeline import session
from nats3_dagster.pipeline.tasks import run_tasks

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux shows the threads of a process")


def parent(_: int) -> Iterator[tuple[str, int, set[str]]]:
    """The command line of a worker's parent, its threads, and what the worker got from it."""
    above = Path(f"/proc/{os.getppid()}")
    yield (above / "cmdline").read_text(), len(list((above / "task").iterdir())), {*sys.modules}


def test_workers_are_forked_with_their_imports_done_by_a_process_of_one_thread(spark: Any) -> None:
    """A lock that another thread of the parent held when it forked would stay held in the worker for ever."""
    done = run_tasks(spark, "parents", parent, (1,))
    assert done.error is None
    ((command, threads, modules),) = done.results
    assert "nats3_dagster.pipeline.worker_daemon" in command
    assert threads == 1
    assert {
        "pyspark.worker",
        "nats.aio.client",
        "obstore.store",
        "pyarrow",
        "nats3_dagster.archive.captures.read",
    } <= modules


@pytest.mark.parametrize(
    ("master", "conf", "folder", "is_ours"),
    [
        (None, {}, None, True),
        ("local[4]", {}, "/etc/spark", True),
        (None, {"spark.master": "local[2]"}, "/etc/spark", True),
        (None, {}, "/etc/spark", False),
        ("spark://host:7077", {}, None, False),
        (None, {"spark.master": "yarn"}, None, False),
        (None, {"spark.python.daemon.module": "mine"}, None, False),
    ],
)
def test_on_a_cluster_and_where_users_say_so_it_is_another_one(
    monkeypatch: pytest.MonkeyPatch, master: str | None, conf: dict[str, str], folder: str | None, is_ours: bool
) -> None:
    """A worker of a cluster may get this package only with its task."""
    given: list[dict[str, object]] = []
    monkeypatch.setattr(session.jvm, "launch", given.append)
    monkeypatch.setattr(session, "prepare", lambda _: None)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    if folder:
        monkeypatch.setenv("SPARK_CONF_DIR", folder)
    session.prepare_jvm(master, conf)
    (started,) = given
    daemon = started.pop("spark.python.daemon.module", None)
    assert (daemon == "nats3_dagster.pipeline.worker_daemon") == is_ours
    assert started == {name: value for name, value in conf.items() if name == "spark.master"}
