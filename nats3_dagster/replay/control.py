"""Control: pause a replay wherever it runs, delete it, retire the chunks that it published.

Invariant: a replay counts as paused only after its driver has released it (a lock in Postgres).
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from nats3_dagster.errors import Conflict, EngineError, TargetError, WrongState
from nats3_dagster.jetstream.publish.fence import PAUSE, raise_fence
from nats3_dagster.model import Archive, Replay
from nats3_dagster.replay.planning.exported import Missing, missing
from nats3_dagster.replay.status import status
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# A driver that waits for Spark to start its tasks does not listen yet.
PATIENCE_S = 60.0


def pause(workspace: Workspace, replay_id: str, reason: str) -> Replay:
    """Stops a replay that runs, or is about to, and returns when no process drives it any more; it continues after its
    last message when it is resumed. `reason` becomes its error. Raises WrongState if it does not run, EngineError if it
    still does after PATIENCE_S."""
    state = status(workspace, replay_id).state
    if state not in ("running", "planned"):
        raise WrongState(f"Replay {replay_id} does not run: it is {state}", Next.GET_REPLAY(replay=replay_id))
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        workspace.catalog.replays.ask_pause(replay_id)  # one that waits for new chunks has no publisher
        with suppress(
            TargetError
        ):  # a publisher that ends just now may not answer; the next request finds no subscriber
            raise_fence(workspace.link, replay_id, PAUSE)
        try:
            with workspace.catalog.replays.lock(replay_id):
                attempt = workspace.catalog.replays.get(replay_id).attempt
                workspace.catalog.launches.revoke(replay_id)
                workspace.catalog.replays.finish(replay_id, attempt, "paused", reason)
                return workspace.catalog.replays.get(replay_id)
        except Conflict:
            time.sleep(0.2)
    raise EngineError(
        f"Replay {replay_id} does not publish any more, and its driver has not ended within {PATIENCE_S:.0f} s",
        "End its Spark job or process",
    )


def delete(workspace: Workspace, replay_id: str) -> None:
    """Take it out of the lists; what it published stays. Raises OperatorError if there is none, Conflict if a process
    runs it."""
    workspace.catalog.replays.delete(replay_id)


def delete_chunks(workspace: Workspace, replay_id: str, chunk_ids: Collection[int] | None = None) -> int:
    """Retire the chunks that a replay published whole, or those of them; how many were retired. Their objects stay
    until archive.sweep removes them.

    Deletes only chunks that are done in the catalog with every message in the targets, and only of a replay that
    succeeded or follows its archive: a chunk that a filter or a time bound cut stays, and so does one with messages
    that were left out as expired. So does one of an hour that an export of the archive has not exported (see
    `kept_for`), unless the replay may delete it. Raises Conflict if the archive was deleted."""
    archive, whole = _to_delete(workspace, replay_id, chunk_ids)
    if not whole:
        return 0
    kept = {hour for one in _kept_for(workspace, replay_id, archive, whole) for hour in one.hours}
    ids = [chunk_id for hour, chunks in whole.items() if hour not in kept for chunk_id in chunks]
    return workspace.catalog.chunks.retire(archive, ids, replay_id=replay_id)


def kept_for(workspace: Workspace, replay_id: str) -> tuple[Missing, ...]:
    """The hours whose chunks `delete_chunks` leaves, by the export that has not exported them."""
    archive, whole = _to_delete(workspace, replay_id, None)
    return _kept_for(workspace, replay_id, archive, whole)


def _to_delete(
    workspace: Workspace, replay_id: str, chunk_ids: Collection[int] | None
) -> tuple[Archive, Mapping[str, Sequence[int]]]:
    """The replay's archive, and the live chunks that it published whole, by hour."""
    catalog = workspace.catalog
    replay = catalog.replays.get(replay_id)
    archive = catalog.archives.get(replay.spec.archive)
    if replay.state != "succeeded" and replay.spec.poll_interval_s is None:
        return archive, {}
    return archive, catalog.replay_chunks.whole(replay_id, chunk_ids)


def _kept_for(workspace: Workspace, replay_id: str, archive: Archive, hours: Collection[str]) -> tuple[Missing, ...]:
    if workspace.catalog.replays.get(replay_id).spec.delete_unexported:
        return ()
    return missing(workspace, archive, hours)
