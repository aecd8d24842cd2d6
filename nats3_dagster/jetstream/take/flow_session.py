"""A session of a durable whose flow control acknowledges (ADR-60): who gets its messages, and from where on.

Invariant: one client at a time. Each session has a subject of its own, and the server moves the durable to it only when
nothing listens on the one before (nats-server, consumer.go: checkNewConsumerConfig), so a client that is frozen is
found. After a client's death what was delivered and not acknowledged does not come again by itself, and the next
acknowledgement would remove it: each session begins with a reset, which goes back to the acknowledgement floor.
"""

import time
from collections.abc import Mapping
from typing import Any

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.api import ASK_AGAIN_S, Refused, request
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.take.durable import Durable, durable_from

# How long a session waits for the client of the one before: a process that was killed is gone in a moment, and one that
# was held up may finish.
TAKEOVER_S = 20.0


def begin_session(link: Link, durable: Durable) -> Durable:
    """Returns the durable with a deliver subject of this session alone, back at its acknowledgement floor: it delivers
    from there on, and counts from 1 on, as soon as a client listens. Raises SourceError if another client listens on
    the subject it had."""
    until, subject = time.monotonic() + TAKEOVER_S, link.client.new_inbox()
    while True:
        try:
            _move(link, durable, subject)
            break
        except Refused as error:
            if error.code != ErrCode.CONSUMER_NAME_IN_USE:
                raise
            if time.monotonic() > until:
                raise SourceError(
                    f"Another client receives the messages of consumer {durable.name} of stream {durable.stream}, on "
                    f"{durable.config.get('deliver_subject')}",
                    "A process that took messages for this archive is frozen, or cut off: end it, or wait until the "
                    "server has given its connection up; then run it again",
                ) from error
            time.sleep(ASK_AGAIN_S)
    begun = end_session(link, durable)
    if begun.session != subject or begun.consumer_seq or begun.outstanding:
        raise SourceError(
            f"Consumer {begun.name} of stream {begun.stream} delivers messages to another client meanwhile",
            "Run it again; if this goes on, stop what else receives from it",
        )
    return begun


def end_session(link: Link, durable: Durable) -> Durable:
    """Returns the durable back at its acknowledgement floor: what was delivered after it comes again. Raises
    SourceError if it was made again meanwhile."""
    now = durable_from(link.call(request, f"CONSUMER.RESET.{durable.stream}.{durable.name}"))
    if now.created_ns != durable.created_ns:
        raise SourceError(f"Consumer {now.name} was made again meanwhile", "Run it again")
    return now


def _move(link: Link, durable: Durable, deliver_subject: str) -> None:
    """Gives the durable this deliver subject. Nothing of the answer counts: the first one after a restart has the state
    from before the server had read its own, another `created` among it (consumer.go: initialInfo)."""
    # The server writes its own metadata, and refuses to be told it.
    metadata: Mapping[str, str] = durable.config.get("metadata") or {}
    config: dict[str, Any] = {
        **durable.config,
        "metadata": {key: value for key, value in metadata.items() if not key.startswith("_nats.")},
        "deliver_subject": deliver_subject,
    }
    # An update: a durable that was deleted is not made again in passing.
    body = {"stream_name": durable.stream, "config": config, "action": "update"}
    link.call(request, f"CONSUMER.CREATE.{durable.stream}.{durable.name}", body)
