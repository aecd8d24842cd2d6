"""Values for a setting of a spec: the smallest, the largest, empty ones, null, doubled ones and foreign ones; and what
each of them means in a document, in a file of archives, and in a shell."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from hypothesis import strategies as st

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec, ExportSpec, ReplaySpec
from nats3_dagster.model.spec_table import Kind, Setting, settings_of

# The meaning of a value that must be refused.
WRONG: Final = object()
SPECS: Final = (ArchiveSpec, ReplaySpec, ExportSpec)
EVERY: Final = [(spec, one) for spec in SPECS for one in settings_of(spec)]
# A valid value for each setting that must be given, by field.
NEEDED: Final[dict[type[Any], dict[str, Any]]] = {
    ArchiveSpec: {"name": "a", "stream": "S", "bucket": "bucket"},
    ReplaySpec: {"write_subject": "copy.>"},
    ExportSpec: {"name": "e", "destination": "s3://bucket/x"},
}

TEXTS: Final = (
    *(
        "",
        " ",
        "x",
        " x",
        "none",
        "null",
        "true",
        "a b",
        "a/../b",
        "..",
        "/",
        "~",
        "--",
        "%s{0}",
        "\u202e",
        "\U0001f600",
    ),
    *("a\0b", "a\nb", "\ud800", "x" * 300, "x" * 1025, "x" * 5000),
    *("0", "1", "-1", "00", "1.5", "1e3", "nan", "inf", "9" * 30, "9" * 5000, "\u0663"),
    *("1KiB", "-1KiB", "1h30m", "5 m"),
    *(">", "*", "a.>", "a..b", ">.a", "{{wildcard(1)}}"),
    *("-2h", "-9999999d", "2026-11-21", "2026-11-21-07:00", "2026-11-21-25:00", "2026-11-21T07:00:00Z"),
    *("2026-02-30T07:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
    *("3-9", "9-3", "0-1", "1-" + "9" * 20),
    *("s3://bucket/x", "https://user:word@h/"),
)
# Those of the texts that are quantities with a unit.
SIZES: Final = {"1KiB": 1024, "5 m": 5_000_000}
DURATIONS: Final = {"1h30m": 5400}
OTHERS: Final[tuple[Any, ...]] = (
    *(None, True, False),
    *(0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400),
    *(0.0, -0.0, 0.5, 1.0, 1e-10, 1e300, math.inf),
    *([], [None], [[]], [""], ["x"], ["x", "x"], ["a..b"], [1]),
    *([3, 9], [9, 3], [0, 1], [1, 2**63], [3, 9, 9], ["3", "9"], [True, 2]),
    *(["2026-11-21-07:00"] * 2, ["2026-11-21-25:00"]),
    *({}, {"x": 1}, {"secs": 5}, {"secs": 0, "nanos": 0}, {"secs": -1}, {"secs": True}, {"secs": "5"}),
    *({"secs": 1, "nanos": 10**9}, {"secs": 10**10}, {"nanos": 1}),
)
# JSON values of any type and depth.
FOREIGN: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["secs", "nanos", "x"]), inner),
    max_leaves=4,
)


def values(one: Setting) -> Iterator[Any]:
    """Values of every type, and those at the edges of the setting."""
    yield from (*TEXTS, *OTHERS)
    for edge in _edges(one):
        yield from (edge - 1, edge, edge + 1, str(edge), float(edge))
    yield from one.choices
    yield from (choice.upper() for choice in one.choices)
    if one.kind.is_list:
        yield from (["x"] * one.limit, ["x"] * (one.limit + 1))
    if not one.required:
        yield one.to_document(one.default)


def texts(one: Setting) -> list[str]:
    """Values as words of a shell."""
    edges = [str(edge + by) for edge in _edges(one) for by in (-1, 0, 1)]
    return [*TEXTS, *edges, *one.choices, *(choice.upper() for choice in one.choices)]


def is_right(one: Setting, value: Any) -> bool:
    """True for a value of a document that is accepted whatever else is given: an edge, and the default."""
    defaults = [] if one.required else [one.to_document(one.default)]
    return any(value == each and type(value) is type(each) for each in [*_edges(one), *defaults])


def in_document(one: Setting, value: Any) -> Any:
    """The value in a spec that a JSON value stands for, as far as its type and the table say."""
    match one.kind:
        case Kind.COUNT | Kind.SIZE | Kind.DURATION:
            return _number(one, value)
        case Kind.RATE | Kind.BYTE_RATE:
            return value if type(value) in (int, float) and 0 < value < math.inf else WRONG
        case Kind.FLAG:
            return value if isinstance(value, bool) else WRONG
        case Kind.TEXTS | Kind.FILTERS:
            return _texts(value)
        case Kind.HOURS:
            hours = _texts(value)
            return hours if hours is WRONG else tuple(sorted(set(hours)))
        case Kind.SEQUENCES:
            is_pair = isinstance(value, list) and [type(part) for part in cast(list[Any], value)] == [int, int]
            return tuple(value) if is_pair and 1 <= value[0] <= value[1] else WRONG
        case Kind.INTERVAL:
            return _interval(one, value)
        case _:
            return in_shell(one, value) if isinstance(value, str) else WRONG


def in_file(one: Setting, value: Any, folder: Path) -> Any:
    """The same of a value in a file of archives in this folder."""
    if value is None:
        return one.default
    if isinstance(value, str) and one.kind in (Kind.SIZE, Kind.DURATION):
        return in_shell(one, value)
    if isinstance(value, str) and one.kind.is_list:
        value = [value]
    meant = in_document(one, value)
    if one.kind is Kind.FILE and isinstance(meant, str):
        return str(folder / meant) if meant else one.default
    return one.cleared(meant)


def in_shell(one: Setting, text: str) -> Any:
    """The same of a word in a shell, and of a text in a document."""
    try:
        match one.kind:
            case Kind.COUNT:
                return _number(one, int(text))
            case Kind.SIZE:
                return _number(one, quantity(text, SIZES))
            case Kind.DURATION:
                return _number(one, quantity(text, DURATIONS))
            case Kind.INTERVAL:
                return quantity(text, DURATIONS) or WRONG
            case Kind.BYTE_RATE:
                return quantity(text, SIZES) or WRONG
            case Kind.RATE:
                return float(text)
            case Kind.CHOICE:
                return text if text in one.choices else WRONG
            case Kind.TEXTS | Kind.FILTERS | Kind.HOURS:
                return (text,)
            case Kind.FILE:
                return str(Path(text).absolute()) if text else text
            case _:
                return one.from_document(text)
    except (OperatorError, ValueError):
        return WRONG


def quantity(text: str, known: Mapping[str, int]) -> Any:
    """The number of a text with a unit, or without."""
    return known.get(text, int(text) if re.fullmatch("[0-9]{1,4000}", text) else WRONG)


def is_kept(one: Setting, kept: Any, meant: Any) -> bool:
    """True if a spec holds what was meant."""
    if meant is WRONG:
        return False
    if one.kind is Kind.FILTERS and ">" in (meant or ()):
        return kept in ((), meant)  # every subject
    if one.kind is Kind.TIME and isinstance(meant, int):
        return abs(kept - meant) < 60 * 10**9  # -2h, twice
    return kept == meant and isinstance(kept, bool) == isinstance(meant, bool)


def is_named(one: Setting, text: str) -> bool:
    """True if an error names the setting by one of its names."""
    words = re.sub("[_-]", " ", text.lower())
    names = {one.name, one.key, one.body_key, one.file_key}
    return any(name.replace("_", " ").removesuffix("s") in words for name in names)


def _edges(one: Setting) -> list[int]:
    return [edge for edge in (one.least, one.most) if edge is not None]


def _number(one: Setting, value: Any) -> Any:
    """A whole number in the range of the setting."""
    is_right = type(value) is int and (one.least or 0) <= value and (one.most is None or value <= one.most)
    return value if is_right else WRONG


def _texts(value: Any) -> Any:
    is_texts = isinstance(value, list) and all(isinstance(part, str) for part in cast(list[Any], value))
    return tuple(cast(list[str], value)) if is_texts else WRONG


def _interval(one: Setting, value: Any) -> Any:
    if not isinstance(value, dict) or not {*cast(dict[str, Any], value)} <= {"secs", "nanos"}:
        return WRONG
    parts = [cast(dict[str, Any], value).get(key, 0) for key in ("secs", "nanos")]
    is_right = all(type(part) is int and part >= 0 for part in parts) and any(parts)
    return one.from_document({"secs": parts[0], "nanos": parts[1]}) if is_right else WRONG
