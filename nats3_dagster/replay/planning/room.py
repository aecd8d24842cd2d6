"""Room: a target that is full, and surely refuses what is left of a replay."""

from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import Replay
from nats3_dagster.model.stream import removing_settings
from nats3_dagster.replay.job import ReplayJob
from nats3_dagster.replay.targets import target_state
from nats3_dagster.steps import Next

# The least number of bytes that a stream counts for a message with the headers that mark it as a replay's. Only a live
# replay leaves them out.
_LEAST_BYTES = 150


def check_room(link: Link, replay: Replay, job: ReplayJob, left: int) -> None:
    """Raises TargetError if the one target takes no more messages when it is full (discard new), and has no room for
    what is left of the replay. `left`: messages of the chunks that are not done. The target is asked which of these it
    has where that decides."""
    if replay.spec.live or len(replay.targets) != 1:
        return
    (target,) = replay.targets
    state = target_state(link, target)
    if state.config.get("discard") != "new" or removing_settings(state.config):
        return
    for setting, has, each in (("max_msgs", state.messages, 1), ("max_bytes", state.bytes, _LEAST_BYTES)):
        limit = state.config.get(setting, -1)
        room = limit - has
        if limit <= 0 or left * each <= room:
            continue
        there = _there(link, replay, job) if replay.attempt else 0
        if there is not None and (come := left - there) * each > room:
            raise TargetError(
                f"Stream {state.name} takes up to {limit} ({setting}, discard new): it has {has}, and "
                f"{come:,} messages of the replay are still to come",
                Next.MAKE_ROOM_AND_RESUME(setting=setting, stream=state.name, replay=replay.id),
            )


def _there(link: Link, replay: Replay, job: ReplayJob) -> int | None:
    """Returns the number of messages that the target has of chunks that are not done; None if it cannot tell. Raises
    TargetError."""
    # It imports pyarrow, 0.1 s.
    from nats3_dagster.replay.messages.published import ask_targets

    published = ask_targets(link, job, replay.spec.transform().pattern, job.done)
    if published.newest is not None:
        return None
    return sum(map(len, published.seqs.values())) - replay.published - replay.found
