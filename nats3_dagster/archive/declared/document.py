"""The text of a file as tables, lists and values: YAML, JSON or TOML; where the format says it, with line numbers."""

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, cast

import yaml

from nats3_dagster.errors import OperatorError
from nats3_dagster.settings.names import ALIKE, nearest

# What to do about a text that is not YAML, by what the parser says of it.
_YAML_HINTS = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (
            r"nested more than|more than [0-9,]+ values|that it is in",
            "Write it out without aliases, or in several files",
        ),
        (r"alias|block scalar", "Put names and filters that begin with * or > in quotes"),
        (r"'\\t' that cannot start", "Indent with spaces, not with tabs"),
        (
            r"cannot start any token|scanning an anchor|tag handle",
            "Put a text that begins with a special sign in quotes",
        ),
        (r"mapping values are not allowed", "Put a text with a colon in quotes, and check the indentation"),
        (r"constructor for the tag", "Write plain text, numbers, lists and tables: there are no tags"),
        (r"is no text", "Write each key as text"),
        (r"is no value", "Put it in quotes if it is text"),
        (r"special characters|decode", "Save the file as UTF-8 text without control characters"),
        (r"single document", "Write one document: the file has a second one after ---"),
    )
)
_YAML_HINT = "Check the indentation, and that all quotes and brackets are closed"
# Of one file: characters, values within one another, and values with each alias counted as what it stands for.
_MOST_CHARACTERS, _DEEPEST, _MOST_VALUES = 2 << 20, 64, 100_000
_NO_LIST = "Write a list of tables, or [] for none"


class Table(dict[str, Any]):
    """A mapping in a file."""

    def __init__(
        self, items: Iterable[tuple[str, Any]] = (), line: int = 0, lines: dict[str, int] | None = None
    ) -> None:
        super().__init__(items)
        # Where it begins and where each of its keys is, from 1; 0 and empty where nothing says it.
        self.line = line
        self.lines: dict[str, int] = lines or {}


def parse(text: str, file: str) -> tuple[Table, list[OperatorError]]:
    """Returns the file's table (TOML or JSON by the ending of its name, else YAML), and a problem for each key that a
    table has twice; the first of them counts. Raises OperatorError, with the line, for a text that is none."""
    twice: list[OperatorError] = []
    if len(text) > _MOST_CHARACTERS:
        raise OperatorError(
            f"{file} has more than {_MOST_CHARACTERS:,} characters", "Declare archives in several files"
        )
    if file.endswith(".toml"):
        parsed = _toml(text, file)
    elif file.endswith(".json"):
        parsed = _json(text, file, twice)
    else:
        parsed = _yaml(text, file, twice)
    if not isinstance(parsed, Table):
        raise OperatorError(f"{file} is no table of archives", "Begin it with archives: and a list below it")
    return parsed, twice


def place(file: str, line: int) -> str:
    """`archives.yaml:12`, or the file alone where the line is not known."""
    return f"{file}:{line}" if line else file


def tables_of(root: Table, key: str, file: str, of: str = "archive") -> list[Table]:
    """The tables of the list under a key, each of them an `of`. Raises OperatorError if it is something else, also for
    a key without a value: an empty list means none, and nothing at all may be what a template left."""
    listed: Any = root[key]
    at = place(file, root.lines.get(key, 0))
    if listed is None:
        raise OperatorError(f"{at}: {key} has no value", _NO_LIST)
    if not isinstance(listed, list) or not all(isinstance(entry, Table) for entry in cast(list[Any], listed)):
        raise OperatorError(f"{at}: {key} is no list of tables", f"Begin each {of} with - name:")
    return cast(list[Table], listed)


def unknown_keys(table: Table, keys: Sequence[str], file: str, of: str) -> list[OperatorError]:
    """A problem, with the nearest key, for each key of the table that is not one of `keys`."""
    problems: list[OperatorError] = []
    for key in table:
        if key not in keys:
            near = nearest(key, keys, ALIKE)
            hint = f"Did you mean {near}?" if near else f"It has {', '.join(keys)}"
            at = place(file, table.lines.get(key, table.line))
            problems.append(OperatorError(f"{at}: {of} has no key {key!r}", hint))
    return problems


def misspelt(table: Table, keys: Sequence[str]) -> set[str]:
    """The keys that others of the table, which are none of `keys`, may mean."""
    return {near for key in table if key not in keys and (near := nearest(key, keys, ALIKE))}


def _toml(text: str, file: str) -> Any:
    try:
        return _tables(tomllib.loads(text))
    except RecursionError:
        raise OperatorError(f"{file} is nested too deeply", "Correct it: nothing was changed") from None
    except ValueError as error:  # TOMLDecodeError too
        raise OperatorError(f"{file} is not TOML: {error}", "Correct it: nothing was changed") from None


