"""The objects of an archive's folder by hour: chunks and consumers by the parts of their keys, and manifests, proven.

Invariant: a day of the folder is in memory at a time, whatever the archive's age.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from nats3_dagster.chunks.consumers import consumers_key
from nats3_dagster.chunks.manifest import (
    MOST_TEXT,
    Manifest,
    decode_manifest,
    manifest_hour,
    manifest_key,
    manifest_number,
)
from nats3_dagster.chunks.naming import ChunkName, parse_key
from nats3_dagster.errors import ChunkError
from nats3_dagster.objects import Bucket


@dataclass(slots=True)
class HourObjects:
    """The objects of an hour."""

    hour: str
    # By key: the size in bytes, and the parts of the key.
    chunks: dict[str, tuple[int, ChunkName]] = field(default_factory=dict[str, tuple[int, ChunkName]])
    # Keys, ascending by their numbers.
    manifests: list[str] = field(default_factory=list[str])
    # Keys of what was kept of consumers: the last of each incarnation, by its token.
    consumers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """A manifest as it is in the bucket."""

    key: str
    manifest: Manifest
    sha256: str  # hex
    stored_bytes: int


class Listing:
    """A walk through an archive's folder, day by day, ascending."""

    def __init__(self, bucket: Bucket, folder: str) -> None:
        self._bucket, self._folder = bucket, folder
        self._seen = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The same for two walks that saw the same objects: compared after both."""
        return self._seen.hexdigest()

    def hours(self) -> Iterator[HourObjects]:
        """The hours that have an object. Raises StoreError."""
        for day in self._bucket.folders(self._folder):
            hours: dict[str, HourObjects] = {}
            for key, size in sorted(self._bucket.list(day)):
                name, number, consumers = parse_key(key), manifest_number(key), consumers_key(key)
                if name:
                    hours.setdefault(name.hour, HourObjects(name.hour)).chunks[key] = size, name
                elif number:
                    hour = manifest_hour(key)
                    hours.setdefault(hour, HourObjects(hour)).manifests.append(key)
                elif consumers:
                    # Keys of one incarnation ascend with the time.
                    hour, token, _ = consumers
                    hours.setdefault(hour, HourObjects(hour)).consumers[token] = key
                if name or number or consumers:
                    self._seen.update(f"{key} {size}\n".encode())
            for hour in sorted(hours):
                hours[hour].manifests.sort(key=lambda key: (manifest_number(key), key))
                yield hours[hour]


def read_manifest(bucket: Bucket, key: str, archive: str, prefix: str) -> StoredManifest:
    """The manifest, proven by the hash in its key. Raises ChunkError unless it is one of this archive, ObjectMissing,
    StoreError."""
    data = bytes(bucket.get(key, MOST_TEXT))
    sha256 = hashlib.sha256(data).hexdigest()
    manifest = decode_manifest(data)
    if manifest_key(manifest.prefix, manifest.archive, manifest.hour, manifest.number, sha256) != key:
        raise ChunkError(f"The manifest {key} is not the object of its key", "Bring it back from a copy of the bucket")
    if (manifest.archive, manifest.prefix) != (archive, prefix):
        raise ChunkError(
            f"The manifest {key} is of archive {manifest.archive} and the prefix {manifest.prefix!r}",
            "Put the folder back to where it was written",
        )
    return StoredManifest(key, manifest, sha256, len(data))
