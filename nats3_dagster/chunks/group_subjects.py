"""Subjects that a row group may have: one bloom filter for each row group, in the chunk's footer.

Without it a read of a rare subject fetches the subjects of every row group of a merged chunk, from one end to the
other: 18 requests instead of 2 in an hour of 120,000 messages.

Invariant: a filter never says that a subject is not there when it is. A row group without a filter is read.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final

from nats3_dagster.chunks.bloom import Hashes, bloom_of, may_have

# The filters of 63 row groups, the most that a chunk of 64 MiB has, then take 43 KB of the 128 KB that a read of a
# footer fetches. This is a filter of 409 subjects, at 10 bits each.
MAX_BYTES: Final = 512
# A block of the filter.
_BLOCK: Final = 32

# The filters of a chunk's row groups, in their order; None for a row group with too many subjects. Empty where the
# chunk has none.
Filters = tuple[bytes | None, ...]


def filter_of(hashes: Hashes) -> bytes | None:
    """The filter of a row group, by the hashes of its subjects; None if it would exceed MAX_BYTES."""
    blocks = bloom_of(hashes)
    return blocks if len(blocks) <= MAX_BYTES else None


def written(filters: Filters) -> str:
    """JSON without white space: an array of base64 text, or null."""
    return json.dumps([f and b64encode(f).decode() for f in filters], separators=(",", ":"))


def parsed(text: str, groups: int) -> Filters:
    """The filters of a chunk with this number of row groups. Raises ValueError for text that `written` never gives."""
    values: Any = json.loads(text)
    # binascii.Error is a ValueError.
    filters = tuple(None if value is None else b64decode(value, validate=True) for value in values)
    if len(filters) != groups:
        raise ValueError(f"{groups} row groups have {len(filters)} filters of subjects")
    if any(f is not None and (not f or len(f) % _BLOCK or len(f) > MAX_BYTES) for f in filters):
        raise ValueError("a filter of subjects has another size")
    return filters


def may_have_any(filters: Filters, index: int, subjects: Iterable[str]) -> bool | None:
    """False if the row group has none of these subjects, as `subjects.decoded` gives them; True if it may have one;
    None if nothing is known of it."""
    blocks = filters[index] if filters else None
    return None if blocks is None else any(may_have(blocks, subject) for subject in subjects)
