"""Taking: how an archive of the mode `consumer` gets its messages. The driver's side: the steps of a capture, round by
round, with the durable in place of a range of sequences.

Invariant: a message is acknowledged only after the catalog has it. What was committed and not acknowledged comes again,
is found in the catalog, and is then only acknowledged; so a crash at any point loses nothing and doubles nothing.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from nats3_dagster.archive.captures.capture_log import CaptureLog
from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.captures.consumers import record_consumers, record_where_complete
from nats3_dagster.archive.captures.hour_run import HourRun, OnError, OnJob
from nats3_dagster.archive.source.durables import durable_of
from nats3_dagster.archive.source.observe import Source
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.take.commit import Round, take_round
from nats3_dagster.archive.take.job import Perform
from nats3_dagster.archive.take.open import open_with_durable
from nats3_dagster.archive.take.plan import plan
from nats3_dagster.archive.take.session import take_session
from nats3_dagster.archive.take.settlement import settle
from nats3_dagster.errors import SourceError
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, OnProgress, Progress, SeqRange
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# How long a run waits for another one that takes messages for the same archive.
TURN_S = 60.0


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
    captures = CaptureLog(workspace, archive)
    taken = False

    def take(hour: str) -> CaptureResult:
        nonlocal taken
        if taken:
            return CaptureResult(archive.name, hour, None, 0)
        captures.start()
        try:
            folder.require(workspace, archive)
            with on_job([hour]) if on_job else nullcontext() as on_progress:
                result = run_rounds(
                    workspace, archive, hour, perform, adopt=adopt, parallel=parallel, on_progress=on_progress
                )
        except Exception as error:
            captures.failed({hour: error})
            raise
        taken = True
        return captures.completed([result])[0]

    for _, result in run.results(take, on_error):
        yield (result,)
    if taken:
        record_consumers(workspace, archive)
    elif not run.hours:
        record_where_complete(workspace, archive)


def run_rounds(
    workspace: Workspace,
    archive: Archive,
    hour: str,
    perform: Perform,
    *,
    adopt: bool = False,
    parallel: int = 1,
    on_progress: OnProgress | None = None,
) -> CaptureResult:
    """Take all that the durable has now, round by round; `hour` is the one that asked for it. `perform` runs a job,
    with up to `parallel` tasks.

    Only one process takes messages for an archive at a time: two would each get every other message, and so chunks of
    one message. Another one is waited for; Conflict when that takes too long. Raises Nats3Error."""
    with workspace.catalog.locks.taking(archive, TURN_S):
        source = open_with_durable(workspace, archive, adopt=adopt)
        rounds: list[Round] = []
        while not (planned := plan(workspace, source, parallel)).is_empty:
            before = sum(done.messages for done in rounds)

            def report(messages: int, before: int = before) -> None:
                if on_progress:
                    on_progress(Progress(before + messages, before + messages))

            take = take_session if planned.job.durable.acks_by_flow else take_round
            rounds.append(take(workspace, planned, perform, report))
            if not rounds[-1].full:
                break
        return finish(workspace, source, rounds, hour)


def finish(workspace: Workspace, source: Source, rounds: Sequence[Round], hour: str) -> CaptureResult:
    """Account for what the stream does not have up to its end as it was opened, and say what the run added. Raises
    SourceError when the archive still misses messages that the stream has."""
    archive = source.archive
    if rounds and (elsewhere := rounds[-1].elsewhere):
        raise SourceError(
            f"Consumer {archive.spec.durable} has delivered {elsewhere:,} messages to another client, which has not "
            "acknowledged them",
            "They come again after its ack_wait: run it again. If something else pulls from this consumer, stop that",
        )
    settled = settle(workspace, source)
    if settled.held:
        _check_delivered(workspace, archive, settled.held[0])
    chunks = tuple(sorted((*(c for r in rounds for c in r.chunks), *settled.chunks), key=lambda c: c.covers))
    covers = SeqRange(chunks[0].covers.first, chunks[-1].covers.last) if chunks else None
    gaps = (*(g for r in rounds for g in r.gaps), *settled.gaps)
    result = CaptureResult(archive.name, hour, covers, sum(r.known for r in rounds), chunks, gaps)
    if result.lost:
        log.warning(
            "%s: %d sequences of stream %s were gone before they were taken",
            archive.name,
            result.lost,
            source.state.name,
        )
    return result


def _check_delivered(workspace: Workspace, archive: Archive, held_seq: int) -> None:
    """Raises SourceError, as the stream holds this message up to the run's end, and the archive did not get it, unless
    the durable delivers it again. The durable is asked after the stream."""
    durable = durable_of(workspace, archive)
    what = f"Stream {archive.spec.stream} has message {held_seq}, and consumer {durable.name}"
    if held_seq > durable.delivered_seq:
        raise SourceError(f"{what} does not deliver it: its replica lags", "Run it again")
    if not durable.outstanding:
        lost = f", or server {durable.server}, which it is on, has lost it" if durable.server else ""
        raise SourceError(
            f"{what} will not deliver it again: another client has acknowledged it, or let it reach a max_deliver"
            f"{lost}",
            Next.CONSUMER_SHARED(archive=archive.name, consumer=durable.name),
        )
