"""Applying declared archives: what differs from the catalog, whether all of it can be done, and doing it.

Invariants: what is refused of a plan is refused before anything of it is done. A plan is made of what the catalog has,
so applying again after any end does what is left, and nothing else. An archive of a rule is never missing in a file.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from nats3_dagster.archive.declared.entries import Declared
from nats3_dagster.archive.lifecycle import change, create, remove
from nats3_dagster.archive.lifecycle.change import Difference
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError, Unknown
from nats3_dagster.model import Archive, ArchiveTotals
from nats3_dagster.workspace import Workspace

Action = Literal["create", "change", "unchanged", "remove"]


@dataclass(frozen=True, slots=True)
class Planned:
    """The planned action for one archive."""

    action: Action
    # What the file calls it; of one that is to be removed its own.
    name: str
    # What the file says; None where it is to be removed.
    declared: Declared | None = None
    # What the catalog has; None where it is to be created.
    archive: Archive | None = None
    differences: tuple[Difference, ...] = ()
    # Of an archive to be removed: its live chunks and their messages.
    chunks: int = 0
    messages: int = 0
    # Why it cannot be done; None if it can.
    refusal: Nats3Error | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of one step of a plan."""

    planned: Planned
    # Whether it was done, by this process or by another one meanwhile. If not, nothing of it was.
    done: bool
    by_other: bool = False
    error: Nats3Error | None = field(default=None, compare=False)
    # What a new archive will not have; empty where nothing.
    warning: str = ""
    # What went with an archive that was removed.
    removed: remove.Deleted | None = None


def plan(workspace: Workspace, declared: Sequence[Declared], *, prune: bool = False) -> tuple[Planned, ...]:
    """Returns the planned actions, by name, and the refused ones. With `prune` the archives that are not declared are
    to be removed, but for those of rules. Raises Nats3Error where NATS, the store or the catalog does not answer."""
    of_rules = [one.archive_id for one in workspace.catalog.accounts.archives() if one.rule_id] if prune else []
    planned = compare(workspace.catalog.archives.totals(), declared, prune=prune, of_rules=of_rules)
    return tuple(_checked(workspace, one) for one in planned)


def compare(
    existing: Sequence[ArchiveTotals],
    declared: Sequence[Declared],
    *,
    prune: bool = False,
    of_rules: Collection[int] = (),
) -> tuple[Planned, ...]:
    """Returns the planned actions, by name; a value that no field of an archive may have is refused. `of_rules`: the
    archives, by id, that rules of the catalog made."""
    planned = [_compared(existing, one) for one in declared]
    if prune:
        stays = {*of_rules, *(one.archive.id for one in planned if one.archive)}
        planned += [
            Planned("remove", sums.archive.name, archive=sums.archive, chunks=sums.chunks, messages=sums.messages)
            for sums in existing
            if sums.archive.id not in stays
        ]
    return tuple(sorted(planned, key=lambda one: one.name))


def perform(workspace: Workspace, planned: Sequence[Planned]) -> Generator[Applied]:
    """Do it step by step: what is created first, what is removed last. A step that another process prevents does not
    stop the others; a server that fails does. Raises OperatorError, and does nothing, if a step is refused."""
    check(planned)
    order: Mapping[Action, int] = {"create": 0, "change": 1, "remove": 2, "unchanged": 3}
    for one in sorted(planned, key=lambda one: order[one.action]):
        if one.action == "unchanged":
            continue
        try:
            yield _done(workspace, one)
        except (OperatorError, Conflict) as error:
            yield Applied(one, done=_is_done(workspace, one), by_other=True, error=error)


def check(planned: Sequence[Planned]) -> None:
    """Raises OperatorError if a step is refused: it says why of the first."""
    refused = [one for one in planned if one.refusal]
    if not refused:
        return
    first = refused[0]
    assert first.refusal
    at = f"{first.declared.place}: " if first.declared else ""
    many = f"{len(refused)} of {len(planned)} archives are refused" if len(refused) > 1 else "One archive is refused"
    raise OperatorError(f"{many}, and nothing was changed. {at}{first.refusal.what}", first.refusal.hint)


def _compared(existing: Sequence[ArchiveTotals], declared: Declared) -> Planned:
    sums = next((sums for sums in existing if declared.is_of(sums.archive)), None)
    if sums is None:
        return Planned("create", declared.name, declared)
    try:
        found = change.differences(sums.archive, declared.wanted)
    except OperatorError as error:
        return Planned("change", declared.name, declared, sums.archive, refusal=error)
    refusal = next((one.refusal for one in found if one.refusal), None)
    action: Action = "change" if found else "unchanged"
    return Planned(action, declared.name, declared, sums.archive, found, refusal=refusal)


def _checked(workspace: Workspace, one: Planned) -> Planned:
    """The step, refused if what it needs is not there."""
    try:
        if one.action == "create" and one.declared:
            create.check(workspace, one.declared.spec, create_bucket=one.declared.create_bucket)
        if one.action == "change" and one.archive and not one.refusal:
            create_bucket = bool(one.declared and one.declared.create_bucket)
            change.check(workspace, one.archive, one.differences, create_bucket=create_bucket)
        if one.action == "remove" and one.archive:
            remove.check(workspace, one.archive.spec)
    except (OperatorError, Conflict) as error:
        if one.declared and one.archive is None:
            again = _compared(workspace.catalog.archives.totals(), one.declared)
            if again.archive:  # another process has created it since
                return again
        return replace(one, refusal=error)
    return one


def _done(workspace: Workspace, one: Planned) -> Applied:
    if one.declared and one.archive:
        change.make(workspace, one.archive, one.differences, create_bucket=one.declared.create_bucket)
        return Applied(one, done=True)
    if one.declared:
        made = create.create(
            workspace,
            one.declared.spec,
            job_name=one.declared.job_name,
            create_bucket=one.declared.create_bucket,
            paused=bool(one.declared.paused),
            presets=one.declared.replays,
        )
        return Applied(one, done=True, warning=create.warning(workspace, made))
    found = workspace.catalog.archives.find(one.name)
    if found and one.archive and found.id != one.archive.id:
        raise Conflict(f"Another process deleted archive {one.name} and made it again", "Apply the file again")
    return Applied(one, done=True, removed=remove.delete(workspace, one.name))


def _is_done(workspace: Workspace, one: Planned) -> bool:
    """True if the archive is now as declared, also by another process."""
    if one.declared is None:
        return workspace.catalog.archives.find(one.name) is None
    declared = one.declared
    found = next((archive for archive in workspace.catalog.archives.all() if declared.is_of(archive)), None)
    try:
        return found is not None and not change.differences(found, declared.wanted)
    except Unknown:
        return False
