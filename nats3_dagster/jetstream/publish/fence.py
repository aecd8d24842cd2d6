"""The fence: no older attempt of a replay publishes any more when a target is asked what it stores.

Every publisher listens on a subject of its replay, stops when a newer attempt asks there, and answers when what it sent
is stored. What a publisher that broke off has sent may still be on its way: `probe` waits for that.

Invariant: silence alone proves nothing. Either the server says that there is no subscriber; or another client
subscribes to everything, which a question under a new name shows, and no publisher has answered for longer than one
sends without answering.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from nats.errors import TimeoutError as NatsTimeoutError

from nats3_dagster.errors import Interrupted, Paused, TargetError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.roll_call import PublisherReply, Question, ask, new_nonce
from nats3_dagster.steps import Next

# How long publishers have for their answers.
ASK_S = 0.5
# How long a publisher that comes waits for others to say that they are there: nothing but their answers takes time.
HELLO_S = 0.3
# How long an older one that was found so has to stop: more than outbox.STOP_S.
STOPPING_S = 5.0
# After which all servers of a cluster know of a subscription.
SPREAD_S = 0.25
# A publisher whose process stood still for longer sends no more before it has asked who is at work.
LEASE_S = 5.0
# So long no publisher must answer where others listen to everything: more than LEASE_S, and than the 10 s after which a
# server forgets a batch, whose last messages may have waited in a process that stood still.
SILENCE_S = 11.0
# Above every attempt: a request with it stops a replay, until it is run again.
PAUSE = 1 << 31


def fence_subject(replay_id: str) -> str:
    """Returns the subject on which the publishers of a replay listen."""
    return f"_NATS3.replay.{replay_id}.fence"


def raise_fence(link: Link, replay_id: str, attempt: int, timeout_s: float = 10.0) -> None:
    """Return once no publisher of an attempt before `attempt` (PAUSE: of any) sends any more; at once where none is.

    Raises TargetError when a newer attempt runs, or an older one does not stop in time."""
    link.call(_raise, replay_id, attempt, timeout_s)


def let_go(link: Link, inbox: str, timeout_s: float = 20.0) -> None:
    """Return when the server has closed a publisher's connection that was lost, by its inbox. The publisher itself
    cannot ask where it finds no server any more: what stands between the two, as a balancer that is restarted, may
    still deliver what it took. Raises Interrupted when that takes longer."""
    link.call(until_gone, inbox, time.monotonic() + timeout_s)


def superseded(replay_id: str, attempt: int) -> TargetError:
    """Returns the error that ends an older attempt."""
    if attempt >= PAUSE:
        return Paused(f"Replay {replay_id} was paused", Next.RESUME_REPLAY(replay=replay_id))
    return TargetError(
        f"Attempt {attempt} of replay {replay_id} took over", "Follow that one; this one has stopped sending"
    )


async def until_gone(client: Connection, inbox: str, until: float) -> None:
    """Returns when the server has closed the connection that listens on `inbox.>`: then it has no subscriber. Where
    others listen to everything that cannot be known, and what `until_quiet` sees must do.

    Raises Interrupted if it has not at `until` (of time.monotonic)."""
    while time.monotonic() < until:
        with suppress(NatsTimeoutError):
            if await _no_responders(client, f"{inbox}.gone") or not await _no_responders(
                client, f"{client.new_inbox()}.gone"
            ):
                return
        await asyncio.sleep(0.05)
    raise Interrupted(
        f"NATS at {client.address} still holds a connection that was given up, with messages of this replay in it",
        Next.PUBLISH_AGAIN(),
    )


async def _no_responders(client: Connection, subject: str) -> bool:
    """True if the subject has no subscriber. Servers of a cluster learn of a subscription one after the other: there it
    is asked for twice."""
    for turn in range(2 if client.info.get("cluster") else 1):
        if turn:
            await asyncio.sleep(SPREAD_S)
        if await ask(client, subject, Question(new_nonce(), 0), 0.01, lambda answers: False) is not None:
            return False
    return True


async def _raise(client: Connection, replay_id: str, attempt: int, timeout_s: float) -> None:
    subject = fence_subject(replay_id)
    until = time.monotonic() + timeout_s
    silent_since, overheard = time.monotonic(), False
    while time.monotonic() < (max(until, silent_since + SILENCE_S + ASK_S) if overheard else until):
        try:
            answers = await ask(client, subject, Question(new_nonce(), attempt), ASK_S, _all_stopped)
            if answers is None:
                if await _no_responders(client, subject):
                    return
                continue
            if not answers and not overheard:
                overheard = not await _no_responders(client, fence_subject(new_nonce()))
        except NatsTimeoutError:
            silent_since = time.monotonic()  # the server's silence is not the publishers'
            continue
        if (newest := max((answer.attempt for answer in answers), default=0)) > attempt:
            raise superseded(replay_id, newest)
        if answers:
            silent_since = time.monotonic()
        elif overheard and time.monotonic() - silent_since >= SILENCE_S:
            return
    raise _does_not_stop(replay_id)


def _all_stopped(answers: Sequence[PublisherReply]) -> bool:
    """True if each publisher that has answered has stopped."""
    stopped = {answer.publisher for answer in answers if answer.stopped}
    return bool(answers) and all(answer.publisher in stopped for answer in answers)


async def check_in(client: Connection, replay_id: str, attempt: int, nonces: set[str]) -> None:
    """Checks that no newer attempt publishes, and that older ones stop. A publisher that listens on the fence's subject
    already calls it before it sends. `nonces`: its own questions, which it does not answer, are added.

    Raises TargetError if a newer attempt publishes, or an older one that does not stop; Interrupted if an older one did
    until now, and its messages were not checked yet."""
    for turn in range(2 if client.info.get("cluster") else 1):
        if turn:
            await asyncio.sleep(SPREAD_S)
        question = Question(new_nonce(), attempt)
        nonces.add(question.nonce)
        answers = await ask(client, fence_subject(replay_id), question, HELLO_S, lambda answers: False) or []
        if (newest := max((answer.attempt for answer in answers), default=0)) > attempt:
            raise superseded(replay_id, newest)
        if any(answer.attempt < attempt for answer in answers):
            # It came back after this attempt had raised the fence.
            await _until_stopped(client, replay_id, attempt, nonces)
            raise Interrupted(f"An earlier attempt of replay {replay_id} was still publishing; it has stopped")


async def _until_stopped(client: Connection, replay_id: str, attempt: int, nonces: set[str]) -> None:
    """Return when each publisher of an earlier attempt that answers has stopped."""
    until, running = time.monotonic() + STOPPING_S, set[str]()
    while time.monotonic() < until:
        question = Question(new_nonce(), attempt)
        nonces.add(question.nonce)
        answers = await ask(client, fence_subject(replay_id), question, ASK_S, lambda answers: False) or []
        running |= {answer.publisher for answer in answers if answer.attempt < attempt}
        running -= {answer.publisher for answer in answers if answer.stopped}
        if not running:
            return
    raise _does_not_stop(replay_id)


def _does_not_stop(replay_id: str) -> TargetError:
    return TargetError(
        f"An earlier attempt of replay {replay_id} is still publishing and does not stop",
        Next.END_ATTEMPT_AND_RESUME(replay=replay_id),
    )
