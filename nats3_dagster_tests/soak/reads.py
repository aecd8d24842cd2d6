"""The reads of a soak: single messages and queries by the command line, each compared with the truth."""

import itertools
import json
import random
import threading
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import psycopg

from nats3_dagster_tests.soak.setup import CommandFailed, command
from nats3_dagster_tests.soak.truth import hash_of, read_acked

EVERY_S = 20.0
_FRONTIER = """
select c.frontier from nats3.coverage c join nats3.archive a on a.id = c.archive_id where a.name = 'events'
"""


class Reader:
    """Reads until it is stopped. `near_kill`: whether an error at a time counts."""

    def __init__(
        self, postgres_url: str, truth: Path, now: Callable[[], float], near_kill: Callable[[float], bool]
    ) -> None:
        self._url, self._truth, self._now, self._near_kill = postgres_url, truth, now, near_kill
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reads")
        self._random = random.Random(1)
        self.reads = self.failed_near_kills = 0
        # A line for each read that was wrong, or failed without a kill before it.
        self.broken: list[str] = []

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            if self._ending.wait(EVERY_S):
                return
            began = self._now()
            try:
                with psycopg.connect(self._url, connect_timeout=5) as connection:
                    row = connection.execute(_FRONTIER).fetchone()
                if row and row[0] > 0:
                    (self._count if number % 2 else self._get)(int(row[0]))
                    self.reads += 1
            except (CommandFailed, psycopg.Error, OSError) as error:
                if self._near_kill(self._now()) or self._near_kill(began):
                    self.failed_near_kills += 1
                else:
                    self.broken.append(f"read at {began:.0f} s: {error}")

    def _get(self, frontier: int) -> None:
        """A message by its sequence is the one that was acknowledged."""
        seq, acked = read_acked(self._truth, "EVENTS", self._random.randrange)
        while seq > frontier:
            seq, acked = read_acked(self._truth, "EVENTS", self._random.randrange)
        said = json.loads(command("message", "get", "events", "--seq", str(seq), "-o", "json"))
        if int.from_bytes(hash_of(said["subject"].encode(), b64decode(said["data"])), "little") != acked:
            self.broken.append(f"message get {seq}: other bytes than were acknowledged")

    def _count(self, frontier: int) -> None:
        """A range has as many messages as it has sequences: nothing removes any from EVENTS."""
        first = max(1, frontier - 50_000)
        sql = f"select count(*) as messages from events where seq between {first} and {frontier}"
        said = json.loads(command("query", "events", sql, "-o", "json"))
        rows = said["rows"] if isinstance(said, dict) else said
        count = next(iter(rows[0].values())) if isinstance(rows[0], dict) else rows[0][0]
        if int(count) != frontier - first + 1:
            self.broken.append(f"query of sequences {first} to {frontier}: {count} messages")
