"""The command line in this process, and a snapshot of everything that a refused command must leave alone."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.main import main, root
from nats3_dagster_tests.support.wire import Wire


@dataclass(frozen=True)
class Ran:
    """What a command said, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of the error: the last on stderr, with nothing but notes before it."""
        lines = self.err.splitlines()
        assert sum(line.startswith(("Error: ", "Interrupted")) for line in lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[-1]


class Command:
    """`nats3 ...`, run by calling `main`: a process of its own would take a second."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *words: str) -> Ran:
        self._capfd.readouterr()
        status = main(list(words))
        out, err = self._capfd.readouterr()
        return Ran(status, out, err)

    def ok(self, *words: str) -> Ran:
        ran = self(*words)
        assert ran.status == 0, ran.err
        return ran

    def refused(self, *words: str) -> str:
        """The status and the error of a command that must fail, and say nothing on stdout."""
        ran = self(*words)
        assert ran.status in (1, 2), (words, ran)
        assert ran.out == "", (words, ran)
        return f"{ran.status} {ran.error}"

    def differences(self, cases: Iterable[tuple[Sequence[str], str]]) -> list[tuple[Sequence[str], str]]:
        """Those of the (words, what is said at first) that say something else. A table in one test: a catalog and a
        bucket for each row of it would take a second."""
        said = [(words, begin, self.refused(*words)) for words, begin in cases]
        return [(words, got) for words, begin, got in said if not got.startswith(begin)]


def root_command() -> Any:
    """The command that `main` runs, with all below it imported."""
    return _loaded(root())


def _loaded(group: LazyGroup) -> LazyGroup:
    for name in list(group.commands):
        if isinstance(command := group.load(name), LazyGroup):
            _loaded(command)
    return group


def everything(postgres_url: str, nats_url: str, s3_client: Any, bucket: str) -> Mapping[str, Any]:
    """Every row of the catalog, every object of the bucket, the names of all buckets, and every stream's state."""
    seen: dict[str, Any] = {}
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'nats3'").fetchall()
        for (table,) in tables:
            rows = connection.execute(
                sql.SQL("SELECT to_jsonb(t) - 'observed_at' FROM nats3.{} t ORDER BY 1").format(sql.Identifier(table))
            )
            seen[table] = rows.fetchall()
    seen["buckets"] = [b["Name"] for b in s3_client.list_buckets()["Buckets"]]
    for item in s3_client.list_objects_v2(Bucket=bucket).get("Contents", []):
        seen[item["Key"]] = item["ETag"]
    with Wire(nats_url) as wire:
        for stream in wire.api("STREAM.LIST").get("streams") or []:
            state = stream["state"]
            seen[stream["config"]["name"]] = [
                state["messages"],
                state["last_seq"],
                state["first_seq"],
                stream["created"],
            ]
    return seen
