"""The table of settings of a spec: what each field is called, takes and means, wherever a user gives it.

A field of a spec carries a Setting in its metadata. Options of commands, bodies of the HTTP API, keys of files of
archives, fields of the Dagster component and the lines that show a spec are made from these, so that a new field is
written once.
"""

import os
from collections.abc import Mapping, Sized
from dataclasses import MISSING, Field, dataclass, fields
from datetime import datetime
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from nats3_dagster.errors import OperatorError, blaming
from nats3_dagster.hours import SECOND_NS, format_time, parse_time
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.quantities import duration_text, size_text
from nats3_dagster.model.stream import SeqRange, parse_sequences
from nats3_dagster.plausible import check_field

_KEY, _GROUP = "nats3.setting", "nats3.settings"


class Kind(Enum):
    """The type of a setting's value."""

    TEXT = auto()
    # The path of a file: relative to the folder of the shell, or of the file of archives that has it.
    FILE = auto()
    # A URL. It may hold a login by mistake, and is never repeated unchecked.
    ADDRESS = auto()
    # One of the texts of the field's Literal.
    CHOICE = auto()
    COUNT = auto()
    # Bytes. Options and files also take `64MiB`.
    SIZE = auto()
    # Seconds. Options and files also take `5m`.
    DURATION = auto()
    # Seconds, which documents give as {secs, nanos}. Options take `5m`.
    INTERVAL = auto()
    # A number above 0.
    RATE = auto()
    # Bytes a second. Options also take `64MiB`.
    BYTE_RATE = auto()
    # Nanoseconds since 1970, which documents give in RFC 3339. Options and run config also take `-2h`.
    TIME = auto()
    # Stream sequences, which documents give as [first, last], options and run config as `first-last`.
    SEQUENCES = auto()
    FLAG = auto()
    TEXTS = auto()
    # Keys of hours.
    HOURS = auto()
    # NATS subject filters.
    FILTERS = auto()
    # The only filter of a list of them.
    FILTER = auto()

    @property
    def is_list(self) -> bool:
        return self in (Kind.TEXTS, Kind.HOURS, Kind.FILTERS)

    @property
    def is_number(self) -> bool:
        return self in (Kind.COUNT, Kind.SIZE, Kind.DURATION)

    @property
    def type(self) -> Any:
        """The Python type of a value, as shells and YAML give it."""
        if self in (Kind.RATE, Kind.BYTE_RATE):
            return float
        return list[str] if self.is_list else int if self.is_number else bool if self is Kind.FLAG else str


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a spec."""

    # The field, its key in answers and in the component, and its key in bodies.
    name: str
    key: str
    body_key: str
    kind: Kind
    # One or more sentences. Shown with every way to give the setting.
    help: str
    # What stands for the value in the help of an option.
    metavar: str
    # The value without it; MISSING for a setting that must be given.
    default: Any
    # The most elements of a list.
    limit: int
    # The smallest and the largest number; None where the spec itself checks it.
    least: int | None
    most: int | None
    # The form of a text; None where the spec itself checks it.
    pattern: Pattern | None
    # What people read where it has no value, or the number 0; empty for the word of its kind, and for the number.
    empty: str
    # Of a choice; empty for any other kind.
    choices: tuple[str, ...]
    # Why it cannot change once it is set; None if it can.
    fixed: str | None
    # The field of the spec that has it, where that is a dataclass of its own; None for a field of the spec itself.
    group: str | None

    @property
    def type(self) -> Any:
        """The Python type of a value: that of its kind, a Literal for a choice."""
        return Literal[self.choices] if self.choices else self.kind.type

    @property
    def file_key(self) -> str:
        """The key in files, and what options are named by: without `_s` of a duration, which has its unit there."""
        return self.body_key.removesuffix("_s") if self.kind is Kind.DURATION else self.body_key

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def of(self, spec: Any) -> Any:
        """The value in a spec."""
        return getattr(getattr(spec, self.group) if self.group else spec, self.name)

    def to_document(self, value: Any) -> Any:
        """A value of a spec as documents have it."""
        match self.kind:
            case Kind.FILTER:
                return value[0] if value else ">"
            case Kind.TIME if value is not None:
                return format_time(value)
            case Kind.INTERVAL if value is not None:
                secs, nanos = divmod(round(value * SECOND_NS), SECOND_NS)
                return {"secs": secs, "nanos": nanos}
            case _:
                return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def from_document(self, value: Any, now: datetime | None = None) -> Any:
        """The value in a spec that a document, an option or a run config gives. `now`: see `parse_time`. Raises
        OperatorError."""
        match self.kind:
            case Kind.FILTER:
                return (value,)
            case Kind.HOURS:
                return tuple(sorted(set(value)))
            case Kind.TIME:
                return parse_time(value, now)
            case Kind.SEQUENCES:
                return parse_sequences(value.strip()) if isinstance(value, str) else SeqRange(*value)
            case Kind.INTERVAL:
                return value["secs"] + value["nanos"] / SECOND_NS if value["nanos"] else value["secs"]
            case _:
                return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    @property
    def singular(self) -> str:
        """The key of one element of a list, as options have it; the key itself for any other kind."""
        if not self.kind.is_list:
            return self.file_key
        return f"{self.file_key[:-3]}y" if self.file_key.endswith("ies") else self.file_key.removesuffix("s")

    @property
    def option(self) -> str:
        """The option of a command."""
        return "--" + self.singular.replace("_", "-")

    @property
    def label(self) -> str:
        """The name of the line that shows it."""
        return self.file_key.replace("_", " ")

    @property
    def description(self) -> str:
        """The help with the default, where there is one."""
        if self.default is MISSING or self.default in (None, (), "", False, True):
            return self.help
        shown = self.shown(self.default)
        return f"{self.help} Default: {format(shown, ',') if isinstance(shown, int) else shown}."

    @property
    def description_for_people(self) -> str:
        """The description where a person writes the value, as in a shell, with the forms that documents do not have."""
        also = {Kind.TIME: " Also a date, an hour as 2026-11-21-07:00, or -2h. UTC without an offset."}
        return self.description + also.get(self.kind, "")

    def shown(self, value: Any) -> Any:
        """The value for people, of a spec or a document."""
        if value in (None, (), [], ""):
            return self.empty or {Kind.FILTERS: ">", Kind.FILTER: ">", Kind.HOURS: "all"}.get(self.kind, "none")
        if self.kind is Kind.FLAG:
            return "yes" if value else "no"
        if self.kind.is_number and not value and self.empty:
            return self.empty
        if self.kind is Kind.SIZE:
            return size_text(value)
        if self.kind is Kind.DURATION:
            return duration_text(value)
        return ", ".join(value) if self.kind.is_list else value

    def cleared(self, value: Any) -> Any:
        """The default where the value takes a setting back: an empty text, a list of one, or the filter `>`."""
        empty = {Kind.TEXTS: ("",), Kind.FILTERS: (">",)}.get(self.kind, "")
        return self.default if value == empty and self.default in (None, ()) else value


def setting(
    kind: Kind,
    help: str,
    *,
    metavar: str = "TEXT",
    key: str | None = None,
    body_key: str | None = None,
    limit: int = 256,
    least: int | None = None,
    most: int | None = None,
    pattern: Pattern | None = None,
    fixed: str | None = None,
    required: bool = False,
    empty: str = "",
) -> dict[str, Any]:
    """The metadata of a dataclass field that is a setting. `key`: where users call it by another name; `body_key`:
    where requests do so. `required`: users must give it, though the field has a default. `empty`: the word for no
    value, and for 0."""
    facts = {"metavar": metavar, "limit": limit, "least": least, "most": most, "pattern": pattern, "fixed": fixed}
    keys = {"key": key, "body_key": body_key or key}
    return {_KEY: {"kind": kind, "help": help, "required": required, "empty": empty} | keys | facts}


def settings() -> dict[str, Any]:
    """The metadata of a dataclass field that is a dataclass of settings."""
    return {_GROUP: True}


@cache
def settings_of(spec: type[Any], group: str | None = None) -> tuple[Setting, ...]:
    """The settings of a spec, in the order of its fields. `group`: the field that has them in another spec."""
    every = list[Setting]()
    # Those of bases that are given by keyword stand last, as in its constructor: the nearest base first.
    for field in sorted(fields(spec), key=lambda one: _depth(spec, one) if one.kw_only is True else 0):
        if _KEY in field.metadata:
            every.append(_setting(field, group))
        elif _GROUP in field.metadata:
            every += settings_of(_type_of(field), field.name)
    return tuple(every)


def by_key(spec: type[Any], document: Mapping[str, Any], now: datetime | None = None) -> dict[str, Any]:
    """The fields of a spec that an answer, a body or a run config has, by the keys of its settings. `now`: see
    `parse_time`. Raises OperatorError."""
    known = {key: one for one in settings_of(spec) for key in (one.key, one.body_key)}
    values, groups = dict[str, Any](), dict[str, dict[str, Any]]()
    for key, value in document.items():
        one = known[key]
        into = groups.setdefault(one.group, {}) if one.group else values
        with blaming(one.name):
            into[one.name] = one.from_document(value, now)
    kinds = {field.name: field for field in fields(spec)}
    return values | {name: _type_of(kinds[name])(**given) for name, given in groups.items()}


def cleared(spec: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by field, with the default for each that takes its setting back."""
    return {one.name: one.cleared(values[one.name]) for one in settings_of(spec) if one.name in values}


