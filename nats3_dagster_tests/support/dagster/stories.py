"""What several tests of Dagster begin with."""

import time
from dataclasses import replace

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.seal import seal_hours, sealable
from nats3_dagster.catalog import Catalog
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, ChunkResult, Incarnation, ReplaySpec, ReplayTarget, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import chunk, ids


def archive(settings: Settings, bucket: str, name: str = "events", stream: str = "EV", **more: object) -> None:
    """An archive of a stream that is there."""
    spec = ArchiveSpec(name=name, stream=stream, bucket=bucket, **more)  # type: ignore[arg-type]
    with Workspace(settings) as workspace:
        create(workspace, spec)


def archived(settings: Settings, name: str = "events") -> int:
    """How many messages the archive holds."""
    with Catalog.connect(settings.postgres) as catalog:
        return sum(chunk.meta.messages for chunk in catalog.chunks.select(catalog.archives.get(name)))


def past(settings: Settings, hours_ago: int, every: int = 1) -> list[str]:
    """A stream with a message in each `every`-th hour since then, the current hour not among them; all those hours."""
    start = hour_start(hour_of(time.time_ns())) - hours_ago * HOUR_NS
    messages = [Past(n // every + 1, start + n * HOUR_NS + 5, "ev.a", b"", b"x") for n in range(0, hours_ago, every)]
    restore_stream(settings.nats, "EV", ["ev.>"], messages)
    return [hour_of(start + n * HOUR_NS) for n in range(hours_ago)]


def hold(
    settings: Settings, bucket: str, hours: list[str], first: int = 1, name: str = "events", **fields: object
) -> None:
    """Rows of chunks with one message each, as if they had been captured; `fields`: of each chunk."""
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        found, incarnation = catalog.archives.get(name), stream_state(link, "EV").incarnation
        rows = [
            chunk(
                seq,
                seq,
                archive=name,
                incarnation=incarnation,
                hour=hour,
                bucket=bucket,
                first_ns=hour_start(hour) + 5,
                last_ns=hour_start(hour) + 5,
                **fields,
            )
            for seq, hour in enumerate(hours, first)
        ]
        catalog.chunks.commit(found, rows)


def captured(settings: Settings, bucket: str, hours_ago: int) -> list[str]:
    """The hours of `past`, in an archive that has all of them."""
    hours = past(settings, hours_ago)
    archive(settings, bucket)
    hold(settings, bucket, hours)
    return hours


def seal(settings: Settings) -> list[str]:
    """Seal what can be sealed; the hours."""
    with Workspace(settings) as workspace:
        found = workspace.catalog.archives.get("events")
        first = hour_of(workspace.catalog.archives.totals()[0].begins_ns)
        return [done.hour for done in seal_hours(workspace, found, sealable(workspace, found, first).hours)]


def replayed(settings: Settings, selection: Selection, cut: int = 0) -> str:
    """A replay that has succeeded, of whose first chunk `cut` messages were not selected; its id."""
    with Workspace(settings) as workspace:
        replays, found = workspace.catalog.replays, workspace.catalog.archives.get("events")
        chunks = workspace.catalog.chunks.select(
            found, hours=selection.hours or None, time_range=selection.times, seqs=selection.sequences
        )
        replay_id = f"{time.time_ns():016x}"
        target = ReplayTarget(Incarnation("BACK", 1), 1)
        replays.begin(replay_id, found, ReplaySpec("events", "back.>", selection), [target], ids(chunks))
        attempt = replays.start_attempt(replay_id)
        results = [ChunkResult(c.id, c.meta.messages, c.meta.messages, 0, 0) for c in chunks]
        if cut:
            results[0] = replace(results[0], selected=results[0].selected - cut, published=results[0].published - cut)
        workspace.catalog.replay_chunks.record(replay_id, attempt, results)
        replays.finish(replay_id, attempt, "succeeded")
        return replay_id
