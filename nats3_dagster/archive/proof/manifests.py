"""Manifests: what the catalog would write for an hour, and what the store has that the catalog does not know."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nats3_dagster.archive.stored.archive_folder import ArchiveFolder
from nats3_dagster.chunks.manifest import (
    NEWER,
    Manifest,
    ManifestChunk,
    ManifestGap,
    ManifestOther,
    ManifestPart,
    decode_manifest,
    manifest_hour,
    manifest_number,
)
from nats3_dagster.chunks.naming import hour_folder
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.model import Archive, HourPart
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class StrayManifest:
    """A manifest in the bucket that the catalog does not know."""

    key: str
    hour: str
    number: int
    # Whether its number is that of the hour's seal or a higher one, or the hour has no seal: a reader of the bucket and
    # a rebuild would take it for the truth.
    is_highest: bool


def highest_manifests(folder: ArchiveFolder, hour: str, *, at_least: int) -> list[str]:
    """The keys of the hour's manifests with the highest number in the bucket; empty where that is below `at_least`."""
    spec = folder.archive.spec
    keys = [key for key, _ in folder.bucket.list(hour_folder(spec.prefix, spec.name, hour))]
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
    known = workspace.catalog.seals.sealed_keys(spec.bucket, keys)
    newest = {seal.hour: seal.number for seal in workspace.catalog.seals.select(archive)}
    strays = [
        StrayManifest(key, hour, number, number >= newest.get(hour, 0))
        for key in keys
        if key not in known
        for hour, number in [(manifest_hour(key), manifest_number(key))]
    ]
    return sorted(strays, key=lambda stray: (stray.hour, stray.number, stray.key))


def highest_hours(strays: Iterable[StrayManifest]) -> list[str]:
    """The hours of those manifests that would be taken for the truth, ascending."""
    return sorted({stray.hour for stray in strays if stray.is_highest})


def baseless_manifests(workspace: Workspace, archive: Archive, strays: Iterable[StrayManifest]) -> list[StrayManifest]:
    """Returns the strays that would be taken for the truth and from which nothing can be taken: they are no manifests,
    or none of their objects is there. Raises StoreError."""
    spec = archive.spec
    bucket = workspace.bucket(spec.bucket)

    def has_objects(stray: StrayManifest) -> bool:
        try:
            manifest = decode_manifest(bytes(bucket.get(stray.key)))
        except ObjectMissing:
            return True  # removed since it was listed
        except ChunkError as error:
            return error.hint == NEWER
        keys = [chunk.key for part in manifest.parts for chunk in part.chunks]
        there = {key for key, _ in bucket.list(hour_folder(spec.prefix, spec.name, stray.hour))}
        return not keys or not there.isdisjoint(keys)

    return [stray for stray in strays if stray.is_highest and not has_objects(stray)]


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