def to_document(spec: Any) -> dict[str, Any]:
    """The settings of a spec by their keys, as answers have them."""
    return {one.key: one.to_document(one.of(spec)) for one in settings_of(spec.__class__)}


def to_body(spec: Any) -> dict[str, Any]:
    """The settings of a spec by their keys in bodies."""
    return {one.body_key: one.to_document(one.of(spec)) for one in settings_of(spec.__class__)}


def check_settings(spec: Any) -> None:
    """Raises OperatorError, with the field, for a text that can be neither a name nor a path or has another form, a
    choice that there is not, and a number out of its range."""
    for one in settings_of(spec.__class__):
        value = getattr(spec, one.name)
        # Most are: a sensor makes the specs of all archives of the catalog with each tick.
        if value == one.default:
            continue
        if one.kind in (Kind.TEXT, Kind.FILE, Kind.TEXTS, Kind.CHOICE):
            if one.pattern is None:
                check_field(one.name, value)
            else:
                check_field(one.name, one.pattern.without_schemes(value), one.pattern.hint)
        if one.pattern is not None and value is not None:
            for text in value if one.kind.is_list else [value]:
                one.pattern.check(text, one.name)
        if one.choices and value not in one.choices:
            *others, last = one.choices
            hint = f"Use {', '.join(others)} or {last}"
            raise OperatorError(f"There is no {one.name} {value!r}", hint, field=one.name)
        if value is not None and not _in_range(one, value):
            raise OperatorError(f"{one.name} is {value}", f"Use {_range(one)}", field=one.name)


