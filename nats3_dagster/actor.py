"""Actor: who works with the catalog, for the history of an archive."""

import getpass
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

# The client that this thread or task works for.
_client: ContextVar[str] = ContextVar("nats3.client", default="")


def actor() -> str:
    """`user@host` of this process; of work for a client `CLIENT, user@host`."""
    client = _client.get()
    return f"{client}, {_process()}" if client else _process()


@contextmanager
def working_for(client: str) -> Generator[None]:
    """Work for this client inside the block; empty for none."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


@cache
def _process() -> str:
    """The user's number where it has no name, as in some containers."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
