"""Actor: who works with the catalog, and in which run of Dagster. It is recorded with what is committed."""

import getpass
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

# The client that this thread or task works for.
_client: ContextVar[str] = ContextVar("nats3.client", default="")


@dataclass(slots=True)
class _Work:
    """The work of a run of Dagster, for as long as its block lasts."""

    run_id: str
    # The work in which it began.
    outer: "_Work | None"
    is_over: bool = False


# The work of this thread or task; nothing resets it, because a generator's block may end in another one.
_work: ContextVar[_Work | None] = ContextVar("nats3.work", default=None)


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


def current_run() -> str | None:
    """The id of the run of Dagster that works here; None outside of one. A thread that a run starts has none, unless it
    is given a copy of the context."""
    work = _current_work()
    return work.run_id if work else None


@contextmanager
def in_run(run_id: str) -> Generator[None]:
    """Work in this run inside the block. It may be that of a generator, which is closed late or in another thread."""
    work = _Work(run_id, _current_work())
    _work.set(work)
    try:
        yield
    finally:
        work.is_over = True


def _current_work() -> _Work | None:
    work = _work.get()
    while work and work.is_over:
        work = work.outer
    return work


@cache
def _process() -> str:
    """The user's number where it has no name, as in some containers."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
