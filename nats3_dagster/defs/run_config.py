"""Run config: the fields of the launchpad, and the values that they stand for.

Every field has a description and, but for the target, a default that is safe. Of an asset that needs a config the UI
offers no backfill: "Materialize" opens the launchpad, which takes one partition. So the asset's config is optional, and
whoever gives one must give the target: then the editor says so. A run without any fails before it starts Spark.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

import dagster
from dagster import Config
from pydantic import Field

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Order, Pace, ReplaySpec, Selection


class CaptureConfig(Config):
    """How to capture. An ordinary capture needs none of it."""

    adopt: bool = Field(
        default=False,
        description="Go on although the stream was deleted and made again since the last capture. Messages of the "
        "earlier stream that were not captured are lost; the new one is archived from its first message on.",
    )


_TARGET = (
    "Subject to publish to. Wildcards take over what they match in read_subject: with `orders.>` there, "
    "`replay.orders.>` keeps the rest of each subject; `replay.{{wildcard(1)}}` takes the first wildcard's token; a "
    "plain subject takes all messages."
)


class ReplayConfig(Config):
    """Where and how a replay publishes. The partitions chosen say what."""

    write_subject: str = Field(description=_TARGET)
    read_subject: str = Field(
        default=">", description="Replay only messages whose archived subject this NATS filter matches: `orders.eu.*`."
    )
    order: Order = Field(
        default="stream",
        description="`stream`: exactly as archived, one publisher. `subject`: the order of each subject is kept, in "
        "parallel. `none`: fastest, no order.",
    )
    rate: float | None = Field(default=None, description="Publish at most so many messages a second.")
    byte_rate: float | None = Field(default=None, description="Publish at most so many bytes a second.")
    speed: float | None = Field(
        default=None,
        description="Keep the original timing, this many times as fast: 1 is real time, 60 an hour in a minute. Needs "
        "the order `stream`. Without it there is no waiting.",
    )
    create_stream: str | None = Field(
        default=None,
        description="Create a stream of this name on write_subject when there is none. Without it a replay that no "
        "stream listens to is refused.",
    )
    into_own_stream: bool = Field(
        default=False,
        description="Allow publishing into the stream that the archive captures: what is replayed is archived again.",
    )
    over_gaps: bool = Field(
        default=False,
        description="Replay what there is although sequences of the selection were lost before they were captured.",
    )
    live: bool = Field(
        default=False,
        description="Let headers act again by which a message acts on its stream: rollup, TTL, counter and schedule "
        "headers. Messages whose TTL has ended are left out. Needs the order `stream`.",
    )
    marks: bool = Field(
        default=True,
        description="Add the headers that say where a message comes from. Only a live replay may go without; it cannot "
        "be resumed then.",
    )
    like_source: bool = Field(
        default=False,
        description="When no stream listens on write_subject, create one with the settings of the archived one, a "
        "key-value bucket included. `create_stream` names it.",
    )
    dry_run: bool = Field(default=False, description="Only plan and show the plan: nothing is published or recorded.")

    def spec(self, archive: str, **selection: Any) -> ReplaySpec:
        """The replay of these fields; `selection` are arguments of Selection.parse. Raises OperatorError if one is
        invalid."""
        return ReplaySpec(
            archive, self.write_subject, Selection.parse(subjects=[self.read_subject], **selection), order=self.order,
            pace=Pace(self.rate, self.byte_rate, self.speed), create_stream=self.create_stream,
            into_own_stream=self.into_own_stream, over_gaps=self.over_gaps, live=self.live,
            marks=self.marks, like_source=self.like_source,
        )  # fmt: skip


def hours_config(op: str, fields: Mapping[str, Any] | None) -> ReplayConfig:
    """The config of `<archive>/replay`, which a run config names `op`, of which `fields` were given. Raises
    OperatorError without a write_subject."""
    if not fields or not fields["write_subject"]:
        raise OperatorError(
            "This replay has no write_subject: nothing says where to publish",
            f'Give the run a config ("Add config" where its hours are chosen): ops: {{{op}: {{config: '
            '{write_subject: "replay.>"}}}',
        )
    return ReplayConfig(**fields)


@cache
def hours_schema() -> dagster.Field:
    """Config of `<archive>/replay`: none, or one with a write_subject. All archives share one: Dagster needs 2 to 3 ms
    to make it."""
    schema = ReplayConfig.to_config_schema().as_field()
    return dagster.Field(
        schema.config_type, is_required=False, description="Needed, with a write_subject: where messages are published."
    )


class ResumeConfig(Config):
    """Which recorded replay goes on."""

    replay_id: str = Field(description="Id of the replay, 16 hex digits. In a shell, `nats3 load list` shows it.")
    launch: int | None = Field(
        default=None,
        description="Set by the HTTP API: the run does nothing when the replay was started once more, or paused, after "
        "it was launched. Leave it out.",
    )


class WindowConfig(ReplayConfig):
    """A replay of times or sequences instead of whole hours; fields that are given narrow the selection together."""

    archive: str = Field(description="Name of the archive to replay.")
    from_time: str | None = Field(
        default=None,
        description="First store time, exact to the nanosecond: `2026-11-21T07:00:00.5Z`, `2026-11-21`, an hour "
        "`2026-11-21-07:00`, or `-2h` from now. UTC where it has no offset.",
    )
    to_time: str | None = Field(default=None, description="Stop before this store time; written like from_time.")
    sequences: str | None = Field(
        default=None, description="Sequences of the archived stream: `1000-1999`, both included, or one: `1000`."
    )

    def window(self, now: datetime | None = None) -> ReplaySpec:
        """The replay of these fields; `now`: from when on a time like `-2h` counts. Raises OperatorError if one is
        invalid."""
        return self.spec(
            self.archive, from_time=self.from_time, to_time=self.to_time, sequences=self.sequences, now=now
        )
