"""Ranges of sequences as Postgres writes them.

A multirange stays text on the wire: `deleted` may have hundreds of thousands of ranges, and psycopg makes four objects
of each.
"""

import re
from collections.abc import Iterable

from psycopg.abc import Buffer
from psycopg.adapt import Loader

from nats3_dagster.model import SeqRange

_PAIR = re.compile(r"\[(\d+),(\d+)\)")


class SeqRangeLoader(Loader):
    """Loads an `int8range` that has both bounds as a SeqRange."""

    def load(self, data: Buffer) -> SeqRange:
        (seqs,) = from_multirange(bytes(data).decode())
        return seqs


def to_multirange(ranges: Iterable[SeqRange]) -> str:
    """The text of an `int8multirange`. The ranges may be in any order and touch: Postgres sorts and joins them."""
    return "{" + ",".join([f"[{first},{last}]" for first, last in ranges]) + "}"


def from_multirange(text: str) -> tuple[SeqRange, ...]:
    """The ranges of an `int8multirange` or an `int8range` as Postgres prints it, ascending."""
    return tuple(SeqRange(int(first), int(end) - 1) for first, end in _PAIR.findall(text))
