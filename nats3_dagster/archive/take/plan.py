"""The plan of a round: what the tasks pull from an archive's durable, and what they need to know of it."""

from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.archive.source.durables import durable_of
from nats3_dagster.archive.source.observe import Source
from nats3_dagster.archive.stored.erased import erased_of
from nats3_dagster.archive.take.deliveries import record_durable
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.chunks.columns import CHUNK_BYTES, CHUNK_MESSAGES
from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.read.contents import held_ranges
from nats3_dagster.jetstream.take.durable import Durable
from nats3_dagster.jetstream.take.pull import PullLimits
from nats3_dagster.jetstream.take.turns import new_subject
from nats3_dagster.model import Archive, SeqRange, StreamState
from nats3_dagster.model.erasure import joined
from nats3_dagster.workspace import Workspace

# Beyond the durable's ack_wait: what a process that died has pulled comes again by then. And no longer than this.
REDELIVERY_S, MOST_PATIENCE_S = 5.0, 330.0
# Several tasks share a round if each gets at least this number of messages.
TASK_MESSAGES = 100_000
_NO_END = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class TakePlan:
    """One round of a run: what is pulled, stored, committed and acknowledged together."""

    archive: Archive
    job: TakeJob
    # The catalog's time before the first object is put.
    begun: datetime
    # Whether the durable has nothing for this run.
    is_empty: bool


def plan(workspace: Workspace, source: Source, parallel: int = 1) -> TakePlan:
    """The next round, with up to `parallel` tasks. The durable is asked once a round: the round before has acknowledged
    messages. Raises UnknownConsumer."""
    archive, state, catalog, settings = source.archive, source.state, workspace.catalog, workspace.settings
    begun = catalog.now()
    durable = durable_of(workspace, archive)
    deliveries = record_durable(workspace, archive, durable)
    most_held = durable.max_ack_pending if durable.max_ack_pending > 0 else _NO_END
    share, tasks = _shares(durable, state, min(durable.pending, most_held), parallel)
    patience_s = min(durable.ack_wait_s + REDELIVERY_S, MOST_PATIENCE_S)
    known = SeqRange(durable.floor_seq + 1, _NO_END)
    job = TakeJob(
        archive.spec,
        state,
        durable,
        deliveries,
        # What was erased and is not accounted for comes again to a catalog that is older: it is only acknowledged.
        joined(
            (
                *catalog.coverage.covered(archive, state.incarnation, known),
                *erased_of(workspace, archive, state.incarnation, [known]),
            )
        ),
        catalog.hours.spans_from(archive, state.incarnation, known.first),
        PullLimits(share, CHUNK_BYTES, state.last_seq, patience_s),
        most_held,
        settings.nats,
        settings.store,
        catalog.coverage.removing_settings(state.incarnation),
        tasks,
        new_subject() if tasks > 1 else None,
    )
    # What the durable counts as pending may be too few for a moment, so the stream's leader is asked as well.
    rest = SeqRange(durable.delivered_seq + 1, state.last_seq)
    is_empty = not durable.outstanding and (
        rest.size <= 0 or held_ranges(workspace.link, state.incarnation, [rest], archive.spec.subjects) == [None]
    )
    if durable.paused and not is_empty:
        raise SourceError(
            f"Consumer {durable.name} of stream {state.name} is paused until {durable.config.get('pause_until')}",
            "Resume it, or wait until then",
        )
    return TakePlan(archive, job, begun, is_empty)


def _shares(durable: Durable, state: StreamState, messages: int, parallel: int) -> tuple[int, int]:
    """Returns the maximum of messages that a task pulls, and the number of tasks that share a round of this number of
    `messages`.

    What comes again lies between messages that are archived or pulled: one task sorts it in. A durable whose flow
    control acknowledges has one client."""
    if parallel == 1 or durable.outstanding or durable.acks_by_flow:
        return CHUNK_MESSAGES, 1
    share = min(max(-(-messages // parallel), TASK_MESSAGES), CHUNK_MESSAGES)
    size = messages * state.bytes // max(state.messages, 1)
    tasks = max(-(-messages // share), -(-size // CHUNK_BYTES), 1)
    return (share, min(tasks, parallel)) if tasks > 1 else (CHUNK_MESSAGES, 1)
