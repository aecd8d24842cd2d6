"""The drill of docs/disaster.md: what is lost comes back by the steps of the page, and how long each step takes.

The times of a run are in the file that DRILL_TIMES names.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.due import select_hours
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.seal import ended_hours, seal_hours, sealable
from nats3_dagster.archive.recovery.rebuild import rebuild
from nats3_dagster.catalog import migrate
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.adoption import gaps, stored
from nats3_dagster_tests.support.captures import plan_hours, read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import replayed
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.needs_nats("2.15")]
HOURS, EACH = 24, 500
START = hour_start(hour_of(time.time_ns() - (HOURS + 2) * HOUR_NS))
PAYLOADS = {n: b"%d " % n + b"x" * 250 for n in range(1, HOURS * EACH + 1)}
PAGE = Path(__file__).parents[2] / "docs" / "disaster.md"


@dataclass
class Drill:
    """A day of an archive, and a clock."""

    workspace: Workspace
    archive: Archive
    times: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.times[name] = time.monotonic() - began


def capture(workspace: Workspace) -> Archive:
    """Capture all that the stream has and the archive has not, in this process."""
    archive = workspace.catalog.archives.get("events")
    if hours := select_hours(workspace, "events"):
        planned = plan_hours(workspace, archive, hours)
        commit.commit(workspace, planned, read(workspace, planned))
    return archive


@pytest.fixture
def drill(workspace: Workspace, wire: Wire, bucket: str) -> Iterator[Drill]:
    """A stream of a day, and its archive, captured and sealed. At the end the page must have each step."""
    past = [
        Past(n, START + (n - 1) // EACH * HOUR_NS + n % EACH * 1_000_000, f"ev.{n % 4}", b"", data)
        for n, data in PAYLOADS.items()
    ]
    restore_stream(workspace.settings.nats, "EV", ["ev.>"], past)
    create(workspace, ArchiveSpec("events", "EV", bucket))
    archive = capture(workspace)
    first, _ = ended_hours(workspace, archive)
    assert len(list(seal_hours(workspace, archive, sealable(workspace, archive, first).hours))) >= HOURS
    made = Drill(workspace, archive)
    yield made
    rows = [f"| {name} | {seconds:.1f} s |" for name, seconds in made.times.items()]
    if path := os.environ.get("DRILL_TIMES"):
        with Path(path).open("a") as file:
            file.write("\n".join(rows) + "\n")
    page = PAGE.read_text()
    assert [name for name in made.times if f"| {name} |" not in page] == []


@pytest.fixture
def new_catalog(
    workspace: Workspace, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Workspace]]:
    """Opens an empty catalog in the place of the one that is lost, for this process and commands."""
    opened: list[Workspace] = []

    def make() -> Workspace:
        migrate(empty_postgres_url)
        monkeypatch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
        opened.append(Workspace(Settings.load()).__enter__())
        return opened[0]

    yield make
    for one in opened:
        one.__exit__(None, None, None)


def is_whole(workspace: Workspace, archive: Archive) -> bool:
    return stored(workspace, archive) == PAYLOADS and gaps(workspace, archive) == {}


def test_postgres_is_lost(drill: Drill, new_catalog: Callable[[], Workspace], nats3: Command, bucket: str) -> None:
    with drill.step("Postgres lost: `migrate` and `catalog rebuild`"):
        other = new_catalog()
        assert [one.error for one in rebuild(other, bucket)] == [None]
    with drill.step("Postgres lost: `store run`, which has nothing to do"):
        archive = capture(other)
    assert is_whole(other, archive)
    with drill.step("Postgres lost: `chunk verify` of every object"):
        nats3.ok("chunk", "verify", "events")


def test_the_bucket_is_lost(drill: Drill, s3_client: Any, nats3: Command, bucket: str) -> None:
    copy = {key: s3_client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys(s3_client, bucket)}
    empty(s3_client, bucket)
    with drill.step("bucket lost: put back from a copy"):
        for key, data in copy.items():
            s3_client.put_object(Bucket=bucket, Key=key, Body=data)
    with drill.step("bucket lost: `chunk verify` of what was put back"):
        nats3.ok("chunk", "verify", "events")
    assert is_whole(drill.workspace, drill.archive)
    empty(s3_client, bucket)
    for key, data in copy.items():
        if not key.endswith(".parquet"):
            s3_client.put_object(Bucket=bucket, Key=key, Body=data)
    with drill.step("bucket lost without a copy: `chunk repair` from the stream"):
        hours = [hour_of(START + n * HOUR_NS) for n in range(HOURS)]
        assert "name the hours" in nats3("chunk", "repair", "events").err
        nats3.ok("chunk", "repair", "events", *(word for hour in hours for word in ("--hour", hour)))
    assert is_whole(drill.workspace, drill.archive)


def test_the_stream_is_lost(drill: Drill, wire: Wire) -> None:
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("BACK", "back.>")
    with drill.step("stream lost: a replay of everything into a new stream"):
        spec = ReplaySpec("events", "back.>", Selection(subjects=("ev.>",)))
        assert replayed(drill.workspace, spec).state == "succeeded"
    assert [message.data for message in wire.messages("BACK")] == list(PAYLOADS.values())


def test_only_the_bucket_is_left(drill: Drill, new_catalog: Callable[[], Workspace], wire: Wire, bucket: str) -> None:
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("BACK", "back.>")
    with drill.step("only the bucket left: `migrate`, `catalog rebuild`, and a replay"):
        other = new_catalog()
        assert [one.error for one in rebuild(other, bucket)] == [None]
        spec = ReplaySpec("events", "back.>", Selection(subjects=("ev.>",)))
        assert replayed(other, spec).state == "succeeded"
    assert [message.data for message in wire.messages("BACK")] == list(PAYLOADS.values())


def test_only_the_stream_is_left(
    drill: Drill, new_catalog: Callable[[], Workspace], s3_client: Any, bucket: str
) -> None:
    empty(s3_client, bucket)
    with drill.step("only the stream left: `migrate`, `store create` and `store run`"):
        other = new_catalog()
        create(other, ArchiveSpec("events", "EV", bucket))
        archive = capture(other)
    assert is_whole(other, archive)


def keys(s3_client: Any, bucket: str) -> list[str]:
    pages = s3_client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def empty(s3_client: Any, bucket: str) -> None:
    for key in keys(s3_client, bucket):
        s3_client.delete_object(Bucket=bucket, Key=key)
