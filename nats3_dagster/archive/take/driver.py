"""Taking: how an archive of the mode `consumer` gets its messages. The driver's side.

Invariant: a message is acknowledged only after the catalog has it. What was committed and not acknowledged comes again,
is found in the catalog, and is then only acknowledged; so a crash at any point loses nothing and doubles nothing.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from nats3_dagster.archive.captures.adopt import adopt, fill
from nats3_dagster.archive.captures.commit import CaptureResult, merged
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.source.durables import consumer_missing_error, durable_of, make_again
from nats3_dagster.archive.stored.erased import erased_of
from nats3_dagster.archive.take.claimed import Receipt
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.archive.take.settlement import noticed, settle
from nats3_dagster.chunks.columns import CHUNK_BYTES, CHUNK_MESSAGES
from nats3_dagster.errors import Nats3Error, SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.read.contents import held_ranges
from nats3_dagster.jetstream.take.acknowledge import acknowledge, give_back
from nats3_dagster.jetstream.take.claim import ClaimLimits
from nats3_dagster.jetstream.take.durable import Durable, find_durable
from nats3_dagster.jetstream.take.turns import Turns, new_subject
from nats3_dagster.model import Archive, ChunkMeta, Gap, SeqRange, StreamState
from nats3_dagster.model.erasure import joined
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# Beyond the durable's ack_wait: what a process that died has pulled comes again by then. And no longer than this.
REDELIVERY_S, MOST_PATIENCE_S = 5.0, 330.0
# Several tasks share a round if each gets at least this number of messages.
TASK_MESSAGES = 100_000
# How long a run waits for another one that takes messages for the same archive.
TURN_S = 60.0
_NO_END = (1 << 62) - 1


# Runs the tasks of a job; what they brought back in the order of the tasks, and the error that one ended with.
Perform = Callable[[TakeJob], tuple[Iterable[ChunkMeta | Gap | Receipt], Nats3Error | None]]


@dataclass(frozen=True, slots=True)
class TakePlan:
    """One round of a run: what is claimed, stored, committed and acknowledged together."""

    archive: Archive
    job: TakeJob
    # The catalog's time before the first object is put.
    begun: datetime
    # Whether the durable has nothing for this run.
    is_empty: bool


@dataclass(frozen=True, slots=True)
class Round:
    """The additions of one round to the archive."""

    chunks: tuple[ChunkMeta, ...]
    gaps: tuple[Gap, ...]
    # Messages that came again and were in the archive already.
    known: int
    # As in `Claimed`.
    full: bool
    elsewhere: int


def run_rounds(
    workspace: Workspace,
    archive: Archive,
    hour: str,
    perform: Perform,
    *,
    run_id: str | None = None,
    adopt: bool = False,
    parallel: int = 1,
    on_round: Callable[[Round], object] = lambda _: None,
) -> CaptureResult:
    """Take all that the durable has now, round by round; `hour` is the one that asked for it. `perform` runs a job,
    with up to `parallel` tasks.

    Only one process takes messages for an archive at a time: two would each get every other message, and so chunks of
    one message. Another one is waited for; Conflict when that takes too long. Raises Nats3Error."""
    with workspace.catalog.locks.taking(archive, TURN_S):
        state = begin(workspace, archive, adopt=adopt)
        rounds: list[Round] = []
        while not (planned := plan(workspace, archive, state, parallel)).is_empty:
            turns = planned.job.turns
            with Turns(workspace.link, turns) if turns else nullcontext():
                outcomes, error = perform(planned.job)
            rounds.append(commit(workspace, planned, outcomes, run_id))
            if error:
                raise error
            on_round(rounds[-1])
            if not rounds[-1].full:
                break
        return finish(workspace, archive, state, rounds, hour)


def begin(workspace: Workspace, archive: Archive, *, adopt: bool = False) -> StreamState:
    """The stream as it is at the beginning of a run, which goes as far as its last sequence. With `adopt` a durable
    that was deleted is made again; what went meanwhile is recorded as lost.

    Raises StreamChanged, UnknownStream, UnknownConsumer."""
    state = open_source(workspace, archive, adopt=adopt)
    durable = find_durable(workspace.link, archive.spec.stream, archive.spec.durable or "")
    if durable is None and adopt:
        durable = make_again(workspace, archive, state)
        fault_point("take.made_again")
    if durable is None:
        raise consumer_missing_error(archive)
    missed_seq = noticed(workspace, archive, durable).missed_seq
    # What a durable missed that was made again is accounted for in this run.
    return open_source(workspace, archive) if missed_seq > state.last_seq else state


def plan(workspace: Workspace, archive: Archive, state: StreamState, parallel: int = 1) -> TakePlan:
    """The next round, with up to `parallel` tasks. Raises UnknownConsumer."""
    catalog, settings = workspace.catalog, workspace.settings
    begun = catalog.now()
    durable = durable_of(workspace, archive)
    deliveries = noticed(workspace, archive, durable)
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
        ClaimLimits(share, CHUNK_BYTES, state.last_seq, patience_s),
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
    """Returns the maximum of messages that a task claims, and the number of tasks that share a round of this number of
    `messages`.

    What comes again lies between messages that are archived or claimed: one task sorts it in."""
    if parallel == 1 or durable.outstanding:
        return CHUNK_MESSAGES, 1
    share = min(max(-(-messages // parallel), TASK_MESSAGES), CHUNK_MESSAGES)
    size = messages * state.bytes // max(state.messages, 1)
    tasks = max(-(-messages // share), -(-size // CHUNK_BYTES), 1)
    return (share, min(tasks, parallel)) if tasks > 1 else (CHUNK_MESSAGES, 1)


def commit(
    workspace: Workspace, planned: TakePlan, outcomes: Iterable[ChunkMeta | Gap | Receipt], run_id: str | None = None
) -> Round:
    """Make what the tasks brought back part of the archive, in one transaction, and what earlier runs had put into the
    store of sequences that are gone; then acknowledge it.

    Raises Conflict when another process committed some of it: the messages are given back, and come again. SourceError
    when the server does not confirm: they are in the archive, come again, and are then only acknowledged."""
    every = list(outcomes)
    chunks = tuple(o for o in every if isinstance(o, ChunkMeta))
    gaps = tuple(o for o in every if isinstance(o, Gap))
    receipts = [o for o in every if isinstance(o, Receipt)]
    replies, late = (
        pa.concat_arrays([pa.array([], pa.binary()), *some])
        for some in ([r.replies for r in receipts], [r.late for r in receipts])
    )
    nats = workspace.settings.nats
    deliveries = planned.job.deliveries
    accounted = deliveries.accounted + sum(r.accounted for r in receipts)
    most = max([deliveries.most, *(r.most for r in receipts)])
    try:
        adopted, gaps = adopt(workspace, planned.archive, merged(gaps))
        filled = (*fill(workspace, planned.archive, chunks), *adopted)
        # What an earlier run had taken was delivered once at least.
        accounted += sum(c.messages for c in filled) - sum(c.messages for c in chunks)
        chunks, deliveries = filled, replace(deliveries, accounted=accounted, most=most)
        fault_point("take.before_commit")
        if chunks or gaps:
            workspace.catalog.chunks.commit(
                planned.archive,
                chunks,
                gaps,
                run_id=run_id,
                begun=planned.begun,
                deliveries=deliveries,
                source=planned.job.state.incarnation,
            )
        elif len(replies):
            workspace.catalog.durables.keep(planned.archive, deliveries)
    except BaseException:
        _give_back(workspace, planned.archive, pa.concat_arrays([replies, late]))
        raise
    fault_point("take.committed")
    acknowledge(nats, replies)
    fault_point("take.acknowledged")
    _give_back(workspace, planned.archive, late)
    return Round(
        chunks, gaps, sum(r.known for r in receipts), any(r.full for r in receipts), sum(r.elsewhere for r in receipts)
    )


def _give_back(workspace: Workspace, archive: Archive, replies: pa.Array) -> None:
    """Let the server deliver these messages again at once. A failure is logged alone: the messages come again in any
    case, and neither hides the error before it nor fails a round that is committed."""
    try:
        give_back(workspace.settings.nats, replies)
    except Nats3Error as error:
        log.warning(
            "%s: %d messages come again after the consumer's ack_wait, and not at once: %s",
            archive.name,
            len(replies),
            error,
        )


def finish(
    workspace: Workspace, archive: Archive, state: StreamState, rounds: Iterable[Round], hour: str
) -> CaptureResult:
    """Account for what the stream does not have up to `state`, and say what the run added. Raises SourceError when the
    archive still misses messages that the stream has."""
    every = list(rounds)
    if elsewhere := sum(r.elsewhere for r in every[-1:]):
        raise SourceError(
            f"Consumer {archive.spec.durable} has delivered {elsewhere:,} messages to another client, which has not "
            "acknowledged them",
            "They come again after its ack_wait: run it again. If something else pulls from this consumer, stop that",
        )
    settled = settle(workspace, archive, state)
    _check_delivered(workspace, archive, settled.held)
    chunks = tuple(sorted((*(c for r in every for c in r.chunks), *settled.chunks), key=lambda c: c.covers))
    known = sum(r.known for r in every)
    covers = SeqRange(chunks[0].covers.first, chunks[-1].covers.last) if chunks else None
    gaps = (*(g for r in every for g in r.gaps), *settled.gaps)
    result = CaptureResult(archive.name, hour, covers, known, chunks, gaps)
    if result.lost:
        log.warning(
            "%s: %d sequences of stream %s were gone before they were taken", archive.name, result.lost, state.name
        )
    return result


def _check_delivered(workspace: Workspace, archive: Archive, held: Sequence[int]) -> None:
    """Raises SourceError when the stream holds messages up to the run's end that the archive did not get."""
    if not held:
        return
    durable = durable_of(workspace, archive)
    what = f"Stream {archive.spec.stream} has message {held[0]}, and consumer {durable.name}"
    if held[0] > durable.delivered_seq:
        raise SourceError(f"{what} does not deliver it: its replica lags", "Run it again")
    if not durable.outstanding:
        lacks = f", or server {durable.server}, which it is on, has lost it" if durable.server else ""
        raise SourceError(
            f"{what} will not deliver it again: another client has acknowledged it, or let it reach a max_deliver"
            f"{lacks}",
            Next.CONSUMER_SHARED(archive=archive.name, consumer=durable.name),
        )
