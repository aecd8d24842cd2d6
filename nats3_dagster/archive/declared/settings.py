"""The settings of a spec in a table of a file: each value by its field, and every problem with its line."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nats3_dagster.archive.declared.document import Table, misspelt, place, unknown_keys
from nats3_dagster.archive.declared.values import address, count, duration, filters, flag, number, size, text, texts
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.spec_table import Kind, Setting, settings_of

_READ: Mapping[Kind, Callable[[str, Any], Any]] = {
    Kind.TEXT: text,
    Kind.FILE: text,
    Kind.ADDRESS: address,
    Kind.CHOICE: text,
    Kind.COUNT: count,
    Kind.SIZE: size,
    Kind.DURATION: duration,
    Kind.FLAG: flag,
    Kind.TEXTS: texts,
    Kind.FILTERS: filters,
    Kind.FILTER: text,
    Kind.RATE: number,
    Kind.BYTE_RATE: size,
}


@dataclass(slots=True)
class Written:
    """The content of a table of a file."""

    # By field, without those that have a problem.
    values: dict[str, Any] = field(default_factory=dict)
    # Where each field was written, wrong ones included.
    places: dict[str, str] = field(default_factory=dict)
    problems: list[OperatorError] = field(default_factory=list)
    # Keys that misspelt ones may mean.
    meant: set[str] = field(default_factory=set)


def keys_of(*specs: type[Any]) -> dict[str, Setting]:
    """The settings of specs by the keys that a file may have: filters also by that of one filter."""
    keys: dict[str, Setting] = {}
    for one in (one for spec in specs for one in settings_of(spec)):
        keys[one.file_key] = one
        if one.kind is Kind.FILTERS:
            keys[one.singular] = one
    return keys


def written(
    table: Table, settings: Mapping[str, Setting], file: str, of: str, *, beside: Sequence[str] = ()
) -> Written:
    """Returns a table's values of these settings, with every problem of its keys and values. `beside`: keys that others
    read."""
    keys = [*settings, *beside]
    found = Written(problems=unknown_keys(table, keys, file, of), meant=misspelt(table, keys))
    for key, value in table.items():
        if value is None or key not in settings:  # a key without a value, and what others read
            continue
        one, at = settings[key], place(file, table.lines.get(key, table.line))
        if one.name in found.places:
            text = f"{at}: {of} has both {one.singular} and {one.file_key}"
            found.problems.append(OperatorError(text, "Give one of them"))
        found.places[one.name] = at
        try:
            found.values[one.name] = one.cleared(_READ[one.kind](key, value))
        except OperatorError as error:
            found.problems.append(with_place(error, at))
    return found


def missing(found: Written, spec: type[Any], at: str, of: str) -> list[OperatorError]:
    """The problem of settings that are not written and must be, unless a misspelt key may mean them."""
    needed = [one for one in settings_of(spec) if one.required]
    absent = [one.file_key for one in needed if one.name not in found.places and one.file_key not in found.meant]
    return [OperatorError(f"{at}: {of} without {' and '.join(absent)}", "Add what is missing")] if absent else []


def entry(spec: Any, *, always: Collection[str] = ()) -> dict[str, Any]:
    """The settings of a spec as a table that declares them: those that differ from their default, and those of the
    fields `always`."""
    values = {one: one.of(spec) for one in settings_of(spec.__class__)}
    written = {one: value for one, value in values.items() if value != one.default or one.name in always}
    return {one.file_key: _value(one, value) for one, value in written.items()}


def with_place(error: OperatorError, at: str) -> OperatorError:
    return OperatorError(f"{at}: {error.what}", error.hint)


def _value(one: Setting, value: Any) -> Any:
    return f"{value}s" if one.kind is Kind.DURATION else one.to_document(value)
