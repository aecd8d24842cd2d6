"""Publishing messages now: what fills the demo's stream where a past cannot be restored.

The rule kept here: it returns when the stream has acknowledged every message, or raises.
"""

from collections.abc import Callable, Iterable
from itertools import islice

import pyarrow as pa

from nats3_dagster.dev.history import Past
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publisher import Publisher

BATCH = 4096


def publish_live(options: NatsOptions, messages: Iterable[Past], tell: Callable[[int], None] = lambda _: None) -> int:
    """Publish subject, headers and payload of each, in order, and return how many. Raises TargetError."""
    source, count = iter(messages), 0
    with Publisher(options, mode="window") as publisher:
        while part := list(islice(source, BATCH)):
            publisher.publish(
                pa.array([m.subject for m in part], pa.string()),
                pa.array([m.headers or None for m in part], pa.binary()),
                pa.array([m.data for m in part], pa.binary()),
            )
            count += len(part)
            tell(count)
        publisher.flush()
    return count
