"""The folder of an archive in its bucket, and the object that says whose it is.

Invariant: nothing is put into a folder, and nothing is removed from it, before its owner object was seen to name an
archive of this catalog. A folder without one, where the archive has chunks, is another store: one that is not mounted,
or an older copy.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from nats3_dagster.archive.stored import erasure_records, kept_settings
from nats3_dagster.archive.stored.archive_folder import ArchiveFolder, folder_of
from nats3_dagster.errors import Conflict, ForeignFolder, OperatorError, StoreError
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.model.archive_spec import archive_folder, archive_prefix
from nats3_dagster.objects import Bucket, OwnerObject, bucket_exists
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# How long the creation of an archive may take.
PATIENCE_S = 60.0
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """The content of the owner object."""

    # The archive's id, unique over catalogs (nats3.archive.job_id), and its name.
    id: UUID
    archive: str
    stream: str

    def encode(self) -> bytes:
        fields = {"format": _FORMAT, "id": str(self.id), "archive": self.archive, "stream": self.stream}
        return json.dumps(fields, separators=(",", ":")).encode()


def owner_key(folder: str) -> str:
    """The key of a folder's owner object. Engines that read a folder of Parquet files leave names with _ out."""
    return f"{folder}/_owner.json"


def check_bucket(workspace: Workspace, archive: Archive) -> None:
    """Raises OperatorError when the archive's bucket is gone."""
    store = workspace.settings.store.of(archive.spec.bucket)
    if not bucket_exists(store, archive.spec.bucket):
        raise OperatorError(
            f"The bucket {archive.spec.bucket!r} of archive {archive.name} does not exist in {store.place}",
            Next.CREATE_BUCKET_AGAIN(),
        )


def check_free(workspace: Workspace, spec: ArchiveSpec) -> None:
    """Raises Conflict if the folder of a new archive is another catalog's. One of an archive that this catalog had is
    free again."""
    owner = owner_of(workspace.bucket(spec.bucket), archive_prefix(spec.prefix, spec.name))
    if owner and workspace.catalog.archives.of_job(owner.id) is None:
        raise _foreign(spec, owner, spec.bucket)


def claim(
    workspace: Workspace, archive: Archive, *, take_over: bool = False, bucket_name: str | None = None
) -> ArchiveFolder:
    """Make the archive the owner of its folder, which then has its settings and those of no earlier owner.
    `bucket_name`: of a copy. Raises Conflict if another catalog's archive is the owner, unless it is to be taken over;
    StoreError."""
    folder = folder_of(workspace, archive, bucket_name)
    _claim(workspace, folder, take_over=take_over)
    return folder


def _claim(workspace: Workspace, folder: ArchiveFolder, *, take_over: bool = False) -> None:
    owner_object = _object(folder.bucket, folder.path)
    own = _own(folder.archive)
    former = owner = owner_object.create(own)
    if owner.id != own.id and (take_over or workspace.catalog.archives.of_job(owner.id)):
        # First: the folder never has an owner without settings.
        kept_settings.write_settings(workspace, folder)
        owner = owner_object.replace(own)
    if owner.id != own.id:
        raise _foreign(folder.archive.spec, owner, folder.bucket.name)
    kept_settings.write_settings(workspace, folder)
    if former.id != own.id:
        folder.bucket.delete(kept_settings.settings_key(folder.path, former.id))


def claimable(workspace: Workspace, archive: Archive) -> list[str]:
    """The archive's bucket, its copies, and the former copies whose bucket is there: what was erased is to go from them
    too. Raises StoreError."""
    store, former = workspace.settings.store, workspace.catalog.erasures.former_copies(archive)
    return [*dict.fromkeys([*archive.spec.buckets, *(name for name in former if bucket_exists(store, name))])]


def check_create_only(workspace: Workspace, archive: Archive) -> None:
    """Raises StoreError for a cloud that creates an object where there is one: what stands for Google's or Azure's may
    not know the condition. The archive owns its folder. `nats3 doctor` says it for S3."""
    place, folder = workspace.settings.store.of(archive.spec.bucket), folder_of(workspace, archive)
    if place.cloud is not None and folder.bucket.create(owner_key(folder.path), _own(archive).encode()):
        raise StoreError(
            f"{place.place} created an object of the bucket {folder.bucket.name!r} a second time: create-only is no "
            "condition there",
            "Use a store that knows the condition: an archive depends on it",
        )


def require(workspace: Workspace, archive: Archive) -> ArchiveFolder:
    """Returns the archive's folder, which it owns. One that has no chunk yet claims it: its creation may have ended
    before. Its settings are kept there as they are now, and the catalog learns what was erased from the folder. Raises
    StoreError, and nothing was written, if the archive does not own it."""
    folder = folder_of(workspace, archive)
    if _is_owned(workspace, folder):
        kept_settings.write_settings(workspace, folder)
    else:
        _claim(workspace, folder)
    erasure_records.agree(workspace, folder)
    return folder


def learn(workspace: Workspace, archive: Archive) -> None:
    """Let the catalog know what was erased from the folder, if the archive owns it. Raises as `inspect`; ChunkError for
    a record that is not as it was written."""
    if folder := inspect(workspace, archive):
        erasure_records.agree(workspace, folder)