def _json(text: str, file: str, twice: list[OperatorError]) -> Any:
    def table(pairs: list[tuple[str, Any]]) -> Table:
        made = Table()
        for key, value in pairs:
            if key in made:
                twice.append(OperatorError(f"{file} has the key {key!r} twice in one table", "Leave one of them out"))
            else:
                made[key] = value
        return made

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is no number of JSON")

    try:
        return json.loads(text, object_pairs_hook=table, parse_constant=constant)
    except RecursionError:
        raise OperatorError(f"{file} is nested too deeply", "Correct it: nothing was changed") from None
    except ValueError as error:
        raise OperatorError(f"{file} is not JSON: {error}", "Correct it: nothing was changed") from None


def _tables(value: Any) -> Any:
    if isinstance(value, dict):
        return Table((key, _tables(inner)) for key, inner in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [_tables(inner) for inner in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


class _Loader(yaml.SafeLoader):
    """A loader of safe YAML whose tables know their lines."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # Keys that a table has a second time, with the line of it.
        self.twice: list[tuple[str, int]] = []

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except ValueError as error:  # a date or a number that does not exist
            text = f"{getattr(node, 'value', '')!r} is no value: {error}"
            raise yaml.MarkedYAMLError(None, None, text, node.start_mark) from None


def _table(loader: _Loader, node: yaml.MappingNode) -> Any:
    pairs: list[tuple[yaml.Node, yaml.Node]] = []
    own: set[str] = set()
    for key, value in node.value:
        if key.tag != "tag:yaml.org,2002:merge":
            name: Any = _value(loader, key)
            if not isinstance(name, str):
                raise yaml.MarkedYAMLError(None, None, f"the key {name!r} is no text", key.start_mark)
            if name in own:
                loader.twice.append((name, key.start_mark.line + 1))
                continue
            own.add(name)
        pairs.append((key, value))
    node.value = pairs
    loader.flatten_mapping(node)
    made = Table(line=node.start_mark.line + 1)
    # Built later than it is referred to: an alias inside of it may be itself.
    yield made
    for key, value in node.value:
        inner: Any = _value(loader, value)
        made[str(_value(loader, key))] = inner
        made.lines[str(_value(loader, key))] = key.start_mark.line + 1


def _value(loader: _Loader, node: yaml.Node) -> Any:
    return loader.construct_object(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _table)


def _yaml(text: str, file: str, twice: list[OperatorError]) -> Any:
    try:
        loader = _Loader(text)
        root: Any = loader.get_single_node()
        if root is not None:
            _check_size(root, {}, 0)
        build: Any = loader.construct_document  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        parsed: Any = root and build(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = place(file, mark.line + 1 if mark else 0)
        hint = _yaml_hint(f"{error.context} {error.problem}")
        raise OperatorError(f"{at} is not YAML: {error.problem or error.context}", hint) from None
    except yaml.reader.ReaderError as error:
        at = place(file, text.count("\n", 0, error.position) + 1)
        reason = str(error).splitlines()[0]
        raise OperatorError(f"{at} is not YAML: {reason}", _yaml_hint(reason)) from None
    except RecursionError:
        raise OperatorError(f"{file} is nested too deeply", "Correct it: nothing was changed") from None
    except (yaml.YAMLError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise OperatorError(f"{file} is not YAML: {reason}", _yaml_hint(reason)) from None
    twice += [
        OperatorError(f"{place(file, line)} has the key {key!r} a second time", "Leave one of them out")
        for key, line in loader.twice
    ]
    return parsed


def _check_size(node: Any, sizes: dict[int, int], depth: int) -> int:
    """The number of values in a node, an alias counted as all that it stands for: a few lines of aliases may stand for
    more than there is memory. Raises MarkedYAMLError where there are too many. `sizes`: of the nodes that were counted
    already, by identity; 0 for one that is being counted."""
    if (known := sizes.get(id(node))) is not None:
        if known == 0:
            raise yaml.MarkedYAMLError(None, None, "an alias stands for something that it is in", node.start_mark)
        return known
    if depth > _DEEPEST:
        raise yaml.MarkedYAMLError(None, None, f"it is nested more than {_DEEPEST} deep", node.start_mark)
    sizes[id(node)] = 0
    parts: list[Any] = list(node.value) if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    size = 1
    for part in parts:
        size += _check_size(part, sizes, depth + 1)
        if size > _MOST_VALUES:
            text = f"it has more than {_MOST_VALUES:,} values, those that aliases stand for included"
            raise yaml.MarkedYAMLError(None, None, text, node.start_mark)
    sizes[id(node)] = size
    return size


def _yaml_hint(reason: str) -> str:
    return next((hint for pattern, hint in _YAML_HINTS if pattern.search(reason)), _YAML_HINT)
