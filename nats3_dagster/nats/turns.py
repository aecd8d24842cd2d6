"""Turns: requests that wait for a worker, one of each client in turn, bounded for each and in all.

Invariant: the requests of a client wait for each other, and not those of other clients for them.
"""

import threading
from collections import OrderedDict, deque

from nats3_dagster.jetstream.responder import Request

# Requests that wait: of one client, and of all.
OF_CLIENT, OF_ALL = 1_000, 20_000


class Turns:
    """A queue for several workers. Any thread may use it."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Request]] = OrderedDict()
        self._count, self._ended = 0, False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._count

    def put(self, request: Request) -> bool:
        """False, and it is not kept, where too many wait."""
        with self._changed:
            client = client_of(request.reply)
            own = self._waiting.get(client, ())
            if len(own) >= OF_CLIENT or self._count >= OF_ALL:
                return False
            self._waiting.setdefault(client, deque()).append(request)
            self._count += 1
            self._changed.notify()
            return True

    def take(self) -> Request | None:
        """The next request of the client whose turn it is; waits for one. None after `end`, when none is left."""
        with self._changed:
            while not self._count and not self._ended:
                self._changed.wait()
            if not self._count:
                return None
            client, own = self._waiting.popitem(last=False)
            request = own.popleft()
            self._count -= 1
            if own:
                self._waiting[client] = own
            return request

    def end(self) -> None:
        """Let `take` return None once all that waits is handed out."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def client_of(reply: str) -> str:
    """The client of a reply subject: clients have an inbox of their own, `_INBOX.<unique>.<number>`."""
    return reply.rpartition(".")[0] or reply
