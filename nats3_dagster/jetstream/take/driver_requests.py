"""Requests of a task to its driver. The answers come on subjects of our own too: a user who may publish on no inbox can
answer them.
"""

import secrets

from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import Status


async def ask_driver(client: Connection, subject: str, body: bytes, timeout_s: float) -> Msg:
    """The answer of the driver, which listens on `subject`. Raises nats.errors.Error: NoRespondersError if it does not,
    TimeoutError."""
    answers = await client.subscribe(f"{subject}.{secrets.token_hex(8)}", max_msgs=1)  # pyright: ignore[reportUnknownMemberType]
    try:
        await client.publish(subject, body, answers.subject)
        answer = await answers.next_msg(timeout_s)
    finally:
        if not client.is_closed:
            await answers.unsubscribe()
    if (answer.headers or {}).get("Status") == Status.NO_RESPONDERS:
        raise NoRespondersError
    return answer
