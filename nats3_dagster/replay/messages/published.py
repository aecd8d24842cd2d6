"""Published: what a replay already put into its targets, asked of the targets themselves.

Invariant: what cannot be known is an error. Either every message that a target took since the replay began is still
there to be read; or what the replay publishes is a chain or a batch, so that everything up to its newest message is
published, and every message that the target took after that one is still there and is not the replay's.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.probe import await_stored
from nats3_dagster.jetstream.publish.stored import header_blocks
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.model import ReplayTarget, SeqRange, StreamState
from nats3_dagster.replay.job import DoneRange, ReplayJob
from nats3_dagster.replay.messages.headers import made_by_schedule, replayed_sequences
from nats3_dagster.replay.targets import removes, target_state
from nats3_dagster.subjects import decoded, matches, readable

# Messages asked for at once: they come with their payloads.
_LOOK = 32


@dataclass(frozen=True, slots=True)
class Published:
    """The messages of a replay in its targets."""

    # Sorted sequences of the archived stream, by incarnation token. Empty with `newest`.
    seqs: dict[str, NDArray[np.int64]]
    # Token and sequence of the newest message: everything up to it is published. None where `seqs` says all.
    newest: tuple[str, int] | None = None

    def has(self, token: str, seqs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns True for each of these sequences (ascending) of an incarnation that is published."""
        if self.newest is not None:
            # Tokens are times, so an earlier incarnation sorts before a later one.
            newest, last = self.newest
            return np.full(len(seqs), token < newest) if token != newest else seqs <= last
        published = self.seqs.get(token)
        if published is None or not len(seqs):
            return np.zeros(len(seqs), np.bool_)
        part = published[np.searchsorted(published, int(seqs[0])) : np.searchsorted(published, int(seqs[-1]), "right")]
        return np.isin(seqs, part, assume_unique=True)

    def reaches(self, token: str, seq: int) -> bool:
        """True if a message at or after this sequence is published."""
        ends = [self.newest] if self.newest else [(t, int(seqs[-1])) for t, seqs in self.seqs.items()]
        return any(end >= (token, seq) for end in ends)

    def beyond(self, end: tuple[str, int], done: Sequence[DoneRange]) -> tuple[str, int] | None:
        """Token and sequence of the last message after `end` that is published and in none of the done ranges; None if
        there is none."""
        seqs = self.seqs if self.newest is None else {self.newest[0]: np.array([self.newest[1]])}
        last: tuple[str, int] | None = None
        for token, numbers in seqs.items():
            rest = numbers[np.searchsorted(numbers, end[1], "right") :] if token == end[0] else numbers
            for part in sorted((p for p in done if p.token == token), key=lambda p: p.covers, reverse=True):
                if len(rest) and part.covers.first <= rest[-1] <= part.covers.last:
                    rest = rest[: np.searchsorted(rest, part.covers.first)]
            if token >= end[0] and len(rest):
                last = max(last or ("", 0), (token, int(rest[-1])))
        return last

    def count(self, done: DoneRange) -> int:
        """Messages of a range that are published."""
        published = self.seqs.get(done.token)
        if published is None:
            return 0
        first, last = done.covers.first, done.covers.last
        return int(np.searchsorted(published, last, "right") - np.searchsorted(published, first))


class OrderKept:
    """Checks that what a target holds is a beginning of what goes there, for each group of messages whose order is
    kept: `group` gives it by the target's subject. Batches are given in the order of the replay."""

    def __init__(self, group: Callable[[str], Hashable]) -> None:
        self._group = group
        self._missing: set[Hashable] = set()  # groups with an unpublished message

    def check(self, subjects: pa.Array, known: NDArray[np.bool_]) -> None:
        """Raises TargetError if a message is published and one before it is not."""
        encoded = subjects.dictionary_encode()
        names = [decoded(name) for name in encoded.dictionary.to_pylist()]
        numbers = {group: n for n, group in enumerate(dict.fromkeys(map(self._group, names)))}
        codes = np.array([numbers[self._group(name)] for name in names])[encoded.indices.to_numpy()]
        rows = np.arange(len(codes))
        last_known, first_missing = np.full(len(numbers), -1), np.full(len(numbers), len(codes))
        np.maximum.at(last_known, codes[known], rows[known])
        np.minimum.at(first_missing, codes[~known], rows[~known])
        missing = {group for group, n in numbers.items() if first_missing[n] < len(codes)}
        for group, n in numbers.items():
            if last_known[n] >= 0 and (group in self._missing or first_missing[n] < last_known[n]):
                subject = readable(decoded(subjects[int(last_known[n])].as_py()))
                raise TargetError(
                    f"A target holds a message on {subject} and not one that comes before it: a stream "
                    "refused or lost single messages, and publishing them now would change the order",
                    "Create a new replay, and delete what this one left; with the order none it goes on",
                )
        self._missing |= missing


