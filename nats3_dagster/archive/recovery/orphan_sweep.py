"""The sweep of orphans: old objects of archives' folders that no row of the catalog names.

Invariant: only what the archive does not need is removed: each message of the object is in a live chunk whose object is
there, or was retired. What has a message that the archive misses, or contradicts its stream, or may be a newer
catalog's, stays and is named.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.proof.manifests import stray_manifests
from nats3_dagster.archive.proof.unlisted import Unlisted, examine, unlisted_orphans
from nats3_dagster.archive.stored import folder, kept_settings
from nats3_dagster.archive.stored.removal import OrphanObject, remove_objects
from nats3_dagster.chunks.naming import parse_key
from nats3_dagster.errors import ObjectMissing
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
    own = kept_settings.settings_key(path, archive.job_id)
    for key, size in old.items():
        if kept_settings.is_settings(key) and key != own:
            yield OrphanObject(spec.name, key, size)

    store = workspace.settings.store
    for key, upload_id in unended_uploads(store, spec.bucket, f"{path}/", before):
        yield OrphanObject(spec.name, key, 0, upload_id=upload_id)


def sweep_orphans(workspace: Workspace, archive: Archive, orphans: Sequence[OrphanObject]) -> int:
    """Remove those of the orphans that may be; how many. Raises StoreError."""
    store, bucket_name = workspace.settings.store, archive.spec.bucket
    fault_point("orphans.found")
    uploads = [one for one in orphans if one.upload_id]
    for one in uploads:
        abort_upload(store, bucket_name, one.key, one.upload_id)
    keys = [one.key for one in orphans if not one.kept and not one.upload_id]
    return remove_objects(workspace, bucket_name, keys) + len(uploads)


def sweep_each(workspace: Workspace, older_than_s: int, *, dry_run: bool) -> list[OrphanObject]:
    """The orphans of all archives that own their folder, put this long ago, each with why it stays; unless `dry_run`
    the others are removed. Raises StoreError, SourceError."""
    before = workspace.catalog.now() - timedelta(seconds=older_than_s)
    found: list[OrphanObject] = []
    for archive in workspace.catalog.archives.all():
        own = list(find_orphans(workspace, archive, before))
        if not dry_run:
            sweep_orphans(workspace, archive, own)
        found += own
    return found


def _reason(workspace: Workspace, archive: Archive, orphans: Orphans, item: Unlisted) -> str:
    """Why the object stays; empty if the archive does not need it."""
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
