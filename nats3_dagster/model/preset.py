"""A preset: a replay that an archive has by name, with its target and its settings, for hours that are chosen later."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.replay_spec import ReplaySpec
from nats3_dagster.model.spec_table import Kind, Setting, by_key, check_settings, setting, settings_of

# Settings of replays that a preset does not have: its hours are chosen when it is run, and a run of Dagster ends.
_NOT_IN_PRESETS = frozenset(
    {"hours", "from_time", "to_time", "sequences", "poll_interval", "delete_chunks", "delete_unexported"}
)
_MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class ReplayPreset:
    """A replay by name. Raises OperatorError if its name is invalid, or there is no transform of its subjects."""

    # Unique in its archive.
    name: str = field(
        metadata=setting(
            Kind.TEXT,
            "Lower-case letters, digits and _.",
            metavar="NAME",
            pattern=Pattern(
                r"[a-z0-9_]+", "a name of a replay", "Use lower-case letters, digits and _ only", longest=_MAX_NAME
            ),
        )
    )
    # Without an archive and hours.
    settings: ReplaySpec

    def __post_init__(self) -> None:
        check_settings(self)
        self.settings.transform()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The preset of these settings by their keys. Raises OperatorError."""
        values = dict(document)
        name = str(values.pop("name"))
        return cls(name, ReplaySpec("", **by_key(ReplaySpec, values)))

    def document(self) -> dict[str, Any]:
        """Returns the settings that differ from their default, by their keys."""
        values = {one: one.of(self.settings) for one in preset_settings()}
        return {"name": self.name} | {
            one.key: one.to_document(value) for one, value in values.items() if value != one.default
        }

    def spec(self, archive: str, hours: Iterable[str]) -> ReplaySpec:
        """The replay of these hours."""
        selection = replace(self.settings.selection, hours=tuple(hours))
        return replace(self.settings, archive=archive, selection=selection)


def preset_settings() -> tuple[Setting, ...]:
    """The settings of a replay that a preset has."""
    return tuple(one for one in settings_of(ReplaySpec) if one.key not in _NOT_IN_PRESETS)


def by_name(presets: Iterable[ReplayPreset]) -> tuple[ReplayPreset, ...]:
    """The presets by name. Raises OperatorError for a name that is there twice."""
    found: dict[str, ReplayPreset] = {}
    for one in presets:
        if one.name in found:
            raise OperatorError(f"The replay {one.name} is there twice", "Write it once", field="replays")
        found[one.name] = one
    return tuple(found[name] for name in sorted(found))
