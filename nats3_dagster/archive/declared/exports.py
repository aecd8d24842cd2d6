"""Exports as a file of archives declares them: a list below `exports:` of an archive."""

from pathlib import Path
from typing import Any, cast

from nats3_dagster.archive.declared.document import Table, place
from nats3_dagster.archive.declared.settings import entry, keys_of, missing, with_place, written
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.spec_table import Kind, file_at, settings_of


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
            problems.append(
                OperatorError(f"{place(file, table.line)}: export {spec.name} is there twice", "Leave one of them out")
            )
        elif spec:
            exports[spec.name] = spec
    return tuple(exports[name] for name in sorted(exports)), problems


def entry_of_export(spec: ExportSpec) -> dict[str, Any]:
    """The export as an entry that declares it: what differs from a new one's defaults."""
    return entry(spec)


def _export(table: Table, file: str) -> tuple[ExportSpec | None, list[OperatorError]]:
    """The export of a table, or its problems with their lines."""
    at = place(file, table.line)
    found = written(table, _KEYS, file, "an export")
    if problems := found.problems + missing(found, ExportSpec, at, "an export"):
        return None, problems
    for one in settings_of(ExportSpec):
        if one.kind is Kind.FILE and one.name in found.values:
            found.values[one.name] = file_at(found.values[one.name], Path(file).absolute().parent)
    try:
        return ExportSpec(**found.values), []
    except OperatorError as error:
        return None, [with_place(error, found.places.get(error.field, at))]


_KEYS = keys_of(ExportSpec)
EXPORT_KEYS = tuple(_KEYS)
