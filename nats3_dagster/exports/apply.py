"""Applying declared exports: what differs from the catalog, whether all of it can be done, and doing it.

Invariant: as archive.apply. What archives do not declare is left alone, unless it is to be pruned.
"""

import uuid
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from nats3_dagster.archive.declared.apply import Action, Planned
from nats3_dagster.archive.lifecycle.change import Difference
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError
from nats3_dagster.exports import declare
from nats3_dagster.model import Archive, ArchiveSpec, ExportSpec
from nats3_dagster.model.export import Export
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class PlannedExport:
    """The planned action for one export."""

    action: Action
    # The archive's own name.
    archive: str
    name: str
    # The file and the line of the archive; empty where the export is to be removed.
    place: str = ""
    # What the file says; None where it is to be removed.
    declared: ExportSpec | None = None
    # What the catalog has; None where it is to be created.
    export: Export | None = None
    differences: tuple[Difference, ...] = ()
    # Why it cannot be done; None if it can.
    refusal: Nats3Error | None = None


@dataclass(frozen=True, slots=True)
class AppliedExport:
    """The result of one step of a plan."""

    planned: PlannedExport
    # Whether it was done. If not, nothing of it was.
    done: bool
    error: Nats3Error | None = field(default=None, compare=False)


def plan(workspace: Workspace, archives: Sequence[Planned], *, prune: bool = False) -> tuple[PlannedExport, ...]:
    """Returns the planned actions for the exports of these archives, by name, and the refused ones. With `prune` those
    that their archive does not declare are to be removed."""
    planned: list[PlannedExport] = []
    to_be_made = {
        bucket
        for one in archives
        if one.declared and one.declared.create_bucket
        for bucket in one.declared.spec.buckets
    }
    for one in archives:
        if one.declared is None:
            continue  # its exports go with it
        archive = one.archive or _new(one.declared.spec)
        existing = {export.name: export for export in workspace.catalog.exports.all(one.archive)} if one.archive else {}
        wanted = {spec.name: spec for spec in one.declared.exports}
        planned += [
            _checked(
                workspace, archive, _compared(archive.name, spec, existing.get(name), one.declared.place), to_be_made
            )
            for name, spec in wanted.items()
        ]
        if prune:
            planned += [
                PlannedExport("remove", archive.name, name, export=export)
                for name, export in existing.items()
                if name not in wanted
            ]
    return tuple(sorted(planned, key=lambda one: (one.archive, one.name)))


def check(planned: Sequence[PlannedExport]) -> None:
    """Raises OperatorError if a step is refused: it says why of the first."""
    refused = [one for one in planned if one.refusal]
    if not refused:
        return
    first = refused[0]
    assert first.refusal
    many = f"{len(refused)} of {len(planned)} exports are refused" if len(refused) > 1 else "One export is refused"
    raise OperatorError(
        f"{many}, and nothing was changed. {first.place}: {first.archive}/{first.name}: {first.refusal.what}",
        first.refusal.hint,
    )


def perform(workspace: Workspace, planned: Sequence[PlannedExport]) -> Generator[AppliedExport]:
    """Do it step by step, once the archives are there. A step that another process prevents does not stop the others; a
    server that fails does."""
    for one in planned:
        if one.action == "unchanged":
            continue
        try:
            _do(workspace, one)
            yield AppliedExport(one, done=True)
        except (OperatorError, Conflict) as error:
            yield AppliedExport(one, done=False, error=error)


def _compared(archive: str, spec: ExportSpec, export: Export | None, place: str) -> PlannedExport:
    if export is None:
        return PlannedExport("create", archive, spec.name, place, spec)
    found = declare.differences(export.spec, spec)
    return PlannedExport("change" if found else "unchanged", archive, spec.name, place, spec, export, found)


def _checked(workspace: Workspace, archive: Archive, one: PlannedExport, to_be_made: Collection[str]) -> PlannedExport:
    if one.action == "unchanged" or one.declared is None:
        return one
    try:
        declare.check(workspace, archive, one.declared, to_be_made=to_be_made)
    except (OperatorError, Conflict) as error:
        return replace(one, refusal=error)
    return one


def _do(workspace: Workspace, one: PlannedExport) -> None:
    archive = workspace.catalog.archives.get(one.archive)
    if one.declared is None:
        assert one.export
        workspace.catalog.exports.delete(archive, one.export)
    elif one.export is None:
        declare.create(workspace, one.archive, one.declared)
    else:
        workspace.catalog.exports.change(archive, one.export, one.declared)


def _new(spec: ArchiveSpec) -> Archive:
    """An archive that is to be created, as one that is there."""
    now = datetime.now(UTC)
    return Archive(
        id=0, spec=spec, paused=False, created_at=now, job_id=uuid.UUID(int=0), job_name=spec.name, updated_at=now
    )
