"""Header maps: a message's header block as a map from names to values, and back. Pure, no I/O.

A name may have several values, and comes with its case. A map cannot hold everything: values that are not UTF-8 have a
replacement character for each bad byte, and lines without a colon are not in it. The block itself is exact.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FIRST_LINE = b"NATS/1.0\r\n"
# What a name can be made of in a line of its own; a value may hold anything but the end of the line.
_NAME = re.compile(r"[!-9;-~]+")
_LINE_END = re.compile(r"[\r\n\x00]")


def as_maps(blocks: pa.Array, type_: pa.DataType) -> pa.Array:
    """Header blocks (binary, null for none) as maps of `type_`, from a text to a list of texts; null for no block."""
    distinct = blocks.dictionary_encode()
    maps = _plain_maps(distinct.dictionary, type_)
    if maps is None:
        maps = pa.array([list(parsed(block).items()) for block in distinct.dictionary.to_pylist()], type_)
    return maps.take(distinct.indices)


def _plain_maps(blocks: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """The maps of blocks that are UTF-8 and have no name twice, by Arrow's kernels; None for any others."""
    try:
        lines = pc.split_pattern(blocks.cast(pa.string()), "\r\n")
    except pa.ArrowInvalid:
        return None
    texts, rows = lines.flatten(), lines.value_parent_indices().to_numpy()
    is_first = np.concatenate(([True], np.diff(rows) > 0))[: len(rows)]
    is_header = (pc.find_substring(texts, ":").to_numpy() > 0) & ~is_first
    rows = rows[is_header]
    parts = pc.split_pattern(texts.filter(pa.array(is_header)), ":", max_splits=1).flatten()
    names, values = parts.take(np.arange(0, len(parts), 2)), parts.take(np.arange(1, len(parts), 2))
    codes = names.dictionary_encode()
    # Almost sorted already, as rows ascend: ten times as quick as np.unique.
    keys = np.sort(rows.astype(np.int64) * len(codes.dictionary) + codes.indices.to_numpy(), kind="stable")
    if (np.diff(keys) == 0).any():
        return None
    ends = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(blocks)))))
    one_each = pa.array(np.arange(len(names) + 1, dtype=np.int32))
    lists = pa.ListArray.from_arrays(one_each, pc.utf8_trim(values, characters=" \t"))
    return pa.MapArray.from_arrays(pa.array(ends.astype(np.int32)), names, lists).cast(type_)


def parsed(block: bytes) -> dict[str, list[str]]:
    """The values of each name, in the order of the block."""
    values: dict[str, list[str]] = {}
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon and name:
            values.setdefault(name.decode(errors="replace"), []).append(value.strip(b" \t").decode(errors="replace"))
    return values


def block_of(values: Iterable[tuple[str, str | Sequence[str] | None]]) -> bytes | None:
    """The header block of these names and values, None without any. Raises ValueError, with the reason, for a name or a
    value that a header cannot have."""
    lines = list(_lines(values))
    return b"".join([FIRST_LINE, *lines, b"\r\n"]) if lines else None


def _lines(values: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    for name, given in values:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:60]!r} is not a header's name")
        if not given and given != "":
            raise ValueError(f"the header {name[:60]} has no value")
        for value in [given] if isinstance(given, str) else given:
            if value is None:
                raise ValueError(f"the header {name[:60]} has no value")
            if _LINE_END.search(value):
                raise ValueError(f"the header {name[:60]} has a value with a line end in it")
            yield f"{name}: {value}\r\n".encode()
