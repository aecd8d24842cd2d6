"""The fence: nothing of an earlier publisher may still be on its way when a target is asked what it stores.

Two things are made sure of. No older attempt of a replay publishes any more: every publisher listens on a subject of
its replay, stops when a newer attempt asks there, and answers when what it sent is stored. And what a publisher that
broke off has sent is in the target or will never be: it may still be in the server's buffers or in a stream's queue.
Core NATS, and a message that a stream refuses, are enough for both.

Invariant: silence alone proves nothing. Either the server says that nobody listens; or somebody listens to everything,
which a question under a new name shows, and no publisher has answered for longer than one sends without answering.
"""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from nats3_dagster.errors import Interrupted, SourceError, TargetError
from nats3_dagster.jetstream.api import PATIENCE_S, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import probe_passes
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.roll_call import Present, Question, ask, check_allowed, new_nonce
from nats3_dagster.jetstream.streams import stream_info
from nats3_dagster.steps import Next, Step
from nats3_dagster.subjects import overlap

ASK_S = 0.5
# How long a publisher that comes waits for others to say that they are there: nothing but their answers takes time.
HELLO_S = 0.3
# How long an older one that was found so has to stop: more than outbox.STOP_S.
STOPPING_S = 5.0
# Between two looks at a target that must agree; how long others that publish into it may keep them from that.
LOOK_S = 0.25
QUIET_S = 2.0
# A publisher whose process stood still for longer sends no more before it has asked who is at work.
LEASE_S = 5.0
# So long no publisher must answer where others listen to everything: more than LEASE_S, and than the 10 s after which a
# server forgets a batch, whose last messages may have waited in a process that stood still.
SILENCE_S = 11.0
# Above every attempt: a request with it stops a replay, until it is run again.
PAUSE = 1 << 31
# Hints where no stream listens on a subject: before the first message of a replay is stored, and after.
NONE_YET = Next.CREATE_TARGET_FIRST()
GONE = "It was deleted while messages were published: create a new replay"
# No stream ever gets there, so a message that expects it is refused, in its turn behind all that came before it.
_NO_SEQUENCE = 2**53 - 1
_LAST_SEQUENCE = re.compile(r"wrong last sequence: (\d+)")


def fence_subject(replay_id: str) -> str:
    """Where the publishers of a replay listen."""
    return f"_NATS3.replay.{replay_id}.fence"


def raise_fence(link: Link, replay_id: str, attempt: int, timeout_s: float = 10.0) -> None:
    """Return once no publisher of an attempt before `attempt` (PAUSE: of any) sends any more; at once where none is.

    Raises TargetError when a newer attempt runs, or an older one does not stop in time."""
    link.call(_raise, replay_id, attempt, timeout_s)


def settle(link: Link, stream: str, pattern: str = ">", timeout_s: float = 10.0) -> None:
    """Return when the stream has stored every message that reached it before, so that who reads it misses none of
    them. Only subjects that `pattern` takes are published to: one message of `until_stored`. Raises Interrupted when
    that takes longer."""

    async def work(client: Connection) -> None:
        subjects = (await stream_info(client, stream)).subjects
        subject = next((subject_of_both(s, pattern) for s in subjects if overlap(s, pattern)), None)
        if subject:
            await until_stored(client, subject, time.monotonic() + timeout_s)

    link.call(work)


def superseded(replay_id: str, attempt: int) -> TargetError:
    """What an older attempt ends with."""
    if attempt >= PAUSE:
        return TargetError(f"Replay {replay_id} was paused", Next.RESUME_REPLAY(replay=replay_id))
    return TargetError(f"Attempt {attempt} of replay {replay_id} took over", "Follow that one; this one sends no more")


async def until_gone(client: Connection, inbox: str, until: float) -> None:
    """Return when the server has closed the connection that listens on `inbox.>`: then nobody listens there. Where
    others listen to everything that cannot be known, and what `until_quiet` sees must do.

    Raises Interrupted if it has not at `until` (of time.monotonic)."""
    while time.monotonic() < until:
        with suppress(NatsTimeoutError):
            if await _nobody(client, f"{inbox}.gone") or not await _nobody(client, f"{client.new_inbox()}.gone"):
                return
        await asyncio.sleep(0.05)
    raise Interrupted(
        f"NATS at {client.address} still holds a connection that was given up, with messages of this replay in it",
        "Run the replay again when the server has dropped it",
    )


async def until_quiet(client: Connection, subject: str, until: float) -> None:
    """`until_stored`, repeated until two answers LOOK_S apart name the same last sequence, for QUIET_S at most.

    For a connection that was lost: a server that fails to write to it removes its subscriptions while it still parses
    what it had read of it. Raises as `until_stored`."""
    quiet_at = min(until, time.monotonic() + QUIET_S)
    before, sequence = -1, await until_stored(client, subject, until)
    while sequence != before and time.monotonic() < quiet_at:
        await asyncio.sleep(LOOK_S)
        before, sequence = sequence, await until_stored(client, subject, until)


