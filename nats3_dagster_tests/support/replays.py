"""An archive of a stream, and a replay of it, on real servers and without Spark."""

from collections.abc import Sequence
from typing import Any

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.documents.replay_plans import ReplayPlan
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import ArchiveSpec, Chunk, ChunkResult, Replay, ReplaySpec, Selection
from nats3_dagster.pipeline.worker import publish_share
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.job import Reached, ReplayJob, shares
from nats3_dagster.replay.planning.plan import plan as plan_replay
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours, read
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.wire import Wire


def archived(workspace: Workspace, wire: Wire, stream: str, bucket: str, name: str = "a", **spec: Any) -> None:
    """Capture what the stream has now; the archive `name` is made if there is none."""
    catalog = workspace.catalog
    if all(archive.name != name for archive in catalog.archives.all()):
        create(workspace, ArchiveSpec(name=name, stream=stream, bucket=bucket, **spec))
    for hour in hours_of(wire, stream):
        planned = plan_hours(workspace, catalog.archives.get(name), [hour])
        outcomes = read(workspace, planned)
        commit.commit(workspace, planned, outcomes)


def dry_run(workspace: Workspace, spec: ReplaySpec) -> dict[str, Any]:
    """The plan of a replay as a document."""
    return ReplayPlan.of(plan_replay(workspace, spec)).plain()


def replayed(workspace: Workspace, spec: ReplaySpec) -> Replay:
    """Begin a replay and publish it."""
    return driven(workspace, begin(workspace, spec)[0].id)


def driven(workspace: Workspace, replay_id: str) -> Replay:
    """Publish what is left of a replay, as one attempt."""
    started = attempt.start(workspace, replay_id)
    results = published(started.job, pending(workspace, replay_id))
    attempt.record(workspace, started.job, results, None)
    return workspace.catalog.replays.get(replay_id)


def pending(workspace: Workspace, replay_id: str) -> tuple[Chunk, ...]:
    """All chunks that are not done, as one page."""
    return workspace.catalog.replay_chunks.pending(replay_id).chunks


def published(job: ReplayJob, chunks: Sequence[Chunk]) -> list[ChunkResult]:
    """The results of a task of Spark's, in this process: for the chunks of an attempt as one page."""
    results = [result for share in shares(job, chunks, 1) for result in publish_share(share)]
    return [result for result in results if isinstance(result, ChunkResult)]


def publish_here(
    job: ReplayJob, chunks: tuple[Chunk, ...]
) -> tuple[Sequence[ChunkResult | Reached], Nats3Error | None]:
    """As a task of Spark's, in this process: for replay.drive."""
    results: list[ChunkResult | Reached] = []
    try:
        for share in shares(job, chunks, 1):
            results.extend(publish_share(share))
    except Nats3Error as error:
        return results, error
    return results, None


def live(read: str, write: str, **more: Any) -> ReplaySpec:
    return ReplaySpec("a", write, Selection(subjects=(read,)), live=True, over_gaps=True, **more)
