"""Due archives: which of many have something to capture, and which of them one run captures.

Invariants: an archive whose stream has nothing new costs no request of its own. One that fails does not stop the
others, and one that has much to capture does not make the others wait.
"""

import random
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.archive.captures.due import Due, due
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.source.backlog import Backlog
from nats3_dagster.archive.source.listed import Listed, list_streams
from nats3_dagster.archive.source.loss import Loss, outlook, time_to_loss
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

# Seconds after which a call asks for no other archive: Dagster gives a tick 60.
BUDGET_S = 20.0
# An archive shares a run with others while it has no more than this to capture. What is above takes a run of its own,
# whose workers it fills.
SHARED_MESSAGES, SHARED_BYTES, SHARED_HOURS = 200_000, 256 << 20, 3
# Archives of one run: each is a step, of some tenths of a second.
ARCHIVES_AT_ONCE = 200
# Reasons that the text of a batch repeats.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Outlooked:
    """An archive as one call found it."""

    archive: Archive
    # How near it is to loss; None where that is not known.
    loss: Loss | None = None
    # The hours to capture; None while it is paused, has ended or could not be asked for.
    due: Due | None = None
    # True if what is due is little: see SHARED_MESSAGES.
    is_small: bool = True
    # The hours that would be due, and are held back.
    held: tuple[str, ...] = ()
    # Why it could not be asked for.
    error: Nats3Error | None = None
    # When its stream was found to be deleted.
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Archives that one run captures, each the same hours."""

    archives: tuple[str, ...]
    # Adjacent and ascending.
    hours: tuple[str, ...]
    why: str
    # True for one archive that shares its run with no other one.
    is_alone: bool


def look_at(
    workspace: Workspace,
    archives: Sequence[Archive],
    hours_at_once: int,
    held_back: Mapping[str, Collection[str]],
    *,
    budget_s: float = BUDGET_S,
) -> tuple[list[Outlooked], int]:
    """Returns what each archive has to capture, by one listing of the streams; and the number of those that are left to
    the next call. `held_back`: by archive, hours that are to wait. Raises SourceError where NATS does not answer,
    CatalogError."""
    until = time.monotonic() + budget_s
    listed = list_streams(workspace, archives)
    ended = {one.archive_id: one.ended_at for one in workspace.catalog.accounts.archives() if one.ended_at}
    every: list[Outlooked] = []
    left = 0
    # In any order: none waits for ever after those that always have something.
    for archive in random.sample(archives, len(archives)):
        waiting = listed.waiting.get(archive.id)
        if waiting and waiting.is_empty:
            nothing = None if archive.paused else due(archive.spec, waiting, 1)
            every.append(Outlooked(archive, _loss(archive, waiting), nothing))
        elif archive.spec.stream not in listed.states and archive.id in ended:
            every.append(Outlooked(archive, ended_at=ended[archive.id]))
        elif time.monotonic() > until:
            left += 1
        else:
            every.append(_ask(workspace, archive, listed, hours_at_once, held_back.get(archive.name, ())))
    return every, left


def batches(every: Iterable[Outlooked], alone: Collection[str] = ()) -> list[Batch]:
    """Returns the runs that capture what is due: one for all archives that have a little of the same hours, and one for
    each that has much or is named in `alone`."""
    groups: dict[tuple[str, tuple[str, ...]], list[Outlooked]] = {}
    for one in every:
        if one.due and one.due.hours:
            is_shared = one.is_small and len(one.due.hours) <= SHARED_HOURS and one.archive.name not in alone
            groups.setdefault(("" if is_shared else one.archive.name, one.due.hours), []).append(one)
    found: list[Batch] = []
    for (owner, hours), group in sorted(groups.items(), key=lambda item: item[0]):
        named = sorted(group, key=lambda one: one.archive.name)
        for at in range(0, len(named), ARCHIVES_AT_ONCE):
            chosen = named[at : at + ARCHIVES_AT_ONCE]
            found.append(Batch(tuple(one.archive.name for one in chosen), hours, _why(chosen), bool(owner)))
    return found


def _ask(
    workspace: Workspace, archive: Archive, listed: Listed, hours_at_once: int, held_back: Collection[str]
) -> Outlooked:
    try:
        state = None if archive.spec.buffer else listed.states.get(archive.spec.stream)
        source = open_source(workspace, archive, state=state)
        now = outlook(workspace, source)
    except Nats3Error as error:
        if error.ends_all:
            raise
        return Outlooked(archive, error=error)
    if archive.paused:
        return Outlooked(archive, now.loss)
    waiting = now.waiting
    size = waiting.behind * waiting.state.bytes // max(waiting.state.messages, 1)
    is_small = waiting.behind <= SHARED_MESSAGES and size <= SHARED_BYTES
    held = tuple(hour for hour in held_back if hour in {*waiting.ended, waiting.open})
    return Outlooked(archive, now.loss, due(archive.spec, waiting, hours_at_once, held), is_small, held)


def _loss(archive: Archive, waiting: Backlog) -> Loss:
    return time_to_loss(waiting, paused=archive.paused, max_age_s=archive.spec.max_age_s)


def _why(chosen: Sequence[Outlooked]) -> str:
    reasons = [(one.archive.name, one.due.why) for one in chosen if one.due]
    if len(reasons) == 1:
        return reasons[0][1]
    more = f"; and {len(reasons) - _NAMED:,} more" if len(reasons) > _NAMED else ""
    return f"{len(reasons):,} archives. {'; '.join(f'{name}: {why}' for name, why in reasons[:_NAMED])}{more}"
