"""The log-shipping case: this host's own log lines as messages on `logs.p<partition>.<host>`.

The rule kept here: the lines are real. A host with fewer lines than asked for ships them again, each time with another
offset header, and the count of distinct lines is said.
"""

import os
import re
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

from nats3_dagster.dev.history import Past
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, SECOND_NS

PARTITIONS = 8
# Lines beyond it are cut: a log line is no document.
LONGEST = 8192


def read_lines(
    most: int, roots: tuple[Path, ...] = (Path("/var/log"),), more: tuple[Path, ...] = ()
) -> list[tuple[str, bytes]]:
    """Up to `most` lines of the text files under `roots`, then of `more`, as (file, line). Raises OperatorError when
    there are none."""
    found: list[tuple[str, bytes]] = []
    for path in [*(p for root in roots for p in sorted(root.rglob("*"))), *more]:
        if len(found) >= most:
            break
        if path.is_file() and os.access(path, os.R_OK) and path.stat().st_size:
            found += _lines_of(path, most - len(found))
    if not found:
        raise OperatorError("There is no readable log on this host", "Name a text file: nats3 demo --log FILE")
    return found


def _lines_of(path: Path, most: int) -> list[tuple[str, bytes]]:
    with path.open("rb") as file:
        if b"\0" in file.read(4096):  # wtmp, journal files: no text
            return []
        file.seek(0)
        lines = (line.rstrip(b"\r\n")[:LONGEST] for line in file)
        return [(str(path), line) for _, line in zip(range(most), (line for line in lines if line), strict=False)]


def as_messages(lines: list[tuple[str, bytes]], count: int, until_ns: int, hours: int) -> Iterator[Past]:
    """`count` messages from sequence 1, spread over the `hours` hours before `until_ns` in a daily rhythm."""
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname()) or "host"
    start, step = until_ns - hours * HOUR_NS, hours * HOUR_NS // max(count, 1)
    for at in range(count):
        file, line = lines[at % len(lines)]
        partition = zlib.crc32(file.encode() + line) % PARTITIONS
        severity = "error" if re.search(rb"(?i)error|fail|fatal", line) else "info"
        headers = f"NATS/1.0\r\nLog-File: {file}\r\nLog-Offset: {at}\r\nLog-Severity: {severity}\r\n\r\n".encode()
        # Within its step each message moves by a stable fraction, so that minutes differ in height.
        jitter = zlib.crc32(line) % max(step, 1)
        time_ns = min(start + at * step + jitter, until_ns - SECOND_NS + at)
        yield Past(at + 1, time_ns, f"logs.p{partition}.{host}", headers, line)
