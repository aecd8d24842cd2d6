"""Replays by name as a file of archives declares them: a list below `replays:` of an archive."""

from typing import Any, cast

from nats3_dagster.archive.declared.document import Table, place
from nats3_dagster.archive.declared.settings import Written, keys_of, missing, with_place, written
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ReplayPreset, ReplaySpec
from nats3_dagster.model.preset import preset_settings
from nats3_dagster.model.spec_table import by_key


def read_replays(entry: Table, file: str) -> tuple[tuple[ReplayPreset, ...], list[OperatorError]]:
    """The replays of an archive's entry, by name, and every problem of them with its line."""
    listed: Any = entry.get("replays")
    if listed is None:
        return (), []
    at = place(file, entry.lines.get("replays", entry.line))
    if not isinstance(listed, list) or not all(isinstance(one, Table) for one in cast(list[Any], listed)):
        return (), [OperatorError(f"{at}: replays is no list of tables", "Begin each replay with - name:")]
    problems: list[OperatorError] = []
    presets: dict[str, ReplayPreset] = {}
    for table in cast(list[Table], listed):
        preset, wrong = _preset(table, file)
        problems += wrong
        if preset and preset.name in presets:
            what = f"{place(file, table.line)}: replay {preset.name} is there twice"
            problems.append(OperatorError(what, "Leave one of them out"))
        elif preset:
            presets[preset.name] = preset
    return tuple(presets[name] for name in sorted(presets)), problems


def _preset(table: Table, file: str) -> tuple[ReplayPreset | None, list[OperatorError]]:
    """The replay of a table, or its problems with their lines."""
    at = place(file, table.line)
    found = written(table, _KEYS, file, "a replay")
    absent = [one for spec in (ReplayPreset, ReplaySpec) for one in missing(found, spec, at, "a replay")]
    if problems := found.problems + absent:
        return None, problems
    try:
        return ReplayPreset(found.values["name"], ReplaySpec("", **by_key(ReplaySpec, _by_key(found)))), []
    except OperatorError as error:
        return None, [with_place(error, found.places.get(error.field, at))]


def _by_key(found: Written) -> dict[str, Any]:
    return {one.key: found.values[one.name] for one in preset_settings() if one.name in found.values}


_KEYS = keys_of(ReplayPreset) | {one.file_key: one for one in preset_settings()}
REPLAY_KEYS = tuple(_KEYS)
