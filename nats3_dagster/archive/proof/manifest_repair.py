"""Manifests that are gone, damaged or contradicted: making catalog and store agree again.

Invariants: a manifest that is gone is written again with the same bytes under the same key, or the hour is sealed once
more. No manifest is deleted here: one that the catalog does not know may be the truth of a newer catalog.
"""

import hashlib
from collections.abc import Iterator, Sequence

from nats3_dagster.archive.proof.manifests import build_manifest, stray_manifests
from nats3_dagster.archive.proof.seal import complete_hours, seal_hours
from nats3_dagster.archive.proof.verify import verify_seals
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Archive, Seal
from nats3_dagster.workspace import Workspace


def repair_manifests(workspace: Workspace, archive: Archive, hours: Sequence[str] | None = None) -> Iterator[Seal]:
    """Write the manifests of valid seals that are gone or damaged again, and seal hours once more that have a stray
    manifest of the seal's number or a higher one; hours without a seal that have one, if they are complete. Yields the
    seals that the hours have then. Only the catalog and the store are asked, unless such an hour has no seal. Raises
    StoreError, also where the archive does not own its folder: then nothing was written; and Conflict for an hour that
    changes meanwhile."""
    seals = [seal for seal in workspace.catalog.seals.select(archive, hours=hours) if seal.valid]
    exceeded = {stray.hour for stray in stray_manifests(workspace, archive, hours) if stray.is_highest}
    bad = [seal for seal, error in verify_seals(workspace, (s for s in seals if s.hour not in exceeded)) if error]
    again = {seal.hour for seal in seals if seal.hour in exceeded}
    if bad:
        folder.require(workspace, archive)
    for seal in bad:
        if _write_again(workspace, archive, seal):
            yield seal
        else:
            again.add(seal.hour)
    unsealed = exceeded - {seal.hour for seal in seals}
    again |= complete_hours(workspace, archive, unsealed)[0]
    yield from seal_hours(workspace, archive, sorted(again))


def _write_again(workspace: Workspace, archive: Archive, seal: Seal) -> bool:
    """Put the manifest as it was; False if the hour would be written otherwise now."""
    row, parts = workspace.catalog.seals.next(archive, seal.hour)
    if (row.revision, row.chunks, row.losses) != (seal.revision, seal.chunks, seal.losses):
        raise Conflict(f"Hour {seal.hour} of archive {archive.name} changed meanwhile", "It is sealed as it is then")
    data, key = build_manifest(workspace, archive, seal.hour, seal.number, parts).encode()
    sha256 = hashlib.sha256(data).hexdigest()
    if (archive.spec.bucket, key, sha256) != (seal.bucket, seal.key, seal.sha256):
        return False
    workspace.bucket(seal.bucket).put_again(key, data, sha256)
    if not workspace.catalog.seals.sealed_keys(seal.bucket, [key]):  # the archive was purged meanwhile
        remove_objects(workspace, seal.bucket, [key])
    return True
