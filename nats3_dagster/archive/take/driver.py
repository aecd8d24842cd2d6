"""Taking: how an archive of the mode `consumer` gets its messages. The driver's side: the steps of a capture, round by
round, with the durable in place of a range of sequences.

Invariant: a message is acknowledged only after the catalog has it. What was committed and not acknowledged comes again,
is found in the catalog, and is then only acknowledged; so a crash at any point loses nothing and doubles nothing.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from time import monotonic

from nats3_dagster.archive.captures.capture_log import record_outcomes
from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.captures.hour_run import HourRun, OnError, OnJob
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.source.durables import consumer_missing_error, durable_of, make_again
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.take.commit import Round, commit
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.archive.take.plan import plan
from nats3_dagster.archive.take.pulled import Receipt
from nats3_dagster.archive.take.settlement import noticed, settle
from nats3_dagster.errors import Nats3Error, SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import hour_start
from nats3_dagster.jetstream.take.durable import find_durable
from nats3_dagster.jetstream.take.turns import Turns
from nats3_dagster.model import Archive, ChunkMeta, Gap, Progress, SeqRange, StreamState
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# How long a run waits for another one that takes messages for the same archive.
TURN_S = 60.0


# Runs the tasks of a job; what they brought back in the order of the tasks, and the error that one ended with.
Perform = Callable[[TakeJob], tuple[Iterable[ChunkMeta | Gap | Receipt], Nats3Error | None]]


def take_hours(
    workspace: Workspace,
    archive: Archive,
    run: HourRun,
    perform: Perform,
    on_error: OnError,
    *,
    adopt: bool = False,
    parallel: int = 1,
    on_job: OnJob | None = None,
) -> Iterator[tuple[CaptureResult, ...]]:
    """Take all that waits in the archive's durable, whatever its hour: once it is taken, nothing is left for the other
    hours of the run. Yields the result of each hour; one that failed is noted in the run. How each ended is noted in
    the catalog.

    Raises OperatorError for a bad hour, before anything is done."""
    for hour in run.hours:
        hour_start(hour)
    taken = False

    def take(hour: str) -> CaptureResult:
        nonlocal taken
        if taken:
            return CaptureResult(archive.name, hour, None, 0)
        began, started_at = monotonic(), workspace.catalog.now()
        try:
            folder.require(workspace, archive)
            with on_job([hour]) if on_job else nullcontext() as on_progress:
                messages = 0

                def note(done: Round) -> None:
                    nonlocal messages
                    messages += sum(c.messages for c in done.chunks)
                    if on_progress:
                        on_progress(Progress(messages, messages))

                result = run_rounds(workspace, archive, hour, perform, adopt=adopt, parallel=parallel, on_round=note)
        except Exception as error:
            record_outcomes(workspace, archive, started_at, errors={hour: error})
            raise
        record_outcomes(workspace, archive, started_at, [result])
        taken = True
        return replace(result, seconds=monotonic() - began)

    for _, result in run.results(take, on_error):
        yield (result,)


def run_rounds(
    workspace: Workspace,
    archive: Archive,
    hour: str,
    perform: Perform,
    *,
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
            rounds.append(commit(workspace, planned, outcomes))
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
    state = open_source(workspace, archive, adopt=adopt).state
    durable = find_durable(workspace.link, archive.spec.stream, archive.spec.durable or "")
    if durable is None and adopt:
        durable = make_again(workspace, archive, state)
        fault_point("take.made_again")
    if durable is None:
        raise consumer_missing_error(archive)
    missed_seq = noticed(workspace, archive, durable).missed_seq
    # What a durable missed that was made again is accounted for in this run.
    return open_source(workspace, archive).state if missed_seq > state.last_seq else state


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
