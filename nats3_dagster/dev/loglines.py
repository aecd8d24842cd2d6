"""This host's own log lines as messages on `<root>.p<partition>.<host>`, as a log shipper publishes them.

A host with fewer lines than messages repeats them, each time with another offset header.
"""

import os
import re
import socket
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nats3_dagster.dev.history import Past
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, SECOND_NS

PARTITIONS = 8
LOGS = Path("/var/log")
# Longer lines are cut: bytes.
MAX_LINE = 8192


def read_lines(limit: int, folder: Path = LOGS) -> list[tuple[str, bytes]]:
    """Returns up to `limit` lines of the text files under the folder, as (file, line). Raises OperatorError when there
    are none."""
    lines: list[tuple[str, bytes]] = []
    for path in sorted(folder.rglob("*")):
        if len(lines) >= limit:
            break
        if path.is_file() and os.access(path, os.R_OK) and path.stat().st_size:
            lines += _lines_of(path, limit - len(lines))
    if not lines:
        raise OperatorError(
            "There is no readable log on this host", f"Put a text file under {folder}, readable for this user"
        )
    return lines


def _lines_of(path: Path, limit: int) -> list[tuple[str, bytes]]:
    with path.open("rb") as file:
        if b"\0" in file.read(4096):  # not text: wtmp, journal files
            return []
        file.seek(0)
        lines = (line.rstrip(b"\r\n")[:MAX_LINE] for line in file)
        return [(str(path), line) for line in islice((line for line in lines if line), limit)]


def as_messages(
    lines: list[tuple[str, bytes]], count: int, until_ns: int, hours: int, root: str = "logs"
) -> Iterator[Past]:
    """`count` messages from sequence 1, spread over the `hours` hours before `until_ns`; `root` is the first token of
    their subjects."""
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname()) or "host"
    start, step = until_ns - hours * HOUR_NS, hours * HOUR_NS // max(count, 1)
    for at in range(count):
        file, line = lines[at % len(lines)]
        partition = zlib.crc32(file.encode() + line) % PARTITIONS
        severity = "error" if re.search(rb"(?i)error|fail|fatal", line) else "info"
        headers = f"NATS/1.0\r\nLog-File: {file}\r\nLog-Offset: {at}\r\nLog-Severity: {severity}\r\n\r\n".encode()
        # A stable jitter within the step, so that the minutes have different numbers of messages.
        jitter = zlib.crc32(line) % max(step, 1)
        time_ns = min(start + at * step + jitter, until_ns - SECOND_NS + at)
        yield Past(at + 1, time_ns, f"{root}.p{partition}.{host}", headers, line)
