"""The stream as it was when a source was loaded, and how to reach it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import StreamState
from nats3_dagster.pipeline.sources.connection import nats_options


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stream at one moment."""

    # How to reach it; no secret in its text.
    nats: NatsOptions
    state: StreamState


def take_snapshot(source: str, values: Mapping[str, Any]) -> Snapshot:
    """The stream that the options name. Raises OperatorError, SourceError if NATS does not answer, UnknownStream."""
    nats = nats_options(source, values)
    with Link(nats) as link:
        state = stream_state(link, values["stream"])
    check_readable(state)
    return Snapshot(nats, state)


def check_readable(state: StreamState) -> None:
    """Raises OperatorError for a stream that removes what is delivered to consumers: a read would take messages from
    others."""
    retention = state.config.get("retention", "limits")
    if retention != "limits":
        raise OperatorError(
            f"Stream {state.name} has {retention} retention: its consumers decide how long it keeps a message",
            "Read a stream with limits retention that mirrors or sources it, or its archive",
        )
