"""Loss: how near a stream is to deleting what an archive has not captured."""

from dataclasses import dataclass, replace
from typing import Literal

from nats3_dagster.archive.source.absence import early_removal
from nats3_dagster.archive.source.backlog import Backlog, backlog
from nats3_dagster.archive.source.clocks import stream_now_ns
from nats3_dagster.archive.source.lateness import late_after_s
from nats3_dagster.archive.source.observe import Source
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.workspace import Workspace

# Shares of the way to deletion from which on an archive is warned of, and is in error.
WARN_AT, ERROR_AT = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Loss:
    """The progress of a stream towards deleting what has not been captured."""

    # The share of the way to deletion that the oldest uncaptured message has gone, by the nearest limit.
    used: float = 0.0
    # That limit: max_age, max_msgs or max_bytes; empty where the stream has none that deletes messages.
    limit: str = ""
    # Sequences that are deleted already and in no gap yet.
    gone: int = 0
    # True if the archive is paused: messages on their way to deletion are not captured.
    paused: bool = False
    # What the stream removes however little its limits are used (absence.early_removal); empty where nothing.
    early: str = ""
    # How long the oldest uncaptured message waits, and how long it may; without an archive's threshold it may for ever.
    waits_s: float = 0.0
    max_age_s: int | None = None
    # A sentence about what waits because NATS' clock is ahead of the host's; empty if nothing does.
    ahead: str = ""

    @property
    def level(self) -> Literal["ok", "paused", "warn", "error"]:
        """A pause is a warning by itself, and an error where an active archive has one."""
        late = 0 if self.max_age_s is None else sum(self.waits_s > after for after in late_after_s(self.max_age_s))
        if self.gone or self.used >= ERROR_AT or late == 2:
            return "error"
        return "paused" if self.paused else "warn" if self.used >= WARN_AT or self.ahead or late else "ok"

    @property
    def text(self) -> str:
        says_early = self.early and not self.gone
        texts = [
            *(["Paused: nothing is captured"] if self.paused else []),
            *([self._limit_text] if self.limit or not says_early else []),
            *([self.early] if says_early else []),
            *([self._late_text] if self._late_text else []),
            *([self.ahead] if self.ahead else []),
        ]
        return ". ".join(texts)

    @property
    def _late_text(self) -> str:
        if self.max_age_s is None or self.waits_s <= late_after_s(self.max_age_s)[0]:
            return ""
        return f"It waits for {self.waits_s / 3600:.1f} hours, and a capture is due after {self.max_age_s:,} s"

    @property
    def _limit_text(self) -> str:
        if self.gone:
            return f"The stream has deleted {self.gone:,} sequences that were not captured"
        if not self.limit:
            return "No limit of the stream deletes messages"
        return f"The oldest uncaptured message has gone {self.used:.0%} of its way to deletion by {self.limit}"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The messages that an archive has still to capture."""

    waiting: Backlog
    # How near they are to being lost.
    loss: Loss


def time_to_loss(waiting: Backlog, *, paused: bool = False, max_age_s: int | None = None) -> Loss:
    """Computes it by the stream's limits on age, messages and bytes. What counts is where the oldest uncaptured message
    lies between the stream's head and its end, not how many wait: one hole at the head is lost next. `paused`: whether
    the archive is. `max_age_s`: its threshold, where a late capture is to count."""
    state, config = waiting.state, waiting.state.keeping
    sequences = max(state.last_seq - state.first_seq + 1, 1)
    tail = 0.0 if waiting.first_seq is None else (state.last_seq - waiting.first_seq + 1) / sequences
    ways = [(waiting.behind_s, int(config.get("max_age") or 0) / SECOND_NS, "max_age")]
    if config.get("discard", "old") == "old":  # a stream that refuses new messages deletes none for being full
        ways += [
            (state.messages * tail, int(config.get("max_msgs") or 0), "max_msgs"),
            (state.bytes * tail, int(config.get("max_bytes") or 0), "max_bytes"),
        ]
    early, ahead = early_removal(config), waiting.ahead_text
    waits_s = 0.0 if max_age_s is None else waiting.behind_s
    base = Loss(gone=waiting.gone, paused=paused, early=early, waits_s=waits_s, max_age_s=max_age_s, ahead=ahead)
    losses = [replace(base, used=gone / limit, limit=name) for gone, limit, name in ways if limit > 0]
    return max(losses, key=lambda loss: loss.used, default=base)


def outlook(workspace: Workspace, source: Source) -> Outlook:
    """Returns what the stream has that is not captured. Raises Nats3Error."""
    archive, state = source.archive, source.state
    waiting = backlog(workspace, archive, state, stream_now_ns(state))
    return Outlook(waiting, time_to_loss(waiting, paused=archive.paused, max_age_s=archive.spec.max_age_s))
