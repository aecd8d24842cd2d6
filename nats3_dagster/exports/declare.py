"""Declaring exports: create, change, delete, and those that are declared as code.

Invariants: a spec is checked before anything is written. Deleting an export keeps its files. A declaration as code
changes nothing that the catalog has, and does not create anything again that was deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from nats3_dagster.archive.lifecycle.change import Difference
from nats3_dagster.archive.stored.buckets import absent
from nats3_dagster.errors import Conflict, OperatorError, StoreError
from nats3_dagster.exports.checks import check_export
from nats3_dagster.exports.plan import outlet_options
from nats3_dagster.exports.status import Listed, find
from nats3_dagster.model import Archive, ExportSpec
from nats3_dagster.model.export import Export, ExportTotals
from nats3_dagster.objects import bucket_exists
from nats3_dagster.workspace import Workspace

# What an archive has beside its exports: assets and ops in Dagster.
RESERVED = ("chunks", "sealed", "replay", "checks", "table")


@dataclass(frozen=True, slots=True)
class Changed:
    """An export before and after a change; they are the same where there was nothing to change."""

    archive: Archive
    before: Export
    after: Export
    differences: tuple[Difference, ...]


def create(workspace: Workspace, archive_name: str, spec: ExportSpec) -> Listed:
    """The new export. Raises OperatorError when it cannot run, Conflict when the archive has one of this name."""
    archive = workspace.catalog.archives.get(archive_name)
    check(workspace, archive, spec)
    return Listed(archive, workspace.catalog.exports.create(archive, spec), ExportTotals())


def check(workspace: Workspace, archive: Archive, spec: ExportSpec, *, to_be_made: Collection[str] = ()) -> None:
    """Raises OperatorError unless the archive may have this export, and it can run here. `to_be_made`: buckets that are
    created before it."""
    if spec.name in RESERVED:
        raise OperatorError(
            f"An export cannot be called {spec.name}: every archive has an asset {archive.name}/{spec.name}",
            "Choose another name",
            field="name",
        )
    check_export(workspace, archive, spec)
    _check_bucket(workspace, archive, spec, to_be_made)


def _check_bucket(workspace: Workspace, archive: Archive, spec: ExportSpec, to_be_made: Collection[str]) -> None:
    """Raises OperatorError if the destination's bucket does not exist. A store that refuses the answer, or does not
    answer, is none of this: another machine may be the one that exports."""
    outlet = outlet_options(workspace.settings.store, archive, spec)
    if outlet.scheme == "file" or outlet.name in to_be_made:
        return
    store = outlet.s3 or workspace.settings.store
    try:
        is_there = bucket_exists(store, outlet.name)
    except StoreError:
        return
    if not is_there:
        raise absent(
            store, outlet.name, "destination's bucket", "Create it, or name another destination", "destination"
        )


def change(workspace: Workspace, archive_name: str, name: str, wanted: Mapping[str, Any]) -> Changed:
    """Give the export other values of these fields, for hours that are exported from then on. A value that it has
    already is no change. Raises OperatorError when there is none, a field may not change, or the export cannot run
    with these values; Conflict when another process changed it meanwhile."""
    archive, before = find(workspace, archive_name, name)
    spec = changed_spec(before, wanted)
    found = differences(before.spec, spec)
    if not found:
        return Changed(archive, before, before, ())
    check(workspace, archive, spec)
    return Changed(archive, before, workspace.catalog.exports.change(archive, before, spec), found)


def changed_spec(before: Export, wanted: Mapping[str, Any]) -> ExportSpec:
    """The spec with these values. Raises OperatorError for the name, which stays, and for an invalid value."""
    if wanted.get("name", before.name) != before.name:
        raise OperatorError(
            f"The name of export {before.name} cannot change: its asset and its lists of files are named by it",
            "Make another export, and delete this one: its files stay",
            field="name",
        )
    return replace(before.spec, **wanted)


def differences(old: ExportSpec, new: ExportSpec) -> tuple[Difference, ...]:
    """The fields in which they differ."""
    pairs = [(field.name, getattr(old, field.name), getattr(new, field.name)) for field in fields(ExportSpec)]
    return tuple(Difference(name, before, after) for name, before, after in pairs if before != after)


def delete(workspace: Workspace, archive_name: str, name: str) -> Listed:
    """Delete the declaration; what it has made stays, and what that was is given back. Raises OperatorError when there
    is none."""
    archive, export = find(workspace, archive_name, name)
    totals = workspace.catalog.exports.totals(archive).get(export.id, ExportTotals())
    workspace.catalog.exports.delete(archive, export)
    return Listed(archive, export, totals)


def ensure_declared(workspace: Workspace, archive: Archive, declared: Sequence[ExportSpec]) -> None:
    """Create those of the declared exports that the archive never had. Raises OperatorError where the catalog has other
    settings, or had an export of this name that was deleted, and for one that cannot run."""
    exports = workspace.catalog.exports
    existing = {one.name: one.spec for one in exports.all(archive)}
    for spec in declared:
        if spec.name not in existing:
            if spec.name in exports.deleted_names_of(archive):
                raise OperatorError(
                    f"Export {spec.name} of archive {archive.name} is declared, and was deleted",
                    f"Take {spec.name} out of the declaration, or give it another name",
                )
            check(workspace, archive, spec)
            try:
                existing[spec.name] = exports.create(archive, spec).spec
            except Conflict:
                found = exports.find(archive, spec.name)
                if found is None:
                    raise
                existing[spec.name] = found.spec  # another process was faster
        if found := differences(existing[spec.name], spec):
            texts = [f"{one.field} is {one.old!r}, and {one.new!r} is declared" for one in found]
            raise OperatorError(
                f"Export {spec.name} of archive {archive.name} is not as declared: {'; '.join(texts)}",
                "Declare what the catalog has, or change the export to what is declared",
            )