def order_kept(link: Link, job: ReplayJob) -> OrderKept | None:
    """The check that fits the replay's order; None where it keeps none."""
    if job.spec.order == "none":
        return None
    if job.spec.order == "subject":
        return OrderKept(lambda subject: subject)
    if len(job.targets) == 1:
        return OrderKept(lambda subject: 0)
    captured = [target_state(link, target).subjects for target in job.targets]

    def target_of(subject: str) -> int:
        return next((n for n, filters in enumerate(captured) if any(matches(f, subject) for f in filters)), -1)

    return OrderKept(target_of)


def ask_targets(link: Link, job: ReplayJob, pattern: str, done: Sequence[DoneRange] = ()) -> Published:
    """Read the headers of everything that the targets took since the replay began. `done` is what they acknowledged.

    Raises StreamChanged when a target is another stream now, TargetError when it may have removed stored messages, or
    does not have acknowledged ones."""
    parts: dict[str, list[NDArray[np.int64]]] = {}
    for target in job.targets:
        # What a killed publisher had sent may still wait in the server to be stored.
        await_stored(link, target.incarnation.stream, pattern)
        state = target_state(link, target)
        if state.last_seq < target.since_seq:
            continue  # it has stored nothing since then
        if not job.spec.marks:
            raise TargetError(
                f"Stream {state.name} has taken messages since this replay began, which has no marks: they cannot be "
                "told from those of others",
                "Delete what it left, and create a new replay",
            )
        # Rollups and TTLs of its own remove messages of a live replay.
        if job.spec.live or removes(state) or not _read(job, target, state, parts):
            if len(job.targets) > 1 or job.spec.order != "stream":
                raise _unknowable(state)
            return _checked(Published({}, _newest(link, job.id, target, state)), done, state.name)
    published = Published({token: np.unique(np.concatenate(arrays)) for token, arrays in parts.items()})
    return _checked(published, done, ", ".join(t.incarnation.stream for t in job.targets))


def _read(job: ReplayJob, target: ReplayTarget, state: StreamState, parts: dict[str, list[NDArray[np.int64]]]) -> bool:
    """Add the sequences that the target holds of the replay. False if a message that it took is not there any more."""
    if state.first_seq > target.since_seq:
        return False
    seqs, count = SeqRange(target.since_seq, state.last_seq), 0
    # Without a filter: what others publish counts as well, and a stream may store other subjects than it listens on.
    for batch in read_batches(job.nats, ReadSpec(state.incarnation, seqs, headers_only=True)):
        count += batch.num_rows
        for token, numbers in replayed_sequences(batch.column("headers"), job.id):
            parts.setdefault(token, []).append(numbers)
    return count == seqs.size


def _newest(link: Link, replay_id: str, target: ReplayTarget, state: StreamState) -> tuple[str, int] | None:
    """Token and sequence of the replay's newest message in the target, looked for from its end; None if there is none.
    Raises TargetError where a message is absent: it may have been the replay's."""
    newest: tuple[str, int] | None = None
    for last in range(state.last_seq, target.since_seq - 1, -_LOOK):
        blocks = header_blocks(link, state.name, range(last, max(last - _LOOK, target.since_seq - 1), -1))
        for block in blocks:
            if block is None:
                raise _unknowable(state)
            for token, numbers in replayed_sequences(pa.array([block], pa.binary()), replay_id):
                newest = max(newest or (token, 0), (token, int(numbers[0])))
                # What a schedule made has the marks of the schedule, which may be an early message of the replay.
                if not made_by_schedule(block):
                    return newest
    return newest


def _checked(published: Published, done: Sequence[DoneRange], names: str) -> Published:
    """Raises TargetError if something is missing of what the targets acknowledged."""
    for part in done:
        if published.newest is not None:
            if part.messages and published.newest < (part.token, part.last_seq):
                raise TargetError(
                    f"The target {names} acknowledged messages up to sequence {part.last_seq} of the archived stream, "
                    f"and its newest one of this replay is {published.newest[1]}: it lost them",
                    "Create a new replay, and delete what this one left",
                )
        elif (kept := published.count(part)) < part.messages:
            raise TargetError(
                f"The target {names} acknowledged {part.messages} messages of the sequences {part.covers} and holds "
                f"{kept}: it lost them, or they were deleted",
                "Create a new replay, and delete what this one left",
            )
    return published


def _unknowable(state: StreamState) -> TargetError:
    return TargetError(
        f"The target {state.name} may have removed messages since this replay began: what was published cannot be "
        "known",
        "Create a new replay, into a stream that keeps its messages, and delete what this one left",
    )
