"""Status: what the catalog has of replays."""

from collections.abc import Collection
from dataclasses import dataclass

from nats3_dagster.errors import OperatorError, WrongState
from nats3_dagster.model import Archive, Replay, ReplaySpec, Selection
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """A replay, and its state as people see it."""

    replay: Replay
    # The catalog's state; `interrupted` for one that is `running` in the catalog and in no process, and for one that is
    # `planned` and what was started to run it is gone.
    state: str
    # Chunks that a replay which follows its archive has yet to publish or to look at; None for others.
    waiting: int | None = None


def status(workspace: Workspace, replay_id: str) -> ReplayStatus:
    """Raises OperatorError if there is no such replay."""
    return state_of(workspace, workspace.catalog.replays.get(replay_id))


def statuses(workspace: Workspace, archive: str | None = None, limit: int | None = None) -> tuple[ReplayStatus, ...]:
    """Returns the statuses of the archive of this name, or all; newest first. Raises OperatorError if there is no such
    archive."""
    catalog = workspace.catalog
    selected = catalog.replays.select(catalog.archives.get(archive) if archive else None, limit=limit)
    return tuple(state_of(workspace, replay) for replay in selected)


def find(workspace: Workspace, replay_id: str) -> Replay | None:
    """The replay, or None if there is none."""
    try:
        return workspace.catalog.replays.get(replay_id)
    except OperatorError:
        return None


def check_forerunner(
    workspace: Workspace, archive: Archive, spec: ReplaySpec, *, known: Collection[str] | None = None
) -> None:
    """Raises WrongState if a replay of the same selection to the same subjects was begun and has not succeeded:
    what it published would be published once more. `known`: the replays that there were when this one was planned, by
    their ids; another one is in the way even if it has succeeded."""
    wanted = spec.selection, spec.write_subject
    for replay in workspace.catalog.replays.select(archive):
        if (replay.spec.selection, replay.spec.write_subject) != wanted:
            continue
        if replay.state == "succeeded":
            if known is None or replay.id in known:
                continue
            raise WrongState(
                f"Replay {replay.id} of the same selection to {spec.write_subject} has succeeded since this one was "
                "planned",
                Next.GET_REPLAY(replay=replay.id),
            )
        state = state_of(workspace, replay).state
        raise WrongState(
            f"Replay {replay.id} of the same selection to {spec.write_subject} is {state}, with "
            f"{replay.chunks_done} of {replay.chunks} chunks done",
            (Next.GET_REPLAY if state == "running" else Next.RESUME_OR_DELETE_REPLAY)(replay=replay.id),
        )


def replayed_hours(workspace: Workspace, archive: Archive) -> dict[str, Replay]:
    """Returns the hours that were replayed, each with the replay that succeeded last.

    A replay of hours, whichever subjects it selects, has replayed those; any other one the hours that it published
    whole. A deleted replay does not count."""
    succeeded = [replay for replay in workspace.catalog.replays.select(archive) if replay.state == "succeeded"]
    asked = {replay.id: set(replay.spec.selection.hours) for replay in succeeded if _of_hours(replay.spec.selection)}
    rest = [replay.id for replay in succeeded if replay.id not in asked]
    hours = asked | (workspace.catalog.replay_chunks.whole_hours(rest) if rest else {})
    newest: dict[str, Replay] = {}
    for replay in sorted(succeeded, key=lambda replay: (replay.finished_at or replay.created_at, replay.id)):
        newest |= dict.fromkeys(hours[replay.id], replay)
    return newest


def _of_hours(selection: Selection) -> bool:
    return bool(selection.hours) and selection.times is None and selection.sequences is None


def state_of(workspace: Workspace, replay: Replay) -> ReplayStatus:
    """The state of a replay that was just read."""
    if not replay.lost:
        return ReplayStatus(replay, replay.state, _waiting(workspace, replay))
    # What runs it may have begun an attempt, or ended it, between the two looks, at the row and at the lock.
    again = find(workspace, replay.id) or replay
    same = (again.state, again.attempt, again.launch) == (replay.state, replay.attempt, replay.launch)
    state = "interrupted" if again.lost and same else again.state
    return ReplayStatus(again, state, _waiting(workspace, again))


def _waiting(workspace: Workspace, replay: Replay) -> int | None:
    """Chunks that a replay which follows its archive has still to publish; None for any other."""
    if replay.spec.poll_interval_s is None:
        return None
    pending = replay.chunks - replay.chunks_done
    return pending + (workspace.catalog.replay_chunks.count_after(replay.id) if replay.state != "succeeded" else 0)