async def until_stored(client: Connection, subject: str, until: float) -> int:
    """Return when the stream that listens on `subject` has stored all that came to it before; it stores nothing new.
    The last sequence that it has given, 0 where it takes nothing at all.

    The question is a message that the stream must refuse. Others that subscribe to `subject` receive it too: it is
    empty and has the header `Nats-Expected-Last-Sequence`.

    Raises Interrupted if it has not at `until`, TargetError if there is no such stream any more."""
    last = await _last_sequence(client, subject, until)
    if not last:
        return 0
    stream, sequence = last
    while True:
        info = await request(client, f"STREAM.INFO.{stream}", patience_s=max(0.0, until - time.monotonic()))
        if info["state"]["last_seq"] >= sequence:
            return sequence
        if time.monotonic() > until:
            raise Interrupted(f"Stream {stream} has not stored its messages up to {sequence}", "Has it a leader?")
        await asyncio.sleep(0.05)


def subject_of_both(one: str, other: str) -> str:
    """A subject that both filters take, which must overlap."""
    pairs = zip_longest(one.split("."), other.split("."), fillvalue=">")
    tokens = (b if a in ("*", ">") else a for a, b in pairs)
    return ".".join("_" if token in ("*", ">") else token for token in tokens)


async def nobody_listens(
    client: Connection, subject: str, hint: str | Step, patience_s: float = PATIENCE_S
) -> TargetError:
    """The error for a message that nobody took. Between two leaders of a stream that is so for a moment (Interrupted);
    or there is no stream, and `hint` (NONE_YET, GONE) says what to do."""
    try:
        names = (await request(client, "STREAM.NAMES", {"subject": subject}, patience_s)).get("streams")
    except SourceError as error:
        return Interrupted(f"Nobody listens on {subject}, and {error.what}", error.hint)
    if names:
        return Interrupted(f"Stream {names[0]} does not listen on {subject} just now", "Has it a leader?")
    return TargetError(f"No stream listens on {subject}", hint)


async def _nobody(client: Connection, subject: str) -> bool:
    """Whether nobody listens on the subject. Servers of a cluster learn of a subscription one after the other: there
    it is asked for twice."""
    for turn in range(2 if client.info.get("cluster") else 1):
        if turn:
            await asyncio.sleep(LOOK_S)
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
                if await _nobody(client, subject):
                    return
                continue
            if not answers and not overheard:
                overheard = not await _nobody(client, fence_subject(new_nonce()))
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


def _all_stopped(answers: Sequence[Present]) -> bool:
    """Whether each publisher that has answered has stopped."""
    stopped = {answer.publisher for answer in answers if answer.stopped}
    return bool(answers) and all(answer.publisher in stopped for answer in answers)


async def check_in(client: Connection, replay_id: str, attempt: int, nonces: set[str]) -> None:
    """Called by a publisher that listens on the fence's subject already, before it sends. `nonces`: its own questions,
    which it does not answer, are added.

    Raises TargetError if a newer attempt publishes, or an older one that does not stop; Interrupted if an older one did
    until now, and what it sent nobody has asked for yet."""
    for turn in range(2 if client.info.get("cluster") else 1):
        if turn:
            await asyncio.sleep(LOOK_S)
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
        "End its Spark job or process, then run the replay again",
    )


async def _last_sequence(client: Connection, subject: str, until: float) -> tuple[str, int] | None:
    """The stream that listens on `subject`, and the last sequence it has given; None where it takes nothing at all."""
    headers = {"Nats-Expected-Last-Sequence": str(_NO_SEQUENCE)}
    while (left := until - time.monotonic()) > 0:
        try:
            answer = await client.request(subject, headers=headers, timeout=ASK_S)
        except NoRespondersError:
            reason = await nobody_listens(client, subject, GONE, left)
            if not isinstance(reason, Interrupted):
                raise reason from None
        except NatsTimeoutError:
            check_allowed(client, subject)
            continue
        else:
            stream, error = _refusal_of_probe(subject, answer.data)
            if not probe_passes(error):
                match = _LAST_SEQUENCE.search(str(error.get("description")))
                return (stream, int(match[1])) if match else None
        await asyncio.sleep(0.1)
    raise Interrupted(f"No stream answers on {subject}", "Has the target a leader?")


def _refusal_of_probe(subject: str, answer: bytes) -> tuple[str, dict[str, Any]]:
    """The stream that answered, and why it refused."""
    try:
        body: dict[str, Any] = json.loads(answer)
        return str(body["stream"]), body["error"]
    except (ValueError, TypeError, KeyError):
        raise TargetError(
            f"What answers a message on {subject} is no stream: {answer[:100]!r}",
            "Publish to subjects that one stream captures, and nobody else answers",
        ) from None
