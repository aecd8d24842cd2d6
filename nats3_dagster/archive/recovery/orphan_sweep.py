"""The sweep of orphans: old objects of archives' folders that no row of the catalog names.

Invariant: only what the archive does not need is removed: each message of the object is in a live chunk whose object is
there, or was retired. What has a message that the archive misses, or contradicts its stream, or may be a newer
catalog's, stays and is named.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.proof.manifests import stray_manifests
from nats3_dagster.archive.proof.stray_consumers import stray_consumers
from nats3_dagster.archive.proof.unlisted import Unlisted, examine, unlisted_orphans
from nats3_dagster.archive.stored import folder, kept_settings
from nats3_dagster.archive.stored.removal import (
    FOLDER,
    UPLOADS,
    OrphanObject,
    SweptOrphans,
    Unseen,
    remove_objects,
)
from nats3_dagster.chunks.naming import parse_key
from nats3_dagster.errors import Conflict, ObjectMissing, OperatorError, SourceError, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.objects import abort_upload, unended_uploads
from nats3_dagster.workspace import Workspace


def find_orphans(workspace: Workspace, archive: Archive, before: datetime) -> Iterator[OrphanObject]:
    """The orphans in the archive's folder, each with why it stays. `before`: what was put later may be of a capture
    that runs. Raises StoreError where the archive does not own its folder, SourceError."""
    if not folder.inspect(workspace, archive):
        return
    spec = archive.spec
    path = archive_prefix(spec.prefix, spec.name)
    old = dict(workspace.bucket(spec.bucket).put_before(path, before))
    orphans = unlisted_orphans(workspace, archive)
    for item in examine(workspace, archive, orphans):
        reason = _reason(workspace, archive, orphans, item) if item.key in old else "it is new"
        yield OrphanObject(spec.name, item.key, item.stored_bytes, reason)
    sealed = {seal.hour for seal in workspace.catalog.seals.select(archive)}
    for stray in stray_manifests(workspace, archive):
        is_obsolete = stray.hour in sealed and not stray.is_highest
        reason = "" if is_obsolete else "it may be the truth of a newer catalog"
        reason = reason if stray.key in old else "it is new"
        yield OrphanObject(spec.name, stray.key, old.get(stray.key, 0), reason)
    for key, reason in stray_consumers(workspace, archive):
        yield OrphanObject(spec.name, key, old.get(key, 0), reason if key in old else "it is new")
    own = kept_settings.settings_key(path, archive.job_id)
    for key, size in old.items():
        if kept_settings.is_settings(key) and key != own:
            yield OrphanObject(spec.name, key, size)


def sweep_each(workspace: Workspace, older_than_s: int, *, dry_run: bool) -> SweptOrphans:
    """The orphans of all archives that own their folder, put this long ago, each with why it stays; unless `dry_run`
    the others are removed. An archive that fails does not stop the others. Raises CatalogError."""
    before = workspace.catalog.now() - timedelta(seconds=older_than_s)
    swept = SweptOrphans()
    for archive in workspace.catalog.archives.all():
        try:
            own = list(find_orphans(workspace, archive, before))
            if not dry_run:
                fault_point("orphans.found")
                remove_objects(workspace, archive.spec.bucket, [one.key for one in own if not one.kept])
            swept.orphans.extend(own)
        except (StoreError, SourceError, OperatorError, Conflict) as error:
            swept.unseen.append(Unseen(archive.name, FOLDER, error))
            continue
        try:
            swept.orphans.extend(_sweep_uploads(workspace, archive, before, dry_run=dry_run))
        except StoreError as error:
            swept.unseen.append(Unseen(archive.name, UPLOADS, error))
    return swept


def _sweep_uploads(workspace: Workspace, archive: Archive, before: datetime, *, dry_run: bool) -> list[OrphanObject]:
    """The uploads of other programs that did not end, which are ended: nats3 itself uploads objects whole. Raises
    StoreError where the store does not show or end them."""
    spec, store = archive.spec, workspace.settings.store
    found = unended_uploads(store, spec.bucket, f"{archive_prefix(spec.prefix, spec.name)}/", before)
    for key, upload_id in found if not dry_run else ():
        abort_upload(store, spec.bucket, key, upload_id)
    return [OrphanObject(spec.name, key, 0) for key, _ in found]


def _reason(workspace: Workspace, archive: Archive, orphans: Orphans, item: Unlisted) -> str:
    """Returns the reason why the object stays; empty if the archive does not need it."""
    if item.reason:
        return item.reason
    if item.missing:
        return f"the archive misses {item.missing:,} of its messages"
    name = parse_key(item.key)
    incarnation = next(one for one in workspace.catalog.coverage.incarnations(archive) if orphans.covers(item.key, one))
    assert name is not None
    if hold := workspace.catalog.holds.holding(archive, name.hour, name.covers):
        return f"the hold {hold} keeps it"
    for chunk in workspace.catalog.chunks.select(archive, incarnation=incarnation, seqs=name.covers):
        meta = chunk.meta
        try:
            stored = workspace.bucket(meta.bucket).head(meta.key).size
        except ObjectMissing:
            stored = None
        if stored != meta.stored_bytes:
            return f"chunk {chunk.id} of the same sequences is missing or damaged: repair the archive first"
    return ""
