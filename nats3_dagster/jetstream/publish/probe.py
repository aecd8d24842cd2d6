"""The probe: a message that a stream must refuse, in its turn after all earlier messages.

What a publisher that broke off has sent may still be in the server's buffers or in a stream's queue. Once the stream
has refused a probe and has stored up to the sequence that the refusal names, it is stored or will never be.
"""

import asyncio
import json
import re
import time
from itertools import zip_longest
from typing import Any

from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from nats3_dagster.errors import Interrupted, SourceError, TargetError
from nats3_dagster.jetstream.api import PATIENCE_S, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import probe_passes
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.roll_call import check_allowed
from nats3_dagster.jetstream.streams import stream_info
from nats3_dagster.steps import Next, Step
from nats3_dagster.subjects import overlap

# How long a stream has for its answer to one probe.
ASK_S = 0.5
# Between two looks at a target that must agree; how long others that publish into it may keep them from that.
LOOK_S = 0.25
QUIET_S = 2.0
# Hints where no stream listens on a subject: before the first message of a replay is stored, and after.
NONE_YET = Next.CREATE_TARGET_FIRST()
GONE = "It was deleted while messages were published: create a new replay"
# No stream ever gets there, so a message that expects it is refused, in its turn after all earlier messages.
_NO_SEQUENCE = 2**53 - 1
# The header that makes a stream refuse a message so.
PROBE = {"Nats-Expected-Last-Sequence": str(_NO_SEQUENCE)}
_LAST_SEQUENCE = re.compile(r"wrong last sequence: (\d+)")


def await_stored(link: Link, stream: str, pattern: str = ">", timeout_s: float = 10.0) -> None:
    """Return when the stream has stored every message that reached it before, so that who reads it misses none of
    them. Only subjects that `pattern` takes are published to: one message of `until_stored`. Raises Interrupted when
    that takes longer."""

    async def work(client: Connection) -> None:
        subjects = (await stream_info(client, stream)).subjects
        subject = next((subject_of_both(s, pattern) for s in subjects if overlap(s, pattern)), None)
        if subject:
            await until_stored(client, subject, time.monotonic() + timeout_s)

    link.call(work)


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
    """Returns the error for a message that no stream accepted. Between two leaders of a stream that is so for a moment
    (Interrupted); or there is no stream, and `hint` (NONE_YET, GONE) says what to do."""
    try:
        names = (await request(client, "STREAM.NAMES", {"subject": subject}, patience_s)).get("streams")
    except SourceError as error:
        return Interrupted(f"No stream listens on {subject}, and {error.what}", error.hint)
    if names:
        return Interrupted(f"Stream {names[0]} does not listen on {subject} just now", "Has it a leader?")
    return TargetError(f"No stream listens on {subject}", hint)


async def _last_sequence(client: Connection, subject: str, until: float) -> tuple[str, int] | None:
    """The stream that listens on `subject`, and the last sequence it has given; None where it takes nothing at all."""
    while (left := until - time.monotonic()) > 0:
        try:
            answer = await client.request(subject, headers=PROBE, timeout=ASK_S)
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
            "Publish to subjects that one stream captures, and no other client answers",
        ) from None
