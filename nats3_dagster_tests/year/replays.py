"""Replays beside years of data: an attempt at all chunks of `long`, and a month of small chunks that have messages.

The store is a folder. The objects of `long` have their sizes and no content: all that an attempt does but for messages
is measured with them, and what messages take is measured with the month.
"""

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from nats3_dagster.archive.keep.compaction import compact_hours
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.defs.assets.events import replayed
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import ArchiveSpec, Chunk, ChunkResult, ReplaySpec, Selection, StreamState
from nats3_dagster.replay import pages
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.drive import drive
from nats3_dagster.replay.job import ReplayJob, Share, shares
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.compaction import LOGS, T0, fill_hour
from nats3_dagster_tests.support.replays import publish_here
from nats3_dagster_tests.support.wire import Wire

REPLAY, OBJECTS = "0" * 16, 100_000
# Chunks and messages of each hour of the month.
CHUNKS, MESSAGES = 60, 40


@dataclass(frozen=True, slots=True)
class Files:
    """A store that is a folder, and beside it what one row leaves for the next."""

    folder: Path

    @property
    def url(self) -> str:
        return f"file://{self.folder / 'store'}"

    @classmethod
    def of(cls, workspace: Workspace) -> "Files":
        """Those of a row's process, which has the folder as its store."""
        return cls(Path(workspace.settings.store.url.removeprefix("file://")).parent)

    def bucket(self, name: str) -> Path:
        return self.folder / "store" / name


def fill_objects(workspace: Workspace, files: Files, bucket: str) -> None:
    """A file for each chunk of `long`, of its size."""
    archive, made = workspace.catalog.archives.get("long"), set[Path]()
    for page in workspace.catalog.chunks.pages(archive, pages.PAGE, with_minutes=False):
        for chunk in page:
            path = files.bucket(bucket) / chunk.meta.key
            if path.parent not in made:
                path.parent.mkdir(parents=True)
                made.add(path.parent)
            with path.open("wb") as file:
                os.truncate(file.fileno(), chunk.meta.stored_bytes)


def make_streams(nats_url: str) -> None:
    """The targets. By a connection that ends: the server closes one that has not answered it for minutes."""
    with Wire(nats_url) as wire:
        for name in ("LONGBACK", "SMALL", "FEW"):
            wire.create_stream(name, f"{name.lower()}.>", duplicate_window=100_000_000)


def fill_replay(workspace: Workspace) -> None:
    """The replay of all of `long` that the driver's row publishes."""
    begin(workspace, _SPEC, replay_id=REPLAY)


_SPEC = ReplaySpec("long", "longback.>")


def fill_month(workspace: Workspace, bucket: str, hours: int) -> None:
    """The archive `month`: small chunks, with an object each."""
    last = hours * CHUNKS * MESSAGES
    state = StreamState(LOGS, 1, last, T0, T0, last, 0, {"name": "LOGS"})
    archive = workspace.catalog.archives.create(ArchiveSpec("month", "LOGS", bucket), state)
    folder.claim(workspace, archive)
    for hour in range(hours):
        fill_hour(workspace, archive, hour, CHUNKS, MESSAGES)
    list(seal_hours(workspace, archive, [hour_of(T0 + n * HOUR_NS) for n in range(hours)]))


def compact_month(workspace: Workspace) -> None:
    """Each hour of `month` is one chunk."""
    archive = workspace.catalog.archives.get("month")
    for _ in compact_hours(workspace, archive, [*workspace.catalog.hours.revisions(archive)]):
        pass


def begin_everything(workspace: Workspace) -> None:
    """A replay of all chunks of `long` is planned and recorded."""
    _, plan = begin(workspace, ReplaySpec("long", "longback.other.>"))
    assert plan.extent.chunks == len(plan.chosen.ids)


def driver_part(workspace: Workspace) -> None:
    """An attempt at all chunks of `long`. Tasks answer at once; what they are given is kept for `task_part`."""
    with (Files.of(workspace).folder / "shares").open("wb") as file:

        def publish(job: ReplayJob, chunks: tuple[Chunk, ...]) -> tuple[Sequence[ChunkResult], None]:
            assert len(chunks) <= pages.PAGE
            # As for a job of Spark's: a function that has the shares in it.
            pickle.dump(cloudpickle.dumps(shares(job, chunks, 2)), file)
            return [
                ChunkResult(c.id, c.meta.messages, c.meta.messages, 0, 0, 0, c.meta.covers.last) for c in chunks
            ], None

        done = drive(workspace, REPLAY, publish)
    totals = workspace.catalog.archives.totals_of(workspace.catalog.archives.get("long"))
    assert totals
    assert (done.chunks, done.replay.state) == (totals.chunks, "succeeded")


def task_part(workspace: Workspace) -> None:
    """All that a worker of Spark's holds for the same attempt, but for messages: it is used again for each page."""
    with (Files.of(workspace).folder / "shares").open("rb") as file, Link(workspace.settings.nats) as link:
        while data := _next(file):
            (share,) = cloudpickle.loads(data)
            assert isinstance(share, Share)
            held = Republisher(share, link), list(share.chunks)
            assert len(held[1]) <= pages.PAGE


def afterwards(workspace: Workspace) -> None:
    """What is told of the same replay when it has succeeded, and what it may delete; nothing is deleted."""
    done = replayed(workspace, workspace.catalog.replays.get(REPLAY))
    chunks = sum(hour.chunks for hour in done.hours.values())
    hours = [done.metadata(hour) for hour in done.hours]
    assert sum(int(hour["chunks"]) for hour in hours) == chunks
    assert sum(map(len, workspace.catalog.replay_chunks.whole(REPLAY).values())) == chunks


def _next(file: Any) -> bytes | None:
    try:
        return pickle.load(file)  # a row of this process's own run wrote it
    except EOFError:
        return None


def look_for_objects(workspace: Workspace) -> None:
    """Whether the objects of the first OBJECTS chunks of `long` are there."""
    archive, left = workspace.catalog.archives.get("long"), OBJECTS
    for page in ArchiveSelection(workspace, archive, Selection()).pages():
        check_objects(workspace, page[:left])
        left -= len(page[:left])
        if not left:
            break


def publish_small(workspace: Workspace) -> None:
    """All messages of the month, from a chunk a minute."""
    _publish_month(workspace, "small.>", CHUNKS)


def publish_compacted(workspace: Workspace) -> None:
    """The same messages, from a chunk an hour."""
    _publish_month(workspace, "few.>", 1)


def _publish_month(workspace: Workspace, write_subject: str, each_hour: int) -> None:
    hours = len(workspace.catalog.hours.revisions(workspace.catalog.archives.get("month")))
    begun, _ = begin(workspace, ReplaySpec("month", write_subject, Selection(subjects=("logs.>",))))
    done = drive(workspace, begun.id, publish_here)
    assert (done.chunks, done.published) == (hours * each_hour, hours * CHUNKS * MESSAGES)
    assert done.replay.state == "succeeded"
