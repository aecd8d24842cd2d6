"""Absence: why the stream no longer has a message that was not captured.

Invariant: `deleted` only where nothing but a request to delete or purge can have removed the message. Any other reason
is a loss, and may count a message that was deleted on purpose: the loud mistake and not the silent one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nats3_dagster.model import LOSSES, Coverage, Reason, SeqRange, StreamState, clipped
from nats3_dagster.model.stream import removing_settings

_TTL = {"allow_msg_ttl", "subject_delete_marker_ttl"}
_PER_SUBJECT = "max_msgs_per_subject"
# What removes messages anywhere by something that is not of the stream: consumers, or the origin of a mirror.
_OUTSIDE = {"retention", "mirror"}


def absence_reason(configs: Iterable[Mapping[str, Any]], *, below_head: bool) -> Reason:
    """Returns the reason why a sequence is absent that is below the stream's first one, or above it. `configs`: all
    configurations that the stream may have had since the message was stored, or what they say of removing."""
    removing = [removing_settings(config) for config in configs]
    settings = {name for one in removing for name in one}
    superseded, ttl = _PER_SUBJECT in settings, bool(settings & _TTL)
    if any(_selects(one["mirror"]) for one in removing if "mirror" in one) and not below_head:
        return "unselected"
    if below_head or settings & _OUTSIDE:
        return "superseded" if settings == {_PER_SUBJECT} else "expired"
    if superseded and ttl:
        return "superseded_or_ttl"
    return "superseded" if superseded else "ttl" if ttl else "deleted"


def _selects(mirror: Mapping[str, Any]) -> bool:
    """True if the mirror has only some subjects of its origin."""
    return bool(mirror.get("filter_subject") or mirror.get("subject_transforms"))


def early_removal(config: Mapping[str, Any]) -> str:
    """Returns the messages that the stream may remove before any capture sees them, however little its limits on age,
    messages and bytes are used; empty if it removes none."""
    settings, limit = removing_settings(config), config.get(_PER_SUBJECT)
    removers = [
        *([f"its limit of {limit} message{'' if limit == 1 else 's'} per subject"] if _PER_SUBJECT in settings else []),
        *(["the time to live of single messages"] if settings.keys() & _TTL else []),
    ]
    return f"The stream removes messages before a capture may see them, by {' and '.join(removers)}" if removers else ""


def lost_by_reason(gaps: Mapping[Reason, int], coverages: Iterable[Coverage]) -> dict[Reason, int]:
    """Sequences that were lost, in gaps and between the messages of chunks; a reason without any is left out. `gaps`:
    the sequences in gaps by reason."""
    lost: Counter[Reason] = Counter({reason: count for reason, count in gaps.items() if reason in LOSSES})
    for coverage in coverages:
        lost.update(coverage.lost)
    return dict(lost)


class Absences:
    """Decides about absent sequences of one incarnation while it is read."""

    def __init__(
        self, planned: StreamState, removing: Mapping[str, Any], *, filtered: bool, given_up: bool = False
    ) -> None:
        """`removing`: the settings that removed messages of this incarnation at any time. `filtered`: whether the
        archive takes some subjects only; then nothing says which absent sequence it would have taken. `given_up`:
        whether the archive had some of the absent messages, in an object that was lost."""
        self._configs: list[Mapping[str, Any]] = [*planned.configs, removing]
        self._known = len(self._configs)
        self._state, self._filtered, self._given_up = planned, filtered, given_up

    def look(self, now: StreamState) -> None:
        """The stream's state after the absence was seen."""
        self._state = now
        self._configs[self._known :] = now.configs

    @property
    def inside(self) -> Reason:
        """The reason why sequences between the messages of a chunk are absent."""
        if self._given_up:
            return "damaged"
        return "unselected" if self._filtered else absence_reason(self._configs, below_head=False)

    def gaps(self, absent: SeqRange) -> Iterator[tuple[SeqRange, Reason]]:
        """The parts of absent sequences that become gaps, ascending: those below the stream's first one, and those that
        the server lost with damaged blocks. The rest is absent for the reason `inside`."""
        head = self._state.first_seq
        if absent.first < head:
            yield SeqRange(absent.first, min(absent.last, head - 1)), absence_reason(self._configs, below_head=True)
        for damaged in clipped(self._state.damaged, SeqRange(max(absent.first, head), absent.last)):
            yield damaged, "damaged"
