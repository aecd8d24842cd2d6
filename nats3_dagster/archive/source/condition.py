"""The condition of archives: whether the source of each is as it should be, and what of it is not captured.

Invariant: nothing is written, and a source that does not answer is an answer within seconds, not a failure.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal, get_args

from nats3_dagster.archive.source.backlog import Backlog, age_of, uncaptured, uncaptured_ahead
from nats3_dagster.archive.source.buffers import joined
from nats3_dagster.archive.source.durables import consumer_missing_error as consumer_gone
from nats3_dagster.archive.source.restored import as_archived, continuing
from nats3_dagster.archive.source.stream_changes import (
    missing_error,
    recreated_error,
    truncated_error,
    unfinished_error,
    witness_error,
)
from nats3_dagster.errors import Nats3Error, OperatorError, SourceError, StreamChanged, UnknownStream
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import message_times, messages_from
from nats3_dagster.jetstream.streams import stream_states
from nats3_dagster.jetstream.take.durable import Durable, find_durable
from nats3_dagster.model import Archive, CoverageNow, Deliveries, SeqRange, StreamState, Witness
from nats3_dagster.workspace import Workspace

# How long connecting may take, and each answer; a single stream without a leader gets a bit less, for the others' sake.
PATIENCE_S, STREAM_PATIENCE_S = 1.8, 1.5
# How long one answer is given to all that ask.
FRESH_S = 1.0
SourceState = Literal["ok", "missing", "recreated", "shrunk", "unreachable", "consumer_missing", "buffer_missing"]
SOURCE_STATES: tuple[SourceState, ...] = get_args(SourceState)


@dataclass(frozen=True, slots=True)
class Condition:
    """The source of an archive as it is now."""

    # `recreated`: deleted and made again. `shrunk`: it forgot messages that are archived of it. `unreachable`: NATS
    # did not answer, or did not tell. `consumer_missing`: the durable of an archive of the mode `consumer` was deleted.
    # `buffer_missing`: the buffer that it is read from was deleted, or was changed.
    source: SourceState
    # What is wrong and what to do; None where the source is ok.
    error: Nats3Error | None = None
    # What is not captured, without hours; None unless the source is ok. Its age, and what is ahead of our clock, are
    # known where they were asked for (`aged`).
    waiting: Backlog | None = None


def conditions(workspace: Workspace, archives: Sequence[Archive], *, aged: bool = False) -> dict[int, Condition]:
    """The condition of each archive, by its id; `aged`: with the age of the oldest message that is not captured.
    Streams are asked all at once, those of archives of a backup not at all. Raises CatalogError."""
    if not archives:
        return {}
    imports = workspace.catalog.imports.paused()
    imported = {one.id: _of_backup(workspace, one) for one in archives if one.id in imports}
    followed = [one for one in archives if one.id not in imports]
    return imported | (_asked(workspace, followed, aged) if followed else {})


def _asked(workspace: Workspace, archives: Sequence[Archive], aged: bool) -> dict[int, Condition]:
    """The conditions of archives whose streams are followed."""
    with ExitStack() as opened:
        try:
            link = _open(workspace, opened)
            # Before their streams: see `buffers.joined`.
            names_of_buffers = {archive.spec.buffer for archive in archives if archive.spec.buffer}
            buffers = stream_states(link, names_of_buffers, STREAM_PATIENCE_S) if names_of_buffers else {}
            states = stream_states(link, {archive.spec.stream for archive in archives}, STREAM_PATIENCE_S)
            names = {(a.spec.stream, a.spec.durable) for a in archives if a.spec.durable}
            durables = {(stream, name): find_durable(link, stream, name) for stream, name in names if name}
        except Nats3Error as error:
            return {archive.id: Condition("unreachable", error) for archive in archives}
        answered = [(a, s) for a in archives if isinstance(s := states[a.spec.stream], StreamState)]
        known = workspace.catalog.coverage.now(answered)
        deliveries = workspace.catalog.durables.all() if names else {}
        witnesses = {a.id: w for a in archives if (w := _witness(known.get(a.id), states[a.spec.stream]))}
        wanted = {(a.spec.stream, witnesses[a.id].seq) for a in archives if a.id in witnesses}
        try:
            times = message_times(link, wanted, STREAM_PATIENCE_S)
        except Nats3Error:
            times = {}
        found: dict[int, Condition] = {}
        for archive in archives:
            stream = archive.spec.stream
            durable = durables.get((stream, archive.spec.durable or ""))
            accounted = deliveries.get(archive.id)
            found[archive.id] = _compared(
                workspace, link, archive, states[stream], known.get(archive.id), durable, accounted
            )
            if archive.spec.buffer:
                buffer = buffers[archive.spec.buffer]
                found[archive.id] = _buffered(archive, found[archive.id], known.get(archive.id), buffer)
            witness = witnesses.get(archive.id)
            time_ns = times.get((archive.spec.stream, witness.seq)) if witness else None
            if witness and time_ns and (changed := witness_error(archive, witness, Witness(witness.seq, time_ns))):
                found[archive.id] = Condition("shrunk", changed)
        return _aged(workspace, link, archives, found) if aged else found


def condition(workspace: Workspace, archive: Archive) -> Condition:
    """The condition of one archive, with the age of the oldest message that is not captured. Raises CatalogError."""
    return conditions(workspace, [archive], aged=True)[archive.id]


def _of_backup(workspace: Workspace, archive: Archive) -> Condition:
    """The condition of an archive whose stream is a backup: as it was archived, whichever stream has its name now."""
    coverage = workspace.catalog.coverage.all(archive)[-1]
    state = workspace.catalog.coverage.last_state(coverage.incarnation)
    assert state is not None, "it was observed when the archive was made"
    return Condition("ok", waiting=uncaptured(archive, replace(state, last_seq=coverage.last), ()))


def _aged(
    workspace: Workspace, link: Link, archives: Sequence[Archive], found: dict[int, Condition]
) -> dict[int, Condition]:
    """The conditions with the age of what waits; one whose age cannot be asked is `unreachable`."""
    now_ns = time.time_ns()
    oldest = {
        archive.id: (waiting.state.holder(waiting.first_seq), waiting.first_seq)
        for archive in archives
        if (waiting := found[archive.id].waiting) and waiting.first_seq is not None
    }
    try:
        messages = messages_from(link, oldest.values(), STREAM_PATIENCE_S)
    except (SourceError, OperatorError) as error:
        return found | {archive_id: Condition("unreachable", error) for archive_id in oldest}
    return found | {
        archive.id: _with_age(workspace, link, archive, found[archive.id], messages[oldest[archive.id]], now_ns)
        for archive in archives
        if archive.id in oldest
    }


def _with_age(
    workspace: Workspace,
    link: Link,
    archive: Archive,
    found: Condition,
    message: tuple[int, int] | SourceError | None,
    now_ns: int,
) -> Condition:
    """`message`: the oldest that waits, or what the server answered."""
    assert found.waiting is not None
    if isinstance(message, SourceError):
        return Condition("unreachable", message)
    try:
        waiting = uncaptured_ahead(workspace, link, archive, found.waiting, now_ns)
    except (SourceError, OperatorError) as error:
        return Condition("unreachable", error)
    age_s = age_of(message[1], waiting.state, now_ns) if message else 0.0
    return replace(found, waiting=replace(waiting, behind_s=age_s))


def _witness(known: CoverageNow | None, state: StreamState | Nats3Error) -> Witness | None:
    """The archive's witness of this stream, if the stream may still have it."""
    if known is None or not isinstance(state, StreamState):
        return None
    witness = known.witness
    return witness if witness and state.first_seq <= witness.seq <= state.last_seq else None


