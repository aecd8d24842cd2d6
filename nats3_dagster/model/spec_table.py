"""The table of settings of a spec: what each field is called, takes and means, wherever a user gives it.

A field of a spec carries a Setting in its metadata. Options of commands, bodies of the HTTP API, keys of files of
archives, fields of the Dagster component and the lines that show a spec are made from these, so that a new field is
written once.
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any

_KEY = "nats3.setting"


class Kind(Enum):
    """What a setting takes."""

    TEXT = auto()
    # The path of a file: relative to the folder of the shell, or of the file of archives that has it.
    FILE = auto()
    # A URL. It may hold a login by mistake, and is never repeated unchecked.
    ADDRESS = auto()
    COUNT = auto()
    FLAG = auto()
    TEXTS = auto()
    # NATS subject filters.
    FILTERS = auto()

    @property
    def is_list(self) -> bool:
        return self in (Kind.TEXTS, Kind.FILTERS)

    @property
    def type(self) -> Any:
        """The Python type of a value, as shells and YAML give it."""
        return list[str] if self.is_list else {Kind.COUNT: int, Kind.FLAG: bool}.get(self, str)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a spec."""

    # The field, and the name that users give it by in files, bodies and answers.
    name: str
    key: str
    kind: Kind
    # One or more sentences. Shown with every way to give the setting.
    help: str
    # What stands for the value in the help of an option.
    metavar: str
    # The value without it; MISSING for a setting that must be given.
    default: Any
    # The most elements of a list.
    limit: int

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def singular(self) -> str:
        """The key of one element of a list, as options have it; the key itself for any other kind."""
        return self.key.removesuffix("s") if self.kind.is_list else self.key

    @property
    def option(self) -> str:
        """The option of a command."""
        return "--" + self.singular.replace("_", "-")

    @property
    def label(self) -> str:
        """The name of the line that shows it."""
        return self.key.replace("_", " ")

    @property
    def description(self) -> str:
        """The help with the default, where there is one."""
        if self.default is MISSING or self.default in (None, (), False):
            return self.help
        return f"{self.help} Default: {self.shown(self.default)}."

    def shown(self, value: Any) -> Any:
        """The value for people, of a spec or a document."""
        if value in (None, (), []):
            return {Kind.FILTERS: ">", Kind.TEXTS: "all"}.get(self.kind, "none")
        if self.kind is Kind.FLAG:
            return "yes" if value else "no"
        return ", ".join(value) if self.kind.is_list else value

    def cleared(self, value: Any) -> Any:
        """The default where the value takes a setting back: an empty text, a list of one, or the filter `>`."""
        empty = {Kind.TEXTS: ("",), Kind.FILTERS: (">",)}.get(self.kind, "")
        return self.default if value == empty and self.default in (None, ()) else value


def setting(
    kind: Kind, help: str, *, metavar: str = "TEXT", key: str | None = None, limit: int = 256
) -> dict[str, Any]:  # fmt: skip
    """The metadata of a dataclass field that is a setting. `key`: where users call it by another name."""
    return {_KEY: (kind, help, metavar, key, limit)}


@cache
def settings_of(spec: type[Any]) -> tuple[Setting, ...]:
    """The settings of a spec, in the order of its fields."""
    return tuple(_setting(field) for field in fields(spec) if _KEY in field.metadata)


def by_key(spec: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a spec that a document with the keys of its settings has; lists become tuples."""
    names = {one.key: one.name for one in settings_of(spec)}
    return {names[key]: tuple(value) if isinstance(value, list) else value for key, value in document.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def cleared(spec: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by field, with the default for each that takes its setting back."""
    return {one.name: one.cleared(values[one.name]) for one in settings_of(spec) if one.name in values}


def to_document(spec: Any) -> dict[str, Any]:
    """The settings of a spec by their keys, as a body or a file of archives has them."""
    values = {one.key: getattr(spec, one.name) for one in settings_of(spec.__class__)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def file_at(path: str, folder: Path) -> str:
    """The absolute path of a file that a setting names, relative ones taken from this folder; an empty text stays."""
    return os.path.normpath(folder / path) if path else path


def _setting(field: Field[Any]) -> Setting:
    kind, help, metavar, key, limit = field.metadata[_KEY]
    return Setting(field.name, key or field.name, kind, help, metavar, field.default, limit)
