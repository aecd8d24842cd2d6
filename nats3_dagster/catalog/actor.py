"""Actor: who works with the catalog, for the history of an archive."""

import getpass
import os
import socket
from functools import cache


@cache
def actor() -> str:
    """`user@host` of this process; the user's number where it has no name, as in some containers."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
