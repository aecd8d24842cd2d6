"""Manifests: what the catalog would write for an hour, what the store has, and making the two agree again.

Invariants: a manifest that is gone is written again with the same bytes under the same key, or the hour is sealed once
more. No manifest is deleted here: one that the catalog does not know may be the truth of a newer catalog.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nats3_dagster.archive.proof.verify import verify_seals
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.chunks.manifest import (
    Manifest,
    ManifestChunk,
    ManifestGap,
    ManifestOther,
    ManifestPart,
    manifest_hour,
    manifest_number,
)
from nats3_dagster.chunks.naming import hour_folder
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Archive, HourPart, Seal
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class StrayManifest:
    """A manifest in the bucket that the catalog does not know."""

    key: str
    hour: str
    number: int
    # Whether its number is that of the hour's seal or a higher one: a reader of the bucket would take it for the truth.
    is_highest: bool


def highest_manifests(workspace: Workspace, archive: Archive, hour: str, *, at_least: int) -> list[str]:
    """The keys of the hour's manifests with the highest number in the bucket; empty where that is below `at_least`."""
    spec = archive.spec
    keys = [key for key, _ in workspace.bucket(spec.bucket).list(hour_folder(spec.prefix, spec.name, hour))]
    numbers = {key: number for key in keys if (number := manifest_number(key)) >= at_least}
    highest = max(numbers.values(), default=0)
    return [key for key, number in numbers.items() if number == highest]


def stray_manifests(workspace: Workspace, archive: Archive, hours: Sequence[str] | None = None) -> list[StrayManifest]:
    """The manifests in the archive's folder that the catalog has no seal of, by hour and number: those of a sealing
    that was killed or still runs, or of a newer catalog than this one. Raises StoreError."""
    spec, bucket = archive.spec, workspace.bucket(archive.spec.bucket)
    folders = [hour_folder(spec.prefix, spec.name, hour) for hour in hours or ()]
    listed = [key for folder in folders or [archive_prefix(spec.prefix, spec.name)] for key, _ in bucket.list(folder)]
    keys = [key for key in listed if manifest_number(key)]
    # The catalog is asked after the store: a seal that was added meanwhile is no stray.
    known = workspace.catalog.seals.known_keys(spec.bucket, keys)
    newest = {seal.hour: seal.number for seal in workspace.catalog.seals.select(archive)}
    strays = [
        StrayManifest(key, hour, number, number >= newest.get(hour, number + 1))
        for key in keys
        if key not in known
        for hour, number in [(manifest_hour(key), manifest_number(key))]
    ]
    return sorted(strays, key=lambda stray: (stray.hour, stray.number, stray.key))


def repair_manifests(workspace: Workspace, archive: Archive, hours: Sequence[str] | None = None) -> Iterator[Seal]:
    """Write the manifests of valid seals that are gone or damaged again, and seal hours once more that have a stray
    manifest of the seal's number or a higher one. Yields the seals that the hours have then. Only the catalog and the
    store are asked. Raises StoreError, also where the archive does not own its folder: then nothing was written; and
    Conflict for an hour that changes meanwhile."""
    # Imported here: sealing needs this module.
    from nats3_dagster.archive.proof.seal import seal_hours

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
    if not workspace.catalog.seals.known_keys(seal.bucket, [key]):  # the archive was purged meanwhile
        remove_objects(workspace, seal.bucket, [key])
    return True


def build_manifest(
    workspace: Workspace, archive: Archive, hour: str, number: int, parts: Iterable[HourPart]
) -> Manifest:
    """The manifest of the hour under this number. The same state gives the same bytes."""
    spec = archive.spec
    made = tuple(_part(workspace, archive, hour, part) for part in parts)
    return Manifest(spec.name, spec.stream, spec.bucket, spec.prefix, hour, number, made)


def _part(workspace: Workspace, archive: Archive, hour: str, part: HourPart) -> ManifestPart:
    chunks = workspace.catalog.chunks.of_hour(archive, hour, part.incarnation)
    return ManifestPart(
        part.incarnation.created_ns,
        part.seqs.first,
        part.seqs.last,
        tuple(
            ManifestChunk(
                key=m.key,
                sha256=m.sha256,
                stored_bytes=m.stored_bytes,
                first_seq=m.covers.first,
                last_seq=m.covers.last,
                messages=m.messages,
                payload_bytes=m.payload_bytes,
                first_ns=m.first_ns,
                last_ns=m.last_ns,
                absent_reason=m.absent_reason,
            )
            for m in (c.meta for c in chunks)
        ),
        tuple(
            ManifestGap(*gap.seqs, gap.reason, gap.first_hour, gap.last_hour, gap.after_ns, gap.before_ns)
            for gap in part.gaps
        ),
        tuple(ManifestOther(*other.seqs, other.hour) for other in part.others),
    )
