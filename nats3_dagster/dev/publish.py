"""Publish messages now: the demo's way to fill its stream where the server cannot restore a past."""

from collections.abc import Callable, Iterable
from itertools import islice

import pyarrow as pa

from nats3_dagster.dev.history import Past
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.publisher import Publisher

BATCH = 4096


def publish_live(options: NatsOptions, messages: Iterable[Past], on_count: Callable[[int], None]) -> None:
    """Publish subject, headers and payload of each, in order, and return when the stream has acknowledged all of them.
    `on_count` is called with the number sent so far. Raises TargetError."""
    source, count = iter(messages), 0
    with Publisher(options, mode="window") as publisher:
        while part := list(islice(source, BATCH)):
            publisher.publish(
                pa.array([m.subject for m in part], pa.string()),
                pa.array([m.headers or None for m in part], pa.binary()),
                pa.array([m.data for m in part], pa.binary()),
            )
            count += len(part)
            on_count(count)
        publisher.flush()