def check_length(name: str, values: Sized, most: int) -> None:
    """Raises OperatorError, with the field, for a list of more elements."""
    if len(values) > most:
        raise OperatorError(f"There are {len(values)} {name}", f"Use {most} at most", field=name)


def file_at(path: str, folder: Path) -> str:
    """The absolute path of a file that a setting names, relative ones taken from this folder; an empty text stays."""
    return os.path.normpath(folder / path) if path else path


def _depth(spec: type[Any], field: Field[Any]) -> int:
    """The number of classes between a spec and its base that has the field; 0 for one of its own."""
    return next(n for n, base in enumerate(spec.__mro__) if field.name in vars(base).get("__annotations__", {}))


def _setting(field: Field[Any], group: str | None) -> Setting:
    facts: dict[str, Any] = dict(field.metadata[_KEY])
    facts["key"] = facts["key"] or field.name
    facts["body_key"] = facts["body_key"] or field.name
    facts["default"] = MISSING if facts.pop("required") else field.default
    facts["choices"] = get_args(field.type) if facts["kind"] is Kind.CHOICE else ()
    return Setting(name=field.name, group=group, **facts)


def _type_of(field: Field[Any]) -> type[Any]:
    """The dataclass of a field that is a group of settings."""
    kind: Any = field.type
    return kind


def _in_range(one: Setting, value: Any) -> bool:
    return (one.least is None or value >= one.least) and (one.most is None or value <= one.most)


def _range(one: Setting) -> str:
    if one.most is None:
        return f"{one.least:,} or more"
    return f"{one.most:,} at most" if one.least is None else f"{one.least:,} to {one.most:,}"
