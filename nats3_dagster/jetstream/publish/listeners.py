"""Takers: the streams that take what is published to a subject, asked on the subject itself.

JetStream's API knows the streams of one domain and account. A message knows no domain: a leaf node passes it on, or
does not, and streams of several domains may take it.
"""

import json
import time

from nats.errors import TimeoutError as NatsTimeoutError

from nats3_dagster.jetstream.api import own_request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import Status
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.probe import PROBE
from nats3_dagster.jetstream.publish.roll_call import check_allowed

# How long the first answer may take, and how long after it others are waited for.
FIRST_S, MORE_S = 2.0, 0.5


def listening_streams(link: Link, subject: str) -> list[str]:
    """The names of the streams that answer a message on this one subject, each as often as one answers; sorted. Each
    refuses the message and stores nothing; others that subscribe to the subject receive it. Raises TargetError if this
    user may not publish there, SourceError if the connection is lost."""
    return link.call(_listening_streams, subject)


def own_listening_streams(link: Link, pattern: str) -> list[str]:
    """The streams of the connection's own JetStream that capture something of `pattern`, whatever domain or import the
    options name. None where there is no JetStream, or this user may not ask it. Raises SourceError."""

    async def work(client: Connection) -> list[str]:
        answer = await own_request(client, "STREAM.NAMES", {"subject": pattern}) or {}
        return sorted(answer.get("streams") or ())

    return link.call(work)


async def _listening_streams(client: Connection, subject: str) -> list[str]:
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)  # pyright: ignore[reportUnknownMemberType]
    names: list[str] = []
    try:
        await client.publish(subject, b"", reply=inbox, headers=dict(PROBE))
        await client.flush()
        check_allowed(client, inbox, subject)
        until = time.monotonic() + FIRST_S
        while (left := until - time.monotonic()) > 0:
            try:
                message = await subscription.next_msg(left)
            except NatsTimeoutError:
                break
            if (message.headers or {}).get("Status") == Status.NO_RESPONDERS:
                break
            if not names:
                until = time.monotonic() + MORE_S
            names.append(_stream_of(message.data))
        return sorted(names)
    finally:
        if client.is_connected:
            await subscription.unsubscribe()


def _stream_of(answer: bytes) -> str:
    """The stream that refused a probe; the answer itself where no stream gave it."""
    try:
        return str(json.loads(answer)["stream"])
    except (ValueError, TypeError, KeyError):
        return f"{answer[:40]!r}"
