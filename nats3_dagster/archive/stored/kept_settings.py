"""The settings of an archive, kept beside its chunks: what no chunk and no manifest says of it.

Invariant: the object's key has the archive's id, so that two catalogs never write the same one, also while the one
takes the folder over from the other. It follows the catalog, which is the truth: before each capture and each seal it
is compared, and written again where it differs. So it is as new as the newest chunk; a later change is not in it.
"""

import hashlib
import json
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from nats3_dagster.archive.stored.archive_folder import ArchiveFolder
from nats3_dagster.errors import ChunkError, ObjectMissing, OperatorError, StoreError
from nats3_dagster.model import Archive, ArchiveSpec, FormerFilter, ReplayPreset
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace

_FORMAT = 1
# Bytes of the settings of an archive.
_MOST = 8 << 20


@dataclass(frozen=True, slots=True)
class KeptIncarnation:
    """One incarnation of the stream: what the catalog alone knows of it."""

    created_ns: int
    # The first sequence that the archive accounts for.
    start: int
    # As in Incarnation, and as in Coverage.
    restored_ns: int
    unknown_after: int | None


@dataclass(frozen=True, slots=True)
class KeptHold:
    """A hold, as in Hold."""

    name: str
    reason: str
    actor: str
    first_hour: str | None
    last_hour: str | None
    first_seq: int | None
    last_seq: int | None


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """An archive without what it holds."""

    id: UUID
    spec: ArchiveSpec
    job_name: str
    paused: bool = False
    # None where it is unknown.
    created_at: datetime | None = None
    former_filters: tuple[FormerFilter, ...] = ()
    # Its replays by name.
    presets: tuple[ReplayPreset, ...] = ()
    # The oldest first.
    incarnations: tuple[KeptIncarnation, ...] = ()
    # Those in force: without them a rebuild would let go what must stay.
    holds: tuple[KeptHold, ...] = ()
    # Buckets of copies that were taken out of the settings: erasures look there.
    former_copies: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The same bytes for the same settings."""
        spec = {one.name: getattr(self.spec, one.name) for one in settings_of(ArchiveSpec)}
        fields = {
            "format": _FORMAT,
            "id": str(self.id),
            "settings": spec,
            "job_name": self.job_name,
            "paused": self.paused,
            "created_at": self.created_at and self.created_at.isoformat(),
            "former_filters": [[one.created_ns, one.last_seq, list(one.subjects)] for one in self.former_filters],
            "replays": [one.document() for one in self.presets],
            "incarnations": [
                [one.created_ns, one.start, one.restored_ns, one.unknown_after] for one in self.incarnations
            ],
            "holds": [list(astuple(one)) for one in self.holds],
            "former_copies": list(self.former_copies),
        }
        return json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def settings_key(folder: str, archive_id: UUID) -> str:
    """The key of an archive's settings in its folder."""
    return f"{folder}/_settings-{archive_id}.json"


def is_settings(key: str) -> bool:
    """True for the key of an archive's settings."""
    return "/_settings-" in key and key.endswith(".json")


def write_settings(workspace: Workspace, folder: ArchiveFolder) -> None:
    """Write the archive's settings beside its chunks, unless they are there. Raises StoreError."""
    found = workspace.catalog.archives.of_job(folder.archive.job_id)
    if found is None or not found[1]:
        return
    put(folder.bucket, folder.path, folder.archive.job_id, _settings(workspace, found[0]).encode())


def put(bucket: Bucket, folder: str, archive_id: UUID, data: bytes) -> None:
    """Store settings, unless the object has just these bytes. Raises StoreError."""
    key = settings_key(folder, archive_id)
    try:
        if bytes(bucket.get(key, len(data))) == data:
            return
    except (ObjectMissing, ChunkError):
        pass
    bucket.put_again(key, data, hashlib.sha256(data).hexdigest())


def read(bucket: Bucket, folder: str, archive_id: UUID) -> KeptSettings | None:
    """The settings of the archive of this id; None if there are none. Raises StoreError if they cannot be read."""
    key = settings_key(folder, archive_id)
    try:
        data = bytes(bucket.get(key, _MOST))
    except ObjectMissing:
        return None
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields["format"] != _FORMAT:
            raise ValueError(fields["format"])
        spec: dict[str, Any] = fields["settings"]
        spec = {name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return KeptSettings(
            UUID(fields["id"]),
            ArchiveSpec(**spec),
            str(fields["job_name"]),
            bool(fields["paused"]),
            datetime.fromisoformat(fields["created_at"]) if fields["created_at"] else None,
            tuple(FormerFilter(one[0], one[1], tuple(one[2])) for one in fields["former_filters"]),
            tuple(map(ReplayPreset.of, fields["replays"])),
            tuple(KeptIncarnation(*one) for one in fields["incarnations"]),
            tuple(KeptHold(*one) for one in fields["holds"]),
            tuple(str(one) for one in fields["former_copies"]),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OperatorError) as error:
        raise StoreError(
            f"{key} in the bucket {bucket.name!r} does not have the settings of an archive",
            "A newer release may have written it; or bring it back from a copy of the bucket",
        ) from error


def _settings(workspace: Workspace, archive: Archive) -> KeptSettings:
    incarnations = tuple(
        KeptIncarnation(c.incarnation.created_ns, c.start, c.incarnation.restored_ns, c.unknown_after)
        for c in workspace.catalog.coverage.all(archive)
    )
    return KeptSettings(
        archive.job_id,
        archive.spec,
        archive.job_name,
        archive.paused,
        archive.created_at,
        archive.former_filters,
        archive.presets,
        incarnations,
        tuple(
            KeptHold(h.name, h.reason, h.actor, h.first_hour, h.last_hour, h.first_seq, h.last_seq)
            for h in workspace.catalog.holds.all(archive)
        ),
        tuple(workspace.catalog.erasures.former_copies(archive)),
    )
