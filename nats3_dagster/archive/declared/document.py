"""The text of a file as tables, lists and values: YAML, JSON or TOML; where the format says it, with line numbers."""

import json
import tomllib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, cast

import yaml

from nats3_dagster.errors import OperatorError

_QUOTES = "Put names and filters that begin with * or > in quotes"


class Table(dict[str, Any]):
    """A mapping in a file."""

    def __init__(
        self, items: Iterable[tuple[str, Any]] = (), line: int = 0, lines: dict[str, int] | None = None
    ) -> None:
        super().__init__(items)
        # Where it begins and where each of its keys is, from 1; 0 and empty where nothing says it.
        self.line = line
        self.lines: dict[str, int] = lines or {}


def parse(text: str, file: str) -> Table:
    """The file's table: TOML or JSON by the ending of its name, else YAML. Raises OperatorError, with the line, for a
    text that is none, and for a key that a table has twice."""
    if file.endswith(".toml"):
        parsed = _toml(text, file)
    elif file.endswith(".json"):
        parsed = _json(text, file)
    else:
        parsed = _yaml(text, file)
    if not isinstance(parsed, Table):
        raise OperatorError(f"{file} is no table of archives", "Begin it with archives: and a list below it")
    return parsed


def place(file: str, line: int) -> str:
    """`archives.yaml:12`, or the file alone where the line is not known."""
    return f"{file}:{line}" if line else file


def tables_of(root: Table, key: str, file: str) -> list[Table]:
    """The tables of the list under a key. Raises OperatorError if it is something else."""
    listed: Any = root[key] if root[key] is not None else []
    if not isinstance(listed, list) or not all(isinstance(entry, Table) for entry in cast(list[Any], listed)):
        raise OperatorError(
            f"{place(file, root.lines.get(key, 0))}: {key} is no list of tables", "Begin each archive with - name:"
        )
    return cast(list[Table], listed)


def unknown_keys(table: Table, known: Sequence[str], file: str, of: str) -> None:
    """Raises OperatorError, with the nearest known key, for the first key of the table that is not known."""
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(known)}"
            raise OperatorError(f"{place(file, table.lines.get(key, table.line))}: {of} has no key {key!r}", hint)


def _toml(text: str, file: str) -> Any:
    try:
        return _tables(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise OperatorError(f"{file} is not TOML: {error}", "Correct it: nothing was changed") from None


def _json(text: str, file: str) -> Any:
    def table(pairs: list[tuple[str, Any]]) -> Table:
        made = Table()
        for key, value in pairs:
            if key in made:
                raise OperatorError(f"{file} has the key {key!r} twice in one table", "Leave one of them out")
            made[key] = value
        return made

    try:
        return json.loads(text, object_pairs_hook=table)
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"{file} is not JSON: {error}", "Correct it: nothing was changed") from None


def _tables(value: Any) -> Any:
    if isinstance(value, dict):
        return Table((key, _tables(inner)) for key, inner in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [_tables(inner) for inner in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


class _Loader(yaml.SafeLoader):
    """Safe YAML, of which tables know their lines, and have no key twice."""


class _Twice(Exception):
    """A key that a table has twice, and the line of the second one."""


def _table(loader: _Loader, node: yaml.MappingNode) -> Any:
    own: set[Any] = set()
    for key, _ in node.value:
        if key.tag != "tag:yaml.org,2002:merge":
            name: Any = _value(loader, key)
            if not isinstance(name, str):
                raise yaml.MarkedYAMLError(None, None, f"the key {name!r} is no text", key.start_mark)
            if name in own:
                raise _Twice(name, key.start_mark.line + 1)
            own.add(name)
    loader.flatten_mapping(node)
    made = Table(line=node.start_mark.line + 1)
    # Built later than it is referred to: an alias inside of it may be itself.
    yield made
    for key, value in node.value:
        inner: Any = _value(loader, value)
        made[str(_value(loader, key))] = inner
        made.lines[str(_value(loader, key))] = key.start_mark.line + 1


def _value(loader: _Loader, node: yaml.Node) -> Any:
    return loader.construct_object(node, deep=True)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


_Loader.add_constructor("tag:yaml.org,2002:map", _table)


def _yaml(text: str, file: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506  it is a SafeLoader
    except _Twice as twice:
        key, line = twice.args
        raise OperatorError(f"{place(file, line)} has the key {key!r} a second time", "Leave one of them out") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = place(file, mark.line + 1 if mark else 0)
        raise OperatorError(f"{at} is not YAML: {error.problem or error.context}", _QUOTES) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise OperatorError(f"{file} is not YAML: {str(error).splitlines()[0]}", _QUOTES) from None
