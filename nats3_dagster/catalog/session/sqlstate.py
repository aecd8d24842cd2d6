"""SQLSTATE of a connection that the server refused: libpq gives its text alone, which is in the server's language.

Invariant: what the connection sends and gets is kept in memory, because a password may be in it, and only the code is
taken out of it.
"""

import os
import re
from select import select

import psycopg
from psycopg.pq import PGconn, PollingStatus, abc, version

# From this libpq on its trace has the messages of a login.
_TRACES_LOGINS = 180000
# Seconds: the server answered a moment ago.
_PATIENCE_S = 5.0
# `S "..." V "FATAL" C "28P01"`, of poolers without V: the text comes after the code.
_CODE = re.compile(rb'\tErrorResponse\t S ".*?"(?: V "[A-Z]+")? C "([0-9A-Z]{5})"')


def refusal_of(url: str) -> str | None:
    """The SQLSTATE of the server's refusal, by connecting once more; None where it cannot be told."""
    if version() < _TRACES_LOGINS or not hasattr(os, "memfd_create"):
        return None
    file = os.memfd_create("nats3-login")
    try:
        connection: abc.PGconn = PGconn.connect_start(url.encode())
        try:
            connection.trace(file)
            _finish(connection)
            connection.untrace()
        finally:
            connection.finish()
        codes = _CODE.findall(os.pread(file, 1 << 20, 0))
    except psycopg.Error:
        return None
    finally:
        os.close(file)
    return codes[-1].decode() if codes else None


def _finish(connection: abc.PGconn) -> None:
    """Let the connection succeed or fail. A server that is silent ends it too."""
    while (status := connection.connect_poll()) in (PollingStatus.READING, PollingStatus.WRITING):
        reading = status == PollingStatus.READING
        ready = select([connection.socket] if reading else [], [] if reading else [connection.socket], [], _PATIENCE_S)
        if ready == ([], [], []):
            return
