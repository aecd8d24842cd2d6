"""Samples of a soak: memory, connections, consumers, open files, rows, files and the age of messages, every 5 s.

A sample is one line of JSON: a value for each curve, by group and name. What cannot be asked, because it was killed a
moment ago, is missing in that sample.
"""

import json
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from nats3_dagster_tests.soak.processes import Processes
from nats3_dagster_tests.support.process_use import status_mb

EVERY_S = 5.0
# Rows of all tables of the catalog and of Dagster in one statement.
_TABLES = """
select schemaname || '.' || relname from pg_stat_user_tables where schemaname in ('nats3', 'public') order by 1
"""
_AGES = """
select a.name, extract(epoch from now()) - max(c.last_ns) / 1e9
from nats3.chunk c join nats3.archive a on a.id = c.archive_id where c.deleted_at is null group by 1
"""
_CONNECTIONS = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
Sample = dict[str, dict[str, float]]


class Sampler:
    """Writes samples until it is stopped."""

    def __init__(self, processes: Processes, file: Path) -> None:
        self._processes, self._file = processes, file
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples")
        self._tables: list[str] = []
        self._began = time.monotonic()

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def now_s(self) -> float:
        """Seconds since the beginning of the soak."""
        return time.monotonic() - self._began

    def _run(self) -> None:
        due = 0.0
        with self._file.open("a") as out:
            while not self._ending.wait(max(0.0, due - self.now_s)):
                due = self.now_s + EVERY_S
                out.write(json.dumps({"at": round(self.now_s, 1), **self._sample()}) + "\n")
                out.flush()

    def _sample(self) -> Sample:
        sample: Sample = {}
        for ask in (self._ask_processes, self._ask_nats, self._ask_postgres, self._ask_folders, self._ask_metrics):
            with suppress(OSError, psycopg.Error, psutil.Error, ValueError, KeyError):
                sample |= ask()
        return sample

    def _ask_processes(self) -> Sample:
        memory, files, counts = dict[str, float](), dict[str, float](), dict[str, float]()
        for role, pids in self._processes.pids().items():
            unshared, opened = 0.0, 0
            for pid in pids:
                with suppress(psutil.Error, OSError):
                    # Without what it shares with others, such as the buffers of Postgres.
                    unshared += status_mb(pid, "RssAnon")
                    opened += psutil.Process(pid).num_fds()
            memory[role], files[role], counts[role] = unshared, opened, len(pids)
        return {"memory": memory, "open files": files, "processes": counts}

    def _ask_nats(self) -> Sample:
        url = self._processes.stack.nats.monitor_url
        general, streams = _get(f"{url}/varz"), _get(f"{url}/jsz")
        return {
            "NATS": {"connections": general["connections"], "subscriptions": general["subscriptions"]},
            "consumers": {"consumers": streams["consumers"]},
            "stored": {"messages of all streams": streams["messages"]},
        }

    def _ask_postgres(self) -> Sample:
        url = self._processes.stack.endpoints.postgres_url
        with psycopg.connect(url, connect_timeout=3, autocommit=True) as connection:
            if not self._tables:
                self._tables = [name for (name,) in connection.execute(_TABLES)]
            parts = [f"select '{name}', count(*) from {name}" for name in self._tables]
            rows: dict[str, float] = dict(connection.execute(" union all ".join(parts)).fetchall())  # type: ignore[arg-type]
            ages = {name: float(age) for name, age in connection.execute(_AGES)}
            (count,) = connection.execute(_CONNECTIONS).fetchone() or (0,)
        return {"rows": rows, "age of the newest archived message": ages, "Postgres": {"connections": count - 1}}

    def _ask_folders(self) -> Sample:
        home = self._processes.folder / "home"
        folders = {"temporary": self._processes.folder / "tmp", "dagster": home / "dagster", "logs": home / "logs"}
        return {"files": {name: sum(1 for _ in at.rglob("*")) if at.exists() else 0 for name, at in folders.items()}}

    def _ask_metrics(self) -> Sample:
        began = time.monotonic()
        with urllib.request.urlopen(self._processes.metrics_url, timeout=4) as answer:
            size = len(answer.read())
        return {"scrape": {"ms": (time.monotonic() - began) * 1000, "KB": size / 1000}}


def _get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=3) as answer:
        return json.load(answer)


def read_samples(file: Path) -> list[dict[str, Any]]:
    """All samples of a run."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def curves(samples: list[dict[str, Any]]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The points (seconds, value) of each curve, by group and name."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for sample in samples:
        for group, values in sample.items():
            if group != "at":
                for name, value in values.items():
                    found.setdefault(group, {}).setdefault(name, []).append((sample["at"], value))
    return found
