"""Columns of files that keep types: what a schema says of a field, and how a decoded value gets there.

Invariant: `convert` returns what its type holds, or raises Undecodable: so one value never fails a file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from nats3_dagster.exports.decoding.message import Undecodable
from nats3_dagster.exports.formats.values import to_text

# Levels of a type that readers of Parquet take; pyarrow opens no file of more.
MAX_LEVELS = 20


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a row, which may be null."""

    type: pa.DataType
    # The value for Arrow, of one that is not None. Raises Undecodable.
    convert: Callable[[Any], Any] = field(repr=False)

    def of(self, value: Any) -> Any:
        """The value for Arrow. Raises Undecodable."""
        return None if value is None else self.convert(value)


def unfit(value: Any, name: str) -> Undecodable:
    """The reason where the schema says another type than a value has."""
    return Undecodable(f"A value is not {name}: {str(value)[:100]!r}")


def whole(bits: int, *, signed: bool = True) -> Column:
    """Whole numbers of 32 or 64 bits."""
    least, end = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    kind: pa.DataType = getattr(pa, f"{'' if signed else 'u'}int{bits}")()

    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or int(value) != value:
            raise unfit(value, "a whole number")
        if not least <= value < end:
            raise Undecodable(f"A whole number does not fit into {bits} bits: {value}"[:200])
        return int(value)

    return Column(kind, convert)


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise unfit(value, "a number")
    if isinstance(value, int) and int(float(value)) != value:
        raise Undecodable(f"A whole number is not exact in a column of doubles: {value}"[:200])
    return float(value)


def typed(type_: pa.DataType, kind: type, name: str) -> Column:
    """Values of one Python class."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise unfit(value, name)
        return value

    return Column(type_, convert)


DOUBLE = Column(pa.float64(), _double)
FLOAT = Column(pa.float32(), _double)
TRUTH = typed(pa.bool_(), bool, "true or false")
BINARY = typed(pa.binary(), bytes, "bytes")
DATE = typed(pa.date32(), date, "a date")
TIME = typed(pa.time64("us"), time, "a time of day")
INSTANT = typed(pa.timestamp("us", "UTC"), datetime, "a time")
LOCAL = Column(pa.timestamp("us"), lambda value: INSTANT.convert(value).replace(tzinfo=None))
# Values that have no type in common are JSON, and a text is as it is.
JSON = TEXT = Column(pa.string(), to_text)


def decimal(precision: int, scale: int) -> Column:
    """Decimals; those of more digits than Arrow has are text."""
    if not 0 < precision <= 76:
        return JSON
    kind = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)

    def convert(value: Any) -> Decimal:
        if not isinstance(value, Decimal) or not value.is_finite():
            raise unfit(value, "a decimal")
        if value and value.adjusted() >= precision - scale:
            raise Undecodable(f"A decimal has more than {precision} digits: {value}"[:200])
        return value

    return Column(kind, convert)


def list_of(items: Column) -> Column:
    """Lists of these."""

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise unfit(value, "a list")
        return [items.of(each) for each in value]

    return _shallow(Column(pa.list_(items.type), convert))


def map_of(values: Column, keys: Column = TEXT) -> Column:
    """Maps from text, or other keys, to these."""

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, Mapping):
            raise unfit(value, "a map")
        return [(keys.of(name), values.of(each)) for name, each in value.items()]

    return _shallow(Column(pa.map_(keys.type, values.type), convert))


def struct_of(fields: Mapping[str, Column]) -> Column:
    """Objects of these fields; others are left out. Without fields JSON, for no file has such a column."""
    if not fields:
        return JSON

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise unfit(value, "an object")
        return {name: column.of(value.get(name)) for name, column in fields.items()}

    return _shallow(Column(pa.struct([(name, column.type) for name, column in fields.items()]), convert))


def levels(type_: pa.DataType) -> int:
    """The levels of a type, 1 without parts."""
    return 1 + max((levels(type_.field(at).type) for at in range(type_.num_fields)), default=0)


def _shallow(column: Column) -> Column:
    return column if levels(column.type) <= MAX_LEVELS else JSON
