"""Messages to measure with: log lines of this host and lines of this repository, and JSON events made of both.

Invariant: no two messages are the same, and none holds random text: random digits compress best at the fastest level,
and say nothing about logs.
"""

import json
import re
from bisect import bisect
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, islice
from pathlib import Path

from nats3_dagster.dev.loglines import read_lines
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS, format_time

# Of the logs half as many at most, and of the repository. A page of a chunk, 256 KiB, holds none twice.
LINES = 100_000
REPOSITORY = Path(__file__).parents[2]
_BEGAN_NS = 1_795_000_000 * SECOND_NS


def payloads(size: int, count: int, first: int = 0) -> list[bytes]:
    """`count` messages of exactly `size` bytes, those from number `first` on. Every other one is an event in JSON, the
    others are lines of logs, as many as fit."""
    corpus = _corpus()
    return [(_event if n % 2 else _record)(size, n, *corpus.at(n * size, size)) for n in range(first, first + count)]


def _record(size: int, n: int, file: str, text: str) -> bytes:
    """Lines of a log, a time and a number before the first."""
    return f"{_time(n)} {file}[{n}]: {text}".encode()[:size].ljust(size)


def _event(size: int, n: int, file: str, text: str) -> bytes:
    """A JSON object whose `message` is as long as fits."""
    level = "error" if re.search(r"(?i)error|fail|fatal", text) else "info"
    event = {"ts": _time(n), "level": level, "service": Path(file).stem, "file": file, "offset": n * 97, "message": ""}
    room = size - len(json.dumps(event))
    while (quoted := len(json.dumps(text)) - 2) > room:
        text = text[: max(0, len(text) - (quoted - room))]
    return json.dumps(event | {"message": text}).encode()[:size].ljust(size)


def _time(n: int) -> str:
    return format_time(_BEGAN_NS + n * 1_318_211)


class _Corpus:
    """Lines of files, one after the other, in ASCII: a character is a byte."""

    def __init__(self, lines: list[tuple[str, bytes]]) -> None:
        self._files = [file for file, _ in lines]
        texts = [line.decode("ascii", "replace").replace("\ufffd", "?") for _, line in lines]
        self._starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        self._text = "\n".join(texts)

    def at(self, position: int, size: int) -> tuple[str, str]:
        """The file and up to `size` characters of the next line behind a position; the end goes on at the beginning."""
        line = bisect(self._starts, position % len(self._text)) % len(self._files)
        start = self._starts[line]
        return self._files[line], self._text[start : start + size]


@cache
def _corpus() -> _Corpus:
    try:
        logs = [(Path(file).name, line) for file, line in read_lines(LINES // 2)]
    except OperatorError:  # a container without logs
        logs = []
    return _Corpus(logs + list(_of_repository()))


def _of_repository() -> Iterator[tuple[str, bytes]]:
    files = sorted(path for kind in ("*.py", "*.md", "*.sql") for path in REPOSITORY.glob(f"[!.]*/**/{kind}"))
    names = ((str(path.relative_to(REPOSITORY)), path.read_bytes().splitlines()) for path in files)
    every = ((name, line.strip()) for name, lines in names for line in lines)
    yield from islice((pair for pair in every if pair[1]), LINES)
