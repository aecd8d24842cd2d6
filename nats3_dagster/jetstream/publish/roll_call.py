"""Roll call: ask the publishers of a replay who they are, and count no other answers.

Anybody may listen to the question: a subscriber or a stream on `>`, a bridge. Only answers of our own form, with the
question's nonce, are a publisher's.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from nats.errors import TimeoutError as NatsTimeoutError

from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import Status

# How long the server may take to pass a question on.
FLUSH_S = 2


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a publisher."""

    # Distinguishes the question, and the answers to it, from all others.
    nonce: str
    # Publishers of an earlier attempt are to stop.
    attempt: int


@dataclass(frozen=True, slots=True)
class PublisherReply:
    """An answer of a publisher."""

    # Of the question.
    nonce: str
    # Distinguishes the publisher.
    publisher: str
    attempt: int
    # True if it has stopped sending, and all that it sent is stored.
    stopped: bool


# What a message says that it is. Releases that run beside each other know it by this.
_FORMS: Mapping[type, str] = {Question: "Question", PublisherReply: "Present"}


def new_nonce() -> str:
    """Sixteen hex digits."""
    return secrets.token_hex(8)


def encode(message: Question | PublisherReply) -> bytes:
    """Returns the message as it is sent."""
    return json.dumps({"nats3": _FORMS[type(message)], **asdict(message)}).encode()


def question_of(data: bytes) -> Question | None:
    """The question that a publisher received; None for anything else."""
    fields = _fields(data, Question, {"nonce": str, "attempt": int})
    return Question(**fields) if fields else None


def reply_of(data: bytes, nonce: str) -> PublisherReply | None:
    """A publisher's answer to the question with this nonce; None for anything else."""
    fields = _fields(data, PublisherReply, {"nonce": str, "publisher": str, "attempt": int, "stopped": bool})
    return PublisherReply(**fields) if fields and fields["nonce"] == nonce else None


async def ask(
    client: Connection,
    subject: str,
    question: Question,
    seconds: float,
    enough: Callable[[Sequence[PublisherReply]], bool],
) -> list[PublisherReply] | None:
    """Returns the answers that come within `seconds`, or until there are `enough`; None if there are no responders, as
    far as this server knows. Raises TargetError if this user may not ask, nats.errors.TimeoutError if the server is
    silent, or the connection was lost meanwhile, and the question or the answers with it."""
    inbox, before = client.new_inbox(), client.stats["reconnects"]
    subscription = await client.subscribe(inbox)  # pyright: ignore[reportUnknownMemberType]
    answers: list[PublisherReply] = []
    try:
        await client.publish(subject, encode(question), reply=inbox)
        # Before its PONG the server has passed the question on, or has answered that there is no subscriber.
        await client.flush(FLUSH_S)
        check_allowed(client, inbox, subject)
        until = time.monotonic() + seconds
        while not enough(answers) and (left := until - time.monotonic()) > 0:
            try:
                message = await subscription.next_msg(left)
            except NatsTimeoutError:
                break
            if (message.headers or {}).get("Status") == Status.NO_RESPONDERS:
                return None
            if answer := reply_of(message.data, question.nonce):
                answers.append(answer)
        if not enough(answers) and (client.is_reconnecting or client.stats["reconnects"] != before):
            raise NatsTimeoutError
        return answers
    finally:
        if client.is_connected:
            await subscription.unsubscribe()


def check_allowed(client: Connection, *subjects: str) -> None:
    """Raises TargetError if the server has refused this user one of the subjects; call it after a flush."""
    for subject in subjects:
        if refusal := client.refusal_of(subject):
            raise forbidden(client, refusal, subject)


def forbidden(client: Connection, refusal: str, subject: str) -> TargetError:
    """The error for a subject that this user may not publish to, or not subscribe to. `refusal`: the server's words."""
    what = "subscribe to" if "subscription" in refusal else "publish to"
    own = next((prefix for prefix in (client.inbox_prefix, "_NATS3") if subject.startswith(f"{prefix}.")), None)
    grant = f"{own}.>" if own else subject
    return TargetError(
        f"NATS at {client.address} does not let this user {what} {subject}", f"Permit the user to {what} {grant}"
    )


def _fields(data: bytes, form: type, types: Mapping[str, type]) -> dict[str, Any] | None:
    """Returns the fields of a nats3 message; None for any other message."""
    try:
        body = json.loads(data)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    fields = cast("dict[str, Any]", body)
    if fields.get("nats3") != _FORMS[form] or any(
        type(fields.get(name)) is not wanted for name, wanted in types.items()
    ):
        return None
    return {name: fields[name] for name in types}