def _open(workspace: Workspace, opened: ExitStack) -> Link:
    """A connection of its own: the workspace's waits for a server that restarts. Raises SourceError, OperatorError."""
    return opened.enter_context(Link(workspace.settings.nats, reconnect=False, patience_s=PATIENCE_S))


def _compared(
    workspace: Workspace,
    link: Link,
    archive: Archive,
    state: StreamState | SourceError | UnknownStream,
    known: CoverageNow | None,
    durable: Durable | None,
    deliveries: Deliveries | None,
) -> Condition:
    """`known`: what the archive has, where the stream answered. `deliveries`: those of its durable that it accounts
    for."""
    if isinstance(state, UnknownStream):
        return Condition("missing", missing_error(archive, state))
    if isinstance(state, SourceError):
        return Condition("unreachable", state)
    if error := unfinished_error(archive, state):
        return Condition("recreated", error)
    assert known is not None, "of every stream that answers"
    state, missing = as_archived(state, known.coverages), known.missing
    if error := recreated_error(archive, known.coverages, state):
        try:
            # It imports pyarrow, 0.1 s, and is rare.
            from nats3_dagster.archive.source.history import history_of

            history = history_of(workspace, link, archive, known.coverages, state)
        except Nats3Error:
            return Condition("recreated", error)
        if history is None or not history.is_continued_by(state):
            return Condition("recreated", recreated_error(archive, known.coverages, state, history))
        # The next capture goes on with it.
        state = continuing(state, history.coverage.incarnation)
        missing = workspace.catalog.coverage.missing(archive, state.incarnation, SeqRange(1, state.last_seq))
    if error := truncated_error(archive, known.coverages, state):
        return Condition("shrunk", error)
    if archive.spec.mode == "consumer" and durable is None:
        return Condition("consumer_missing", consumer_gone(archive))
    assert missing is not None, "of every stream that is the one archived"
    return Condition("ok", waiting=uncaptured(archive, state, missing, durable, deliveries))


