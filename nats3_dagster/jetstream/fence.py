"""The fence: a newer attempt of a replay makes sure that no older one publishes any more.

The rule kept here: core NATS only. Every publisher of a replay listens on the replay's own subject; who hears a newer
attempt sends nothing more, waits until what it sent is stored, and replies; or drops its connection without a word, and
then nobody listens.
"""

import time

from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link

ASK_S = 0.5
# Above every attempt: a request with it ends a replay for good.
CANCEL = 1 << 31


def fence_subject(replay_id: str) -> str:
    """Where the publishers of a replay listen."""
    return f"_NATS3.replay.{replay_id}.fence"


def raise_fence(link: Link, replay_id: str, attempt: int, timeout_s: float = 10.0) -> None:
    """Return once no publisher of an attempt before `attempt` (CANCEL: of any) sends any more; at once where none is.

    Raises TargetError when a newer attempt runs, or an older one does not stop in time."""
    link.call(_raise, replay_id, attempt, timeout_s)


async def attempt_at_work(client: Connection, replay_id: str, attempt: int, timeout_s: float) -> int | None:
    """The attempt of a publisher that answers, after it stopped if it is an older one; None when nobody listens.

    Raises nats.errors.TimeoutError when somebody listens and does not answer."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            answer = await client.request(fence_subject(replay_id), b"%d" % attempt, timeout=ASK_S)
        except NoRespondersError:
            return None
        except NatsTimeoutError:
            # It is busy, or it went without an answer: then the next request says that nobody listens.
            if time.monotonic() > until:
                raise
        else:
            return int(answer.data) if answer.data.isdigit() else 0


def superseded(replay_id: str, attempt: int) -> TargetError:
    """What an older attempt ends with."""
    if attempt >= CANCEL:
        return TargetError(f"Replay {replay_id} was canceled", "Run it again to go on after its last message")
    return TargetError(f"Attempt {attempt} of replay {replay_id} took over", "Follow that one; this one sends no more")


async def _raise(client: Connection, replay_id: str, attempt: int, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while (left := until - time.monotonic()) > 0:
        try:
            found = await attempt_at_work(client, replay_id, attempt, left)
        except NatsTimeoutError:
            break
        if found is None:
            return
        if found > attempt:
            raise superseded(replay_id, found)
    raise TargetError(
        f"An earlier attempt of replay {replay_id} is still publishing and does not stop",
        "End its Spark job or process, then run the replay again",
    )
