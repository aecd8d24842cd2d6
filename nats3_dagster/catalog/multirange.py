"""Ranges of sequences as Postgres writes them.

The rule kept here: text in bulk. `deleted` may hold hundreds of thousands of ranges, and psycopg makes four objects of
each.
"""

import re
from collections.abc import Iterable

from nats3_dagster.model import SeqRange

_PAIR = re.compile(r"\[(\d+),(\d+)\)")


def to_multirange(ranges: Iterable[SeqRange]) -> str:
    """The text of an `int8multirange`; Postgres sorts and joins what is not."""
    return "{" + ",".join([f"[{first},{last}]" for first, last in ranges]) + "}"


def from_multirange(text: str) -> tuple[SeqRange, ...]:
    """The ranges of an `int8multirange` or an `int8range` as Postgres prints it, ascending."""
    return tuple(SeqRange(int(first), int(end) - 1) for first, end in _PAIR.findall(text))