def _buffered(
    archive: Archive, found: Condition, known: CoverageNow | None, buffer: StreamState | SourceError | UnknownStream
) -> Condition:
    """The condition of an archive that is read from this buffer. `found`: that of its stream alone."""
    if found.waiting is None:
        return found
    if isinstance(buffer, SourceError):
        return Condition("unreachable", buffer)
    try:
        state = joined(archive, found.waiting.state, None if isinstance(buffer, UnknownStream) else buffer)
    except StreamChanged as error:
        return Condition("buffer_missing", error)
    # What of these sequences neither of both has is lost, also where the buffer has not come so far.
    return Condition("ok", waiting=uncaptured(archive, state, (known.missing if known else None) or ()))


class RecentConditions:
    """The conditions of archives for many that ask at once, as the clients of a server do: `of(archives)`.

    Invariant: a condition was asked for at most FRESH_S ago, and what is not known of an archive is asked for once,
    however many wait for it. What is kept is no state: the catalog and NATS have the same."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        # By the archive as it is defined now, so that a change of it is seen at once: when it was asked for, and what
        # the answer is or will be.
        self._asked: dict[Archive, tuple[float, Future[Condition]]] = {}

    def of(self, archives: Sequence[Archive]) -> dict[int, Condition]:
        """The condition of each archive, by its id. Raises CatalogError."""
        now = time.monotonic()
        with self._lock:
            self._asked = {
                archive: (asked_at, answer)
                for archive, (asked_at, answer) in self._asked.items()
                if now - asked_at < FRESH_S and not (answer.done() and answer.exception())
            }
            missing = [archive for archive in archives if archive not in self._asked]
            self._asked |= {archive: (now, Future()) for archive in missing}
            answers = {archive.id: self._asked[archive][1] for archive in archives}
        if missing:
            self._ask(missing, answers)
        return {archive_id: answer.result() for archive_id, answer in answers.items()}

    def _ask(self, archives: Sequence[Archive], answers: dict[int, Future[Condition]]) -> None:
        try:
            found = conditions(self._workspace, archives)
        except BaseException as error:
            for archive in archives:
                answers[archive.id].set_exception(error)
            raise
        for archive in archives:
            answers[archive.id].set_result(found[archive.id])
