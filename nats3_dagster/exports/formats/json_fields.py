"""Fields of JSON objects as CSV has them, for all objects of a batch that have one shape.

Invariant: a text is what the decoder, `to_field` and the writer of CSV make of the same payload. An object for which
that is not certain is left out: one with an escape, a repeated name, or a number that Python writes in another way.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nats3_dagster.exports.decoding.writable import MAX_DEPTH, SAFE_DIGITS
from nats3_dagster.exports.formats.json_lines import bytes_of, contains
from nats3_dagster.model.numbers import Int64s

# Objects of more shapes than these in a batch are left out: each shape costs a pass over what is left.
MAX_SHAPES = 8
# Objects with more of {}[],: than these, and longer ones, are left out: each token costs a step for its shape, and each
# byte eight of memory.
_MAX_TOKENS, _MAX_BYTES = 5_000, 1 << 20
_QUOTE, _COMMA, _COLON, _POINT, _MINUS, _ZERO, _NINE = b'",:.-09'
# A bit that upper and lower case differ in, as do [ and {, ] and }.
_CASE = 0x20


class Fields(NamedTuple):
    """The fields of some objects, which have the same names in the same order."""

    rows: Int64s  # the places of the objects, ascending
    names: tuple[str, ...]
    texts: tuple[pa.Array, ...]  # for each name, binary: the fields as CSV has them, quoted where they must be


class _Text(NamedTuple):
    """Objects without the white space between their tokens, one after the other."""

    buffer: NDArray[np.uint8]
    in_string: NDArray[np.bool_]  # of each byte; from a string's first quote up to its last one
    tokens: Int64s  # the places of {}[],: outside of strings
    first: Int64s  # of each object, the place of its first token in `tokens`; one more at the end
    commas: Int64s  # the places of , in strings


def fields_of(lines: pa.Array, columns: tuple[str, ...] = ()) -> list[Fields]:
    """The fields of `lines` (from `json_lines`), shape by shape; only `columns` where some are named. Objects that are
    left out are in none."""
    rows = np.arange(len(lines))
    short = pc.less(pc.binary_length(lines), _MAX_BYTES)
    if not pc.all(short).as_py():
        rows, lines = rows[short.to_numpy(zero_copy_only=False)], lines.filter(short)
    if len(rows) and contains(lines, b"\\"):
        plain = pc.invert(pc.match_substring(lines, "\\"))
        rows, lines = rows[plain.to_numpy(zero_copy_only=False)], lines.filter(plain)
    if not len(rows):
        return []
    text = _text_of(lines)
    counts = np.diff(text.first)
    left = np.flatnonzero(~_odd(text) & (counts <= _MAX_TOKENS))
    found: list[Fields] = []
    for _ in range(MAX_SHAPES):
        if not len(left):
            break
        count = int(counts[left[0]])
        same = left[counts[left] == count]
        at = text.tokens[text.first[same][:, None] + np.arange(count)]
        alike = _alike(text.buffer, at)
        same, at = same[alike], at[alike]
        left = np.setdiff1d(left, same, assume_unique=True)
        # Below the bound no object is nested too deep.
        few = np.count_nonzero((text.buffer[at[0]] | _CASE) == ord("{")) <= MAX_DEPTH
        if few and (names := _names(text.buffer[at[0, 0] : at[0, -1] + 1].tobytes())):
            wanted = {name: place for place, name in enumerate(names) if not columns or name in columns}
            bounds = _values(text.buffer, at)
            texts = tuple(_field(text, *bounds[place]) for place in wanted.values())
            found.append(Fields(rows[same], tuple(wanted), texts))
    return found


def _text_of(lines: pa.Array) -> _Text:
    buffer = np.frombuffer(bytes_of(lines), np.uint8)
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    # Every object has an even number of quotes, so their count before a byte says whether it is in a string.
    in_string = (np.cumsum((buffer == _QUOTE).view(np.uint8), dtype=np.uint8) & 1).view(np.bool_)
    white = ((buffer == 0x20) | (buffer == 0x09) | (buffer == 0x0A)) & ~in_string
    starts = offsets - offsets[0]
    starts = starts - np.searchsorted(np.flatnonzero(white), starts)
    buffer, in_string = buffer[~white], in_string[~white]
    folded, commas = buffer | _CASE, buffer == _COMMA
    tokens = (folded == ord("{")) | (folded == ord("}")) | commas | (buffer == _COLON)
    tokens = np.flatnonzero(tokens & ~in_string)
    return _Text(buffer, in_string, tokens, np.searchsorted(tokens, starts), np.flatnonzero(commas & in_string))


def _odd(text: _Text) -> NDArray[np.bool_]:
    """Returns True for each object with a number that Python does not write as it is: with an exponent, minus zero, so
    small that `Decimal` takes an exponent, or too long."""
    buffer, outside = text.buffer, ~text.in_string
    exponents = np.flatnonzero(((buffer | _CASE) == ord("e")) & outside)
    exponents = exponents[(buffer[exponents - 1] >= _ZERO) & (buffer[exponents - 1] <= _NINE)]
    points = np.flatnonzero((buffer == _POINT) & outside)
    zeros = np.ones(len(points), np.bool_)
    for place in range(1, 7):
        zeros &= buffer[np.minimum(points + place, len(buffer) - 1)] == _ZERO
    minus = np.flatnonzero((buffer == _MINUS) & outside)
    long = text.tokens[:-1][np.diff(text.tokens) > SAFE_DIGITS]
    places = np.concatenate(
        (
            exponents,
            points[zeros],
            minus[(buffer[minus + 1] == _ZERO) & (buffer[minus + 2] != _POINT)],
            long[buffer[long + 1] != _QUOTE],
        )
    )
    odd = np.zeros(len(text.first) - 1, np.bool_)
    odd[np.searchsorted(text.tokens[text.first[:-1]], places, side="right") - 1] = True
    return odd


def _alike(buffer: NDArray[np.uint8], at: Int64s) -> NDArray[np.bool_]:
    """Returns True for each object with the tokens and the names of the first one, at every depth. `at`: the tokens of
    each."""
    kinds = buffer[at]
    alike = (kinds == kinds[0]).all(axis=1)
    for colon in np.flatnonzero(kinds[0] == _COLON).tolist():
        # Between the two tokens stands the name with its quotes.
        alike &= at[:, colon] - at[:, colon - 1] == at[0, colon] - at[0, colon - 1]
        name = buffer[at[0, colon - 1] + 1 : at[0, colon]]
        places = np.minimum(at[:, colon - 1, None] + 1 + np.arange(len(name)), len(buffer) - 1)
        alike &= (buffer[places] == name).all(axis=1)
    return alike


def _names(document: bytes) -> list[str]:
    """The names of an object; none where it, or an object in it, has a name twice."""
    repeated = False

    def names_of(pairs: list[tuple[str, Any]]) -> list[str]:
        nonlocal repeated
        names = [name for name, _ in pairs]
        repeated = repeated or len({*names}) < len(names)
        return names

    names = json.loads(document, object_pairs_hook=names_of)  # it has no depth that Python would refuse
    return [] if repeated else names


def _values(buffer: NDArray[np.uint8], at: Int64s) -> list[tuple[Int64s, Int64s]]:
    """Returns for each name of objects that are alike the bounds of their values."""
    bounds: list[tuple[Int64s, Int64s]] = []
    depth, colon = 0, 0
    for place, token in enumerate(buffer[at[0]].tolist()):
        depth += token in b"{["
        if depth == 1 and token == _COLON:
            colon = place
        elif depth == 1 and token in b",}" and colon:
            bounds.append((at[:, colon] + 1, at[:, place]))
        depth -= token in b"}]"
    return bounds


def _field(text: _Text, start: Int64s, end: Int64s) -> pa.Array:
    """The values from `start` to `end` as fields."""
    first = text.buffer[start]
    # Such a text is quoted in JSON as it is in CSV, for it has no escape.
    quoted = np.searchsorted(text.commas, end) > np.searchsorted(text.commas, start)
    bare = (first == _QUOTE) & ~quoted
    start, end = start + bare, np.where(first == ord("n"), start, end - bare)
    bounds = np.empty(2 * len(start), np.int32)
    bounds[::2], bounds[1::2] = start, end
    both = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(text.buffer)])
    fields = both.take(pa.array(np.arange(0, len(bounds) - 1, 2)))
    parts = (first | _CASE) == ord("{")
    return pc.if_else(pa.array(parts), _quoted(fields), fields) if parts.any() else fields


def _quoted(fields: pa.Array) -> pa.Array:
    """JSON as a field of CSV."""
    twice = pc.replace_substring(fields, '"', '""')
    return pc.if_else(
        pc.match_substring_regex(fields, '[",]'), pc.binary_join_element_wise(b'"', twice, b'"', b""), fields
    )
