"""Exports as a file of archives declares them: a list below `exports:` of an archive."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from nats3_dagster.archive.declared.document import Table, misspelt, place, unknown_keys
from nats3_dagster.archive.declared.values import address, count, filters, flag, text, texts
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.spec_table import Kind, Setting, file_at, settings_of, to_document


def read_exports(entry: Table, file: str) -> tuple[tuple[ExportSpec, ...], list[OperatorError]]:
    """The exports of an archive's entry, by name, and every problem of them with its line."""
    listed: Any = entry.get("exports")
    if listed is None:
        return (), []
    at = place(file, entry.lines.get("exports", entry.line))
    if not isinstance(listed, list) or not all(isinstance(one, Table) for one in cast(list[Any], listed)):
        return (), [OperatorError(f"{at}: exports is no list of tables", "Begin each export with - name:")]
    problems: list[OperatorError] = []
    exports: dict[str, ExportSpec] = {}
    for table in cast(list[Table], listed):
        spec, wrong = _export(table, file)
        problems += wrong
        if spec and spec.name in exports:
            problems.append(OperatorError(
                f"{place(file, table.line)}: export {spec.name} is there twice", "Leave one of them out"
            ))  # fmt: skip
        elif spec:
            exports[spec.name] = spec
    return tuple(exports[name] for name in sorted(exports)), problems


def entry_of_export(spec: ExportSpec) -> dict[str, Any]:
    """The export as an entry that declares it: what differs from a new one's defaults."""
    document = to_document(spec)
    return {one.key: document[one.key] for one in settings_of(ExportSpec) if getattr(spec, one.name) != one.default}


def _export(table: Table, file: str) -> tuple[ExportSpec | None, list[OperatorError]]:
    """The export of a table, or its problems with their lines."""
    problems = unknown_keys(table, [*_KEYS], file, "an export")
    at = place(file, table.line)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if value is None or key not in _KEYS:  # a key without a value
            continue
        one = _KEYS[key]
        if one.name in values:
            problems.append(OperatorError(f"{at}: an export has both {one.singular} and {one.key}", "Give one of them"))
        try:
            values[one.name] = one.cleared(_READ[one.kind](key, value))
        except OperatorError as error:
            problems.append(_at(error, place(file, table.lines.get(key, table.line))))
    meant = misspelt(table, [*_KEYS])
    needed = [one.key for one in settings_of(ExportSpec) if one.required]
    if missing := [key for key in needed if table.get(key) is None and key not in meant]:
        problems.append(OperatorError(f"{at}: an export without {' and '.join(missing)}", "Add what is missing"))
    if problems:
        return None, problems
    for one in settings_of(ExportSpec):
        if one.kind is Kind.FILE and one.name in values:
            values[one.name] = file_at(values[one.name], Path(file).absolute().parent)
    try:
        return ExportSpec(**values), []
    except OperatorError as error:
        key = next((key for key, one in _KEYS.items() if one.name == error.field and key in table), "")
        return None, [_at(error, place(file, table.lines.get(key, table.line)))]


def _at(error: OperatorError, at: str) -> OperatorError:
    return OperatorError(f"{at}: {error.what}", error.hint)


# The settings by the keys that a file may have: of filters also `subject`.
_KEYS: Mapping[str, Setting] = {one.key: one for one in settings_of(ExportSpec)} | {
    one.singular: one for one in settings_of(ExportSpec) if one.kind is Kind.FILTERS
}
_READ: Mapping[Kind, Callable[[str, Any], Any]] = {
    Kind.TEXT: text, Kind.FILE: text, Kind.ADDRESS: address, Kind.COUNT: count, Kind.FLAG: flag,
    Kind.TEXTS: texts, Kind.FILTERS: filters,
}  # fmt: skip
EXPORT_KEYS = tuple(_KEYS)
