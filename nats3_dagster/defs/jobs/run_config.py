"""Run config: the fields of the launchpad, and the values that they stand for.

Every field has a description and, but for the target, a default that is safe. The UI offers no backfill of an asset
that needs a config: "Materialize" opens the launchpad, which takes one partition. So the asset's config is optional,
and a config must name the target: then the editor says so. A run without any fails before it starts Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import dagster
from dagster import Config
from pydantic import Field, create_model

from nats3_dagster.defs.jobs.checked_config import CheckedConfig, schema_of
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ReplaySpec
from nats3_dagster.model.spec_table import by_key, settings_of

C = TypeVar("C", bound=Config)


class CaptureConfig(Config):
    """The settings of a capture. An ordinary capture needs none of them."""

    adopt: bool = Field(
        default=False,
        description="Go on although the stream was deleted and made again since the last capture. Messages of the "
        "earlier stream that were not captured are lost; the new one is archived from its first message on.",
    )


# Settings of replays that runs do not take: `<archive>/replay` has its hours from its partitions, and a run ends.
_NOT_IN_RUNS = {"hours", "poll_interval", "delete_chunks", "delete_unexported"}
_WINDOW = {"from_time", "to_time", "sequences"}


def _with_settings(name: str, base: type[C], takes: Callable[[str], bool]) -> type[C]:
    """A config with a field for each setting of a replay whose key it takes."""
    fields: dict[str, Any] = {}
    for one in settings_of(ReplaySpec):
        if takes(one.key):
            default: Any = ... if one.required else one.to_document(one.default)
            kind = one.type if default is not None else one.type | None
            fields[one.key] = (kind, Field(default=default, description=one.description_for_people))
    return create_model(name, __base__=base, __module__=__name__, **fields)


class ReplayConfig(_with_settings("ReplaySettings", CheckedConfig, lambda key: key not in _NOT_IN_RUNS | _WINDOW)):
    """The settings of a replay: where and how it publishes. The partitions chosen say what."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    dry_run: bool = Field(default=False, description="Only plan and show the plan: nothing is published or recorded.")

    def spec(self, archive: str, hours: Sequence[str] = (), now: datetime | None = None) -> ReplaySpec:
        """The replay of these fields; `now`: from when on a time like `-2h` counts. Raises OperatorError if one is
        invalid."""
        every = {one.key for one in settings_of(ReplaySpec)}
        given = {key: value for key, value in self.model_dump().items() if key in every and value is not None}
        return ReplaySpec(archive, **by_key(ReplaySpec, given | {"hours": hours}, now))

    def check(self) -> None:
        self.spec("").transform()


def hours_config(op: str, fields: Mapping[str, Any] | None) -> ReplayConfig:
    """Returns the config for op `op`, built from `fields`. Raises OperatorError without any."""
    if not fields:
        raise OperatorError(
            "This replay has no write_subject: nothing says where to publish",
            f'Give the run a config ("Add config" where its hours are chosen): ops: {{{op}: {{config: '
            '{write_subject: "replay.>"}}}',
        )
    return ReplayConfig(**fields)


def hours_schema() -> dagster.Field:
    """Config of `<archive>/replay`: none, or one with a write_subject."""
    return dagster.Field(
        schema_of(ReplayConfig),
        is_required=False,
        description="Needed, with a write_subject: where messages are published.",
    )


class ResumeConfig(Config):
    """The recorded replay to go on with."""

    replay_id: str = Field(description="Id of the replay, 16 hex digits. In a shell, `nats3 load list` shows it.")
    launch: int | None = Field(
        default=None,
        description="Set by the HTTP API: the run does nothing when the replay was started once more, or paused, after "
        "it was launched. Leave it out.",
    )


class WindowConfig(_with_settings("WindowSettings", ReplayConfig, lambda key: key in _WINDOW)):
    """A replay of times or sequences instead of whole hours; fields that are given narrow the selection together."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    archive: str = Field(description="Name of the archive to replay.")

    def window(self, now: datetime | None = None) -> ReplaySpec:
        """The replay of these fields. `now`, and what it raises: as of `spec`."""
        return self.spec(self.archive, now=now)
