"""Settling: after a publisher broke off, wait until what it sent is in the target or will never be.

The rule kept here: whoever asks a target what it holds must not be overtaken by messages that are still on their way,
in the server's buffers or in a stream's queue. Core NATS and a message that a stream refuses are enough to know.
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
from nats3_dagster.steps import Next, Step

ASK_S = 0.5
NONE_YET = Next.CREATE_TARGET_FIRST()
GONE = "It was deleted while messages were published: create a new replay"
# No stream ever gets there, so a message that expects it is refused, in its turn behind all that came before it.
_NO_SEQUENCE = 2**53 - 1
_LAST = re.compile(r"wrong last sequence: (\d+)")
# Codes of a stream that is too busy to look at the message, or is without a leader: no answer yet.
_PASSING_CODES = (429, 503)


async def until_gone(client: Connection, inbox: str, until: float) -> None:
    """Return when the server has read all of the connection that listens on `inbox.>` and has closed it: then nobody
    listens there. Raises Interrupted when it is not at `until` (of time.monotonic)."""
    while time.monotonic() < until:
        try:
            await client.request(f"{inbox}.gone", timeout=ASK_S)
        except NoRespondersError:
            return
        except NatsTimeoutError:
            continue
    raise Interrupted(
        f"NATS at {client.address} still holds a connection that was given up, with messages of this replay in it",
        "Run the replay again when the server has dropped it",
    )


async def until_stored(client: Connection, subject: str, until: float) -> None:
    """Return when the stream that listens on `subject` has stored all that came to it before; it gets nothing new.

    Raises Interrupted when it has not at `until`, TargetError when there is no such stream any more."""
    last = await _last_sequence(client, subject, until)
    while last:
        stream, sequence = last
        info = await request(client, f"STREAM.INFO.{stream}", patience_s=max(0.0, until - time.monotonic()))
        if info["state"]["last_seq"] >= sequence:
            return
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
    """What it means that nobody took a message: between two leaders of a stream that is so for a moment (Interrupted);
    or there is no stream, which `hint` (NONE_YET, GONE) is for."""
    try:
        names = (await request(client, "STREAM.NAMES", {"subject": subject}, patience_s)).get("streams")
    except SourceError as error:
        return Interrupted(f"Nobody listens on {subject}, and {error.what}", error.hint)
    if names:
        return Interrupted(f"Stream {names[0]} does not listen on {subject} just now", "Has it a leader?")
    return TargetError(f"No stream listens on {subject}", hint)


async def _last_sequence(client: Connection, subject: str, until: float) -> tuple[str, int] | None:
    """The stream that listens on `subject`, and the last sequence it has given; None where it takes nothing at all."""
    while (left := until - time.monotonic()) > 0:
        try:
            headers = {"Nats-Expected-Last-Sequence": str(_NO_SEQUENCE)}
            answer = await client.request(subject, headers=headers, timeout=ASK_S)
        except NoRespondersError:
            why = await nobody_listens(client, subject, GONE, left)
            if not isinstance(why, Interrupted):
                raise why from None
        except NatsTimeoutError:
            continue
        else:
            stream, error = _refusal(subject, answer.data)
            if error.get("code") not in _PASSING_CODES:
                found = _LAST.search(str(error.get("description")))
                return (stream, int(found[1])) if found else None
        await asyncio.sleep(0.1)
    raise Interrupted(f"No stream answers on {subject}", "Has the target a leader?")


def _refusal(subject: str, answer: bytes) -> tuple[str, dict[str, Any]]:
    """The stream that answered, and why it refused."""
    try:
        body: dict[str, Any] = json.loads(answer)
        return str(body["stream"]), body["error"]
    except (ValueError, TypeError, KeyError):
        raise TargetError(
            f"What answers a message on {subject} is no stream: {answer[:100]!r}",
            "Publish to subjects that one stream captures, and nobody else answers",
        ) from None
