"""Responder: answers requests on subjects of nats3, over one connection.

Invariant: a callback runs in the connection's loop and must not wait; answers are sent from any thread, in the order
given, and a caller with much to send waits until the server has read it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nats.aio.msg import Msg
from nats.errors import NoRespondersError, TimeoutError

from nats3_dagster.errors import OperatorError, SourceError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as a client sent it."""

    subject: str
    # Where its answer is wanted.
    reply: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """A message that answers a request, or is a part of its answer."""

    # The header block as on the wire; empty for none.
    headers: bytes
    data: bytes = b""

    @property
    def size(self) -> int:
        return len(self.headers) + len(self.data)


class Responder:
    """Listens and answers over a link, which its caller closes."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def max_payload(self) -> int:
        """Bytes of header block and payload together: the server hangs up at more."""
        return self._link.client.max_payload

    def listen(self, subject: str, queue: str, on_request: Callable[[Request], None]) -> None:
        """Call `on_request` for each request on a subject, in the connection's loop; of several that listen with one
        `queue`, one gets it (empty: each). A message without a reply subject is left alone. Raises OperatorError if
        the server does not let this user listen there, SourceError."""

        async def receive(message: Msg) -> None:
            if message.reply:
                on_request(Request(message.subject, message.reply, message.data))

        async def start(client: Connection) -> None:
            await client.subscribe(subject, queue, cb=receive)  # pyright: ignore[reportUnknownMemberType]
            await client.flush()
            if refusal := client.refusal_of(subject):
                raise OperatorError(f"NATS refused: {refusal}", f"Permit this user to subscribe to {subject}")

        self._link.call(start)

    def ask(self, subject: str, timeout_s: float) -> bytes | None:
        """The answer to an empty request; None if no client listens there. Raises SourceError if none comes in time."""

        async def work(client: Connection) -> bytes | None:
            try:
                return (await client.request(subject, b"", timeout=timeout_s)).data
            except NoRespondersError:
                return None
            except TimeoutError as error:
                raise SourceError(
                    f"Something listens on {subject} and does not answer within {timeout_s:g} s"
                ) from error

        return self._link.call(work)

    def send(self, to: str, replies: Iterable[Reply]) -> None:
        """Send these to one reply subject, from any thread. While the connection is down they are dropped: who asked
        asks again."""
        frames = b"".join(_frame(to, reply) for reply in replies)
        self._link.loop.call_soon_threadsafe(self._link.client.send, frames)

    def drain(self) -> None:
        """Wait until the server has read all that was sent. Raises SourceError."""

        async def work(client: Connection) -> None:
            await client.flush()

        self._link.call(work)


def _frame(to: str, reply: Reply) -> bytes:
    if reply.headers:
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (to.encode(), len(reply.headers), reply.size, reply.headers, reply.data)
    return b"PUB %b %d\r\n%b\r\n" % (to.encode(), len(reply.data), reply.data)
