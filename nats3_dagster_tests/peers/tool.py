"""The contract of a tool that is measured."""

import subprocess
from collections.abc import Iterator
from typing import Protocol

from nats3_dagster_tests.peers.meter import Usage
from nats3_dagster_tests.peers.place import Place


class Tool(Protocol):
    """One way to archive a stream and to bring it back. Methods raise PeerError."""

    # Its row in the tables.
    name: str
    # The program on the search path; empty for nats3, which runs from this checkout.
    program: str
    # False if it has no command that publishes what it has stored.
    can_replay: bool

    def version(self) -> str:
        """Returns the version that it prints."""
        ...

    def prepare(self, place: Place) -> None:
        """Makes what must be there before it starts, as a user does once."""
        ...

    def archive(self, place: Place) -> Usage:
        """Stores every message of the stream."""
        ...

    def stored_bytes(self, place: Place) -> int: ...

    def replay(self, place: Place) -> Usage:
        """Publishes what it has stored."""
        ...

    def returned(self, place: Place) -> tuple[Iterator[tuple[str, bytes]], str]:
        """Returns subjects and payloads of what came back, and the prefix that the subjects should have."""
        ...


def first_line(*argv: str) -> str:
    """Returns the first line that a command prints."""
    printed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    return printed.strip().splitlines()[0] if printed.strip() else "unknown"
