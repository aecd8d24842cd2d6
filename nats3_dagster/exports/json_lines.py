"""JSON payloads as lines, a batch at a time: proven to be one object each, and passed on byte for byte.

No value is read into Python, so every number, every repeated name and the order of names stay as they were.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json as arrow_json

_WHITE = " \t\r\n"
# Arrow parses every value of a row and keeps those of this field: no payload has it.
_NO_FIELD = pa.schema([pa.field("nats3.none.e3b0c44298fc1c14", pa.string())])


def json_lines(data: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The payloads (binary) that are a JSON object, each as one line (string) with its line end, and which of the
    payloads they are."""
    valid = np.ones(len(data), np.bool_)
    parts: list[pa.Array] = []
    _collect(data, 0, parts, valid)
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string()), valid


def _collect(data: pa.Array, at: int, parts: list[pa.Array], valid: NDArray[np.bool_]) -> None:
    """Halve what is not valid as a whole, until the payloads that are not stand alone."""
    if not len(data):
        return
    if (lines := _lines(data)) is not None:
        parts.append(lines)
    elif len(data) == 1:
        valid[at] = False
    else:
        half = len(data) // 2
        _collect(data[:half], at, parts, valid)
        _collect(data[half:], at + half, parts, valid)


def _lines(data: pa.Array) -> pa.Array | None:
    """The lines of the payloads; None unless each is one JSON object."""
    try:
        text = pc.utf8_trim(data.cast(pa.string()), _WHITE)
    except pa.ArrowInvalid:
        return None
    # So an empty payload is no row less, and an object that ends in the next payload no row more.
    if not pc.all(pc.and_(pc.starts_with(text, "{"), pc.ends_with(text, "}"))).as_py():
        return None
    for end in "\r\n":
        if pc.any(pc.match_substring(text, end)).as_py():
            # White space between two tokens: in a string it would be escaped.
            text = pc.replace_substring(text, end, " ")
    lines = pc.binary_join_element_wise(text, "", "\n")
    return lines if _is_json(lines) else None


def _is_json(lines: pa.Array) -> bool:
    buffer = bytes_of(lines)
    try:
        table = arrow_json.read_json(
            pa.BufferReader(buffer),
            arrow_json.ReadOptions(use_threads=False, block_size=buffer.size + 1),
            arrow_json.ParseOptions(
                explicit_schema=_NO_FIELD, newlines_in_values=False, unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return table.num_rows == len(lines)


def bytes_of(lines: pa.Array) -> pa.Buffer:
    """The lines, one after the other, without a copy."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    first, end = int(offsets[lines.offset]), int(offsets[lines.offset + len(lines)])
    data = lines.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(first, end - first)
