"""Status: what the catalog has of replays."""

from dataclasses import dataclass

from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.model import Archive, Replay, ReplayChunk
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """A replay, and its state as people see it."""

    replay: Replay
    # The catalog's state; `interrupted` for one that is `running` in the catalog and in no process.
    state: str


def status(workspace: Workspace, replay_id: str) -> ReplayStatus:
    """Raises OperatorError if there is no such replay."""
    return _status(workspace, workspace.catalog.replays.get(replay_id))


def statuses(workspace: Workspace, archive: str | None = None, limit: int | None = None) -> tuple[ReplayStatus, ...]:
    """Those of the archive of this name, or all; newest first. Raises OperatorError if there is no such archive."""
    catalog = workspace.catalog
    selected = catalog.replays.select(catalog.archives.get(archive) if archive else None, limit=limit)
    return tuple(_status(workspace, replay) for replay in selected)


def find(workspace: Workspace, replay_id: str) -> Replay | None:
    """The replay, or None if there is none."""
    try:
        return workspace.catalog.replays.get(replay_id)
    except OperatorError:
        return None


def replays(workspace: Workspace, archive: Archive) -> tuple[Replay, ...]:
    """All replays of an archive, newest first, their states as in the catalog."""
    return workspace.catalog.replays.select(archive)


def chunks_by_hour(workspace: Workspace, replay: Replay) -> dict[str, list[ReplayChunk]]:
    """What became of each chunk, in the order of the plan, by its hour; `retired` for those no longer live."""
    archive = workspace.catalog.archives.get(replay.spec.archive)
    chunks = workspace.catalog.chunks.select(archive, hours=replay.spec.selection.hours or None)
    hours = {c.id: c.meta.hour for c in chunks}
    by_hour: dict[str, list[ReplayChunk]] = {}
    for chunk in workspace.catalog.replays.chunks(replay.id):
        by_hour.setdefault(hours.get(chunk.chunk_id, "retired"), []).append(chunk)
    return by_hour


def _status(workspace: Workspace, replay: Replay) -> ReplayStatus:
    if replay.state != "running":
        return ReplayStatus(replay, replay.state)
    try:
        with workspace.catalog.replays.lock(replay.id):
            return ReplayStatus(replay, "interrupted")
    except Conflict:
        return ReplayStatus(replay, "running")
