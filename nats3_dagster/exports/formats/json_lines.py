"""JSON payloads as lines, a batch at a time: proven to be one object each, and passed on byte for byte.

No value is read into Python, so every number, every repeated name and the order of names stay as they were. A payload
that needs a closer look is judged by the decoder, alone.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from nats3_dagster.exports.decoding.json_text import json_decode
from nats3_dagster.exports.decoding.message import Message, Undecodable
from nats3_dagster.exports.decoding.writable import MAX_DEPTH
from nats3_dagster.exports.formats.json_scan import LONG, brackets, scan
from nats3_dagster.model.numbers import Int64s

_WHITE = " \t\r\n"
# What Arrow would take for more, or for less, than it is: line ends in strings, and constants that JSON does not have.
_ODD = r"\r|\n|NaN|Inf"
# Half of a surrogate pair, or a pair.
_SURROGATE = r"\\u[dD]"
# What a number beyond every double has: an exponent of three digits, or many digits.
_EXPONENT, _LONG = r"[0-9][eE]\+?[0-9]{3}", f"[0-9]{{{LONG}}}"
_decode = json_decode(exact=True, repeated=True)
# Arrow parses every value of a row and keeps those of this field: no payload has it.
_NO_FIELD = pa.schema([pa.field("nats3.none.e3b0c44298fc1c14", pa.string())])


def json_lines(data: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The payloads (binary) that are a JSON object, each as one line (string) with its line end, and which of the
    payloads they are."""
    valid = np.ones(len(data), np.bool_)
    _judge(data, np.arange(len(data)), valid)
    text = pc.utf8_trim((data if valid.all() else data.filter(pa.array(valid))).cast(pa.string()), _WHITE)
    data_bytes = bytes_of(text).to_pybytes()
    for end in ("\r", "\n"):
        if end.encode() in data_bytes:
            # White space between two tokens: in a string it would be escaped.
            text = pc.replace_substring(text, end, " ")
    return pc.binary_join_element_wise(text, "", "\n"), valid


def _judge(data: pa.Array, places: NDArray[np.int64], valid: NDArray[np.bool_]) -> None:
    """Halve what is not valid as a whole, until the payloads that are not stand alone."""
    if not len(data):
        return
    try:
        text = pc.utf8_trim(data.cast(pa.string()), _WHITE)
    except pa.ArrowInvalid:
        text = None
    if text is not None:
        if (odd := _odd(text)) is not None:
            for place, payload in zip(places[odd].tolist(), data.filter(pa.array(odd)).to_pylist(), strict=True):
                valid[place] = _is_object(payload)
            _judge(data.filter(pa.array(~odd)), places[~odd], valid)
            return
        # So an empty payload is no row less, and no object ends in the next payload.
        whole = pc.all(pc.and_(pc.starts_with(text, "{"), pc.ends_with(text, "}"))).as_py()
        if whole and _is_json(pc.binary_join_element_wise(text, "", "\n")):
            return
    if len(data) == 1:
        valid[places[0]] = _is_object(data[0].as_py())
        return
    half = len(data) // 2
    _judge(data[:half], places[:half], valid)
    _judge(data[half:], places[half:], valid)


def _odd(text: pa.Array) -> NDArray[np.bool_] | None:
    """The payloads that are judged alone; None without any."""
    odd = np.zeros(len(text), np.bool_)
    data = bytes_of(text).to_pybytes()
    buffer = np.frombuffer(data, np.uint8)
    found = scan(buffer)
    if found.constants or b"\r" in data or b"\n" in data:
        odd |= _has(text, _ODD)
    if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
        odd |= _has(text, _SURROGATE)
    if found.exponents:
        odd |= _has(text, _EXPONENT)
    if found.long_numbers:
        odd |= _has(text, _LONG)
    lengths: Int64s = pc.binary_length(text).to_numpy().astype(np.int64)
    if lengths.max(initial=0) > 2 * MAX_DEPTH:
        ends = np.cumsum(lengths)
        places = brackets(buffer)
        odd |= np.searchsorted(places, ends) - np.searchsorted(places, ends - lengths) > MAX_DEPTH
    return odd if odd.any() else None


def _has(text: pa.Array, pattern: str) -> NDArray[np.bool_]:
    return pc.match_substring_regex(text, pattern).to_numpy(zero_copy_only=False)


def _is_object(payload: bytes) -> bool:
    """True if Python reads the payload as a JSON object: it takes numbers beyond every float, which Arrow does not."""
    try:
        _decode(Message(0, 0, "", None, payload))
    except (Undecodable, ValueError, RecursionError):
        return False
    return True


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


def contains(texts: pa.Array, *parts: bytes) -> bool:
    """True if one of the parts is in the texts, or in two that are neighbours. Arrow takes ten times as long, for it
    searches each text by itself."""
    data = bytes_of(texts).to_pybytes()
    return any(part in data for part in parts)


def bytes_of(lines: pa.Array) -> pa.Buffer:
    """The lines, one after the other, without a copy."""
    width = np.int64 if pa.types.is_large_binary(lines.type) else np.int32
    offsets = np.frombuffer(lines.buffers()[1], width)
    first, end = int(offsets[lines.offset]), int(offsets[lines.offset + len(lines)])
    data = lines.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(first, end - first)
