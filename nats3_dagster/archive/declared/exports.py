"""Exports as a file of archives declares them: a list below `exports:` of an archive."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from nats3_dagster.archive.declared.document import Table, nearest, place, unknown_keys
from nats3_dagster.archive.declared.values import count, filters, flag, text, texts
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.export import schema_at


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
    entry: dict[str, Any] = {"name": spec.name, "to": spec.destination}
    for field in fields(ExportSpec)[2:]:
        value = getattr(spec, field.name)
        if value != field.default:
            entry[field.name] = list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType]
    return entry


def _export(table: Table, file: str) -> tuple[ExportSpec | None, list[OperatorError]]:
    """The export of a table, or its problems with their lines."""
    problems = unknown_keys(table, [*_FIELDS], file, "an export")
    at = place(file, table.line)
    if table.get("subject") is not None and table.get("subjects") is not None:
        problems.append(OperatorError(f"{at}: an export has both subject and subjects", "Give one of them"))
    values: dict[str, Any] = {}
    for key, value in table.items():
        if value is None or key not in _FIELDS:  # a key with no value
            continue
        field, kind = _FIELDS[key]
        try:
            values[field] = kind(key, value)
        except OperatorError as error:
            problems.append(_at(error, place(file, table.lines.get(key, table.line))))
    misspelt = {nearest(key, [*_FIELDS]) for key in table if key not in _FIELDS}
    if missing := [key for key in ("name", "to") if table.get(key) is None and key not in misspelt]:
        problems.append(OperatorError(f"{at}: an export without {' and '.join(missing)}", "Add what is missing"))
    if problems:
        return None, problems
    if "schema" in values:
        values["schema"] = schema_at(values["schema"], Path(file).absolute().parent)
    if values.get("subjects") == (">",):
        values["subjects"] = ()
    try:
        return ExportSpec(**values), []
    except OperatorError as error:
        key = next((key for key, (field, _) in _FIELDS.items() if field == error.field), error.field)
        return None, [_at(error, place(file, table.lines.get(key, table.line)))]


def _at(error: OperatorError, at: str) -> OperatorError:
    return OperatorError(f"{at}: {error.what}", error.hint)


# The field of ExportSpec that a key is, and how its value is read. In the order of `nats3 export create`.
_FIELDS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "name": ("name", text), "to": ("destination", text), "subjects": ("subjects", filters),
    "subject": ("subjects", filters), "decode": ("decode", text), "schema": ("schema", text), "key": ("key", text),
    "format": ("format", text), "compression": ("compression", text), "columns": ("columns", texts),
    "path": ("path", text), "interval_minutes": ("interval_minutes", count), "max_undecoded": ("max_undecoded", count),
    "escape_formulas": ("escape_formulas", flag),
}  # fmt: skip
