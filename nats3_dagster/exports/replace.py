"""The replacement of an hour's files: what the tasks staged becomes what the destination has.

Invariant: before a file is touched, the manifest names all that may be there; after the last one, all that is there. So
a run that was killed at any step is made up by the next one.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace as changed

from nats3_dagster.errors import Conflict, OperatorError, SourceError, StoreError
from nats3_dagster.exports.job import ExportFile, GroupResult, StagedFile, own_folder
from nats3_dagster.exports.manifest import ExportManifest, manifest_path, read_manifest
from nats3_dagster.exports.paths import hour_name
from nats3_dagster.exports.places import Owner, check_claimed
from nats3_dagster.exports.plan import ExportPlan, staging_folder
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import ExportResult
from nats3_dagster.objects import Outlet


def clear_staging(plan: ExportPlan) -> None:
    """Remove what runs of the hour that were killed left on its way. Raises StoreError."""
    outlet, job = Outlet(plan.job.outlet), plan.job
    for path in list(outlet.list(staging_folder(job.archive, job.spec.name, job.hour))):
        outlet.delete(path)


def replace(
    plan: ExportPlan, results: Sequence[GroupResult], owner: Owner, check_alone: Callable[[], None]
) -> ExportResult:
    """Put the staged files in their places, and remove obsolete ones: those of an earlier run, and those of the former
    owners of the place. Nothing of them is changed where more messages are undecoded than the export allows: that
    raises SourceError.

    `check_alone` raises Conflict when another process may write the files of the hour. Raises Conflict also where a
    file of another program is in a place, and where the place got another owner; StoreError."""
    outlet, job = Outlet(plan.job.outlet), plan.job
    old = read_manifest(outlet, job.archive, job.spec.name, job.hour)
    former = _former_manifests(plan, outlet, owner)
    new = _manifest(plan, results)
    undecoded = [result.undecoded_file for result in results if result.undecoded_file]
    if new.undecoded > job.spec.max_undecoded:
        _place_undecoded(plan, outlet, undecoded)
        raise _too_many(plan, new, results)
    staged = {one.file.path: one for result in results for one in result.files}
    before = {file.path: file for one in (*former, old) if one for file in one.files}
    _check_places(outlet, before, staged)
    fault_point("export.staged")
    moved = removed = 0
    to_move = [path for path, one in staged.items() if not _is_there(outlet, old, one.file)]
    to_remove = [path for path in before if path not in staged]
    path = manifest_path(job.archive, job.spec.name, job.hour)
    check_alone()
    check_claimed(plan, owner)
    if to_move or to_remove:
        both = before | {file.path: file for file in new.files}
        outlet.put(path, changed(new, is_done=False, files=tuple(both.values())).encode())
    fault_point("export.replacing")
    for target in to_move:
        check_alone()
        outlet.move(staged[target].staged, target)
        moved += 1
        fault_point("export.moved")
    for target in to_remove:
        check_alone()
        outlet.delete(target)
        removed += 1
        fault_point("export.removed")
    _place_undecoded(plan, outlet, undecoded)
    for one in former:
        outlet.delete(manifest_path(one.archive, one.export, one.hour))
    check_alone()
    if to_move or to_remove or old != new:
        outlet.put(path, new.encode())
    check_claimed(plan, owner)
    fault_point("export.done")
    with suppress(StoreError):  # the next run of the hour removes what is left
        clear_staging(plan)
    return ExportResult(
        archive=job.archive,
        export=job.spec.name,
        hour=job.hour,
        files=len(new.files),
        messages=new.messages,
        dropped=new.dropped,
        undecoded=new.undecoded,
        bytes=sum(file.bytes for file in new.files),
        content=new.content,
        written=moved,
        removed=removed,
    )


def _manifest(plan: ExportPlan, results: Sequence[GroupResult]) -> ExportManifest:
    """Raises OperatorError where two files have one path."""
    files: dict[str, ExportFile] = {}
    for result in results:
        for _, file in result.files:
            if file.path in files:
                raise OperatorError(
                    f"Two files of the export {plan.job.spec.name} have the path {file.path}",
                    "Put {first} into its path",
                    field="path",
                )
            files[file.path] = file
    return ExportManifest(
        plan.job.archive,
        plan.job.spec.name,
        plan.job.hour,
        True,
        tuple(files[path] for path in sorted(files)),
        messages=sum(result.messages for result in results),
        dropped=sum(result.dropped for result in results),
        undecoded=sum(result.undecoded for result in results),
    )


def _former_manifests(plan: ExportPlan, outlet: Outlet, owner: Owner) -> list[ExportManifest]:
    """Returns the manifests that former owners of the place have of the hour. One of the same names has the manifest
    that is read as the export's own."""
    job = plan.job
    names = [(f.archive, f.export) for f in owner.former if (f.archive, f.export) != (job.archive, job.spec.name)]
    return [one for name in names if (one := read_manifest(outlet, *name, job.hour))]


def _is_there(outlet: Outlet, old: ExportManifest | None, file: ExportFile) -> bool:
    """True if the destination has the file already, as a finished run put it there, with its bytes: another program may
    have written the same number of other bytes."""
    if not (old and old.is_done and file in old.files and outlet.size(file.path) == file.bytes):
        return False
    data = outlet.get(file.path)
    return data is not None and hashlib.sha256(data).hexdigest() == file.sha256


def _check_places(outlet: Outlet, before: Collection[str], paths: Iterable[str]) -> None:
    """Raises Conflict for a file that no run of this hour made."""
    for path in paths:
        if path not in before and outlet.size(path) is not None:
            raise Conflict(
                f"{path} is at the destination already, and no file of this export",
                "Give the export another destination, or remove that file",
            )


def _place_undecoded(plan: ExportPlan, outlet: Outlet, files: Sequence[StagedFile]) -> None:
    """The files of undecoded messages are those of the last run, whether it failed or not."""
    folder = f"{own_folder(plan.job.archive, plan.job.spec.name)}/undecoded/{hour_name(plan.job.hour)}"
    before = set(outlet.list(folder))
    for staged, file in files:
        outlet.move(staged, file.path)
    for path in before - {one.file.path for one in files}:
        outlet.delete(path)


def _too_many(plan: ExportPlan, new: ExportManifest, results: Sequence[GroupResult]) -> SourceError:
    spec = plan.job.spec
    reason = next(result.first_reason for result in results if result.first_reason)
    folder = f"{own_folder(plan.job.archive, spec.name)}/undecoded/{hour_name(plan.job.hour)}"
    return SourceError(
        f"{new.undecoded} messages of {plan.job.hour} do not decode, and the export {spec.name} allows "
        f"{spec.max_undecoded}. The first is {reason}",
        f"They are in {folder} at the destination; nothing else was changed. Correct the decoder, or raise "
        "max_undecoded",
    )
