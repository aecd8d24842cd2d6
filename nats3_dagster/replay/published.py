"""Published: what a replay already put into its targets, asked of the targets themselves.

Invariant: what cannot be known is an error. Where a target may have removed messages since the replay began, only the
order `stream` still says what was published: everything up to its newest message in the target.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.fence import settle
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.reader import ReadSpec, read_batches
from nats3_dagster.model import ReplayTarget, SeqRange, StreamState
from nats3_dagster.replay.headers import replayed_sequences
from nats3_dagster.replay.job import ReplayJob
from nats3_dagster.replay.targets import target_state


@dataclass(frozen=True, slots=True)
class Published:
    """What the targets hold of a replay."""

    # Sorted sequences of the archived stream, by incarnation token.
    seqs: dict[str, NDArray[np.int64]]
    # Whether everything up to the newest one counts as published.
    prefix: bool

    def within(self, incarnation: str, covers: SeqRange) -> NDArray[np.int64] | None:
        """The published sequences of one chunk, sorted; None where none are."""
        if self.prefix and self._newest is not None:
            token, last = self._newest
            # Tokens are times, so an earlier incarnation sorts before a later one.
            if (incarnation, covers.first) > (token, last):
                return None
            upto = covers.last if incarnation < token else min(covers.last, last)
            return np.arange(covers.first, upto + 1, dtype=np.int64)
        seqs = self.seqs.get(incarnation)
        if seqs is None:
            return None
        part = seqs[np.searchsorted(seqs, covers.first) : np.searchsorted(seqs, covers.last, "right")]
        return part if len(part) else None

    @property
    def _newest(self) -> tuple[str, int] | None:
        return max(((token, int(seqs[-1])) for token, seqs in self.seqs.items()), default=None)


def ask_targets(link: Link, job: ReplayJob, pattern: str) -> Published:
    """Read the headers of everything that the targets took since the replay began. Raises StreamChanged when a target
    is another stream now, TargetError when it may have removed what it took."""
    parts: dict[str, list[NDArray[np.int64]]] = {}
    prefix = False
    for target in job.targets:
        # What a killed publisher had sent may still wait in the server to be stored.
        settle(link, target.incarnation.stream, pattern)
        state = target_state(link, target)
        prefix = prefix or _removes(state, target)
        if state.last_seq < target.since_seq:
            continue
        seqs = SeqRange(max(target.since_seq, state.first_seq), state.last_seq)
        # A stream with a transform stores other subjects than those published to. The others are filtered only to
        # spare reading what other publishers sent there: the headers alone say which messages are ours.
        subjects = () if state.config.get("subject_transform") else (pattern,)
        for batch in read_batches(job.nats, ReadSpec(state.incarnation, seqs, subjects, headers_only=True)):
            for token, numbers in replayed_sequences(batch.column("headers"), job.id):
                parts.setdefault(token, []).append(numbers)
    published = {token: np.unique(np.concatenate(arrays)) for token, arrays in parts.items()}
    if prefix and (job.spec.order != "stream" or not published):
        names = ", ".join(t.incarnation.stream for t in job.targets)
        raise TargetError(
            f"The target {names} may have removed messages since this replay began: what was published cannot be known",
            "Create a new replay, into a stream that keeps its messages, and delete what this one left",
        )
    return Published(published, prefix)


def _removes(state: StreamState, target: ReplayTarget) -> bool:
    """Whether messages may have gone from the target since the replay began, by its limits or by its consumers."""
    config = state.config
    return (
        (state.first_seq > target.since_seq and state.last_seq >= target.since_seq)
        or config.get("retention", "limits") != "limits"
        or config.get("max_msgs_per_subject", -1) > 0
    )  # fmt: skip