def inspect(workspace: Workspace, archive: Archive) -> ArchiveFolder | None:
    """Returns the archive's folder, which it owns; None if no live archive does, and it has no chunk yet. Raises
    StoreError where another archive does, or where the archive has chunks and no archive owns the folder. Writes
    nothing."""
    folder = folder_of(workspace, archive)
    return folder if _is_owned(workspace, folder) else None


def _is_owned(workspace: Workspace, folder: ArchiveFolder) -> bool:
    archive, spec = folder.archive, folder.archive.spec
    owner = owner_of(folder.bucket, folder.path)
    if owner and owner.id == archive.job_id:
        return True
    if (owner is None or _is_deleted(workspace, owner)) and not workspace.catalog.chunks.select(
        archive, limit=1, with_minutes=False
    ):
        return False
    place = f"The bucket {spec.bucket!r} in {workspace.settings.store.of(spec.bucket).place}"
    if owner is None:
        raise StoreError(
            f"{place} is not the one that archive {archive.name} was written to: its owner object is missing",
            Next.CLAIM_FOLDER(archive=archive.name),
        )
    raise StoreError(
        f"{place} has another owner of the folder of archive {archive.name}: an archive of stream {owner.stream} with "
        f"the id {owner.id}",
        Next.CLAIM_FOLDER(archive=archive.name),
    )


def obsolete(workspace: Workspace, archive_name: str) -> list[tuple[str, str]]:
    """Bucket and folder of deleted archives of this name whose owner objects are left, except the folder of a live
    archive: that one claims it. Raises StoreError."""
    archives = workspace.catalog.archives
    places = {place for archive in archives.deleted(archive_name) for place in _places(archive)}
    if live := archives.find(archive_name):
        places.difference_update(_places(live))
    return [place for place in sorted(places) if _is_obsolete(workspace, *place)]


def release(workspace: Workspace, archive_name: str) -> None:
    """Delete the owner objects and settings of folders of deleted archives of this name. No archive of the name is
    created meanwhile: it would claim its folder between the last look and the DELETE. Raises Conflict when another
    process creates one for long, StoreError; the next call does the rest."""
    if not obsolete(workspace, archive_name):
        return
    with workspace.catalog.locks.creating(archive_name, PATIENCE_S):
        for bucket_name, folder in obsolete(workspace, archive_name):
            bucket = workspace.bucket(bucket_name)
            if owner := owner_of(bucket, folder):
                bucket.delete(kept_settings.settings_key(folder, owner.id))
            bucket.delete(owner_key(folder))


def folders_of(keys: Iterable[str]) -> list[str]:
    """The folders of archives in which the keys lie."""
    return sorted({found[0] for key in keys if (found := archive_folder(key))})


def check_removable(workspace: Workspace, bucket_name: str, keys: Iterable[str]) -> None:
    """Raises ForeignFolder if one of the keys lies in a folder that an archive of another catalog owns; StoreError."""
    bucket = workspace.bucket(bucket_name)
    for folder in folders_of(keys):
        owner = owner_of(bucket, folder)
        if owner and workspace.catalog.archives.of_job(owner.id) is None:
            raise ForeignFolder(
                f"{folder} in the bucket {bucket_name!r} belongs to an archive of another catalog, with the id "
                f"{owner.id}: nothing was removed from it",
                "Remove objects there by that catalog",
            )


def _places(archive: Archive) -> list[tuple[str, str]]:
    """The archive's bucket and those of its copies, each with the folder."""
    return [(bucket, archive_prefix(archive.spec.prefix, archive.name)) for bucket in archive.spec.buckets]


def _is_obsolete(workspace: Workspace, bucket_name: str, folder: str) -> bool:
    """True if the folder's owner is an archive that this catalog had, and no longer has."""
    owner = owner_of(workspace.bucket(bucket_name), folder)
    return bool(owner and _is_deleted(workspace, owner))


def _is_deleted(workspace: Workspace, owner: Owner) -> bool:
    row = workspace.catalog.archives.of_job(owner.id)
    return bool(row and not row[1])


def owner_of(bucket: Bucket, folder: str) -> Owner | None:
    """Returns the owner; None if there is no owner object. Raises StoreError for one that cannot be read."""
    return _object(bucket, folder).read()


def _object(bucket: Bucket, folder: str) -> OwnerObject[Owner]:
    key = owner_key(folder)

    def decode(data: bytes) -> Owner:
        try:
            fields = json.loads(data)
            if fields["format"] != _FORMAT:
                raise ValueError(fields["format"])
            return Owner(UUID(fields["id"]), str(fields["archive"]), str(fields["stream"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(
                f"{key} in the bucket {bucket.name!r} does not name the owner of its folder",
                "A newer release may have written it; or bring it back from a copy of the bucket",
            ) from error

    return OwnerObject(bucket, key, decode)


def _own(archive: Archive) -> Owner:
    return Owner(archive.job_id, archive.name, archive.spec.stream)


def _foreign(spec: ArchiveSpec, owner: Owner, bucket_name: str) -> Conflict:
    folder = archive_prefix(spec.prefix, spec.name)
    return Conflict(
        f"{folder} in the bucket {bucket_name!r} belongs to an archive of another catalog: of stream {owner.stream}, "
        f"with the id {owner.id}",
        Next.TAKE_OVER_FOLDER(archive=spec.name) if bucket_name == spec.bucket else Next.CLAIM_COPY(archive=spec.name),
    )
