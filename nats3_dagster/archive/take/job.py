"""The job of a round in the mode `consumer`: the input of its tasks. Workers import it, and not the catalog."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nats3_dagster.errors import Nats3Error
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.take.durable import Durable
from nats3_dagster.jetstream.take.handover import Channel
from nats3_dagster.jetstream.take.pull import PullLimits
from nats3_dagster.model import ArchiveSpec, Deliveries, SeqRange, StreamState
from nats3_dagster.objects import StoreOptions


@dataclass(frozen=True, slots=True)
class TakeJob:
    """The input of the tasks for one round of messages; pickled into Spark workers."""

    spec: ArchiveSpec
    state: StreamState
    durable: Durable
    # Those of the durable that the archive accounts for.
    deliveries: Deliveries
    # What the catalog covers from the durable's ack floor on, and the hours of the chunks there: (hour, first and last
    # sequence), with the one before.
    covered: tuple[SeqRange, ...]
    spans: tuple[tuple[str, SeqRange], ...]
    # Of each task; and how many messages all of them may hold.
    limits: PullLimits
    most_held: int
    nats: NatsOptions
    store: StoreOptions
    # The settings of the stream that remove messages and that were ever seen, as in its configuration.
    removing: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # How many tasks share the round, and where they get their turns to pull; None for one task.
    tasks: int = 1
    turns: str | None = None
    # Of a durable whose flow control acknowledges: where its one task hands over what it brings.
    channel: Channel | None = None


# Runs the tasks of a job; what they brought back in the order of the tasks, and the error that one ended with.
Perform = Callable[[TakeJob], tuple[Iterable[object], Nats3Error | None]]
