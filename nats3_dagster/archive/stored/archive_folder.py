"""An archive's folder in one of its buckets."""

from dataclasses import dataclass

from nats3_dagster.model import Archive
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """The place where chunks, manifests, settings and records of an archive lie. Having one asks the store nothing."""

    archive: Archive
    # The archive's own, or that of a copy.
    bucket: Bucket
    # The common part of all keys, without a slash at its end.
    path: str


def folder_of(workspace: Workspace, archive: Archive, bucket_name: str | None = None) -> ArchiveFolder:
    """Returns the folder of an archive. `bucket_name`: of a copy, or a former one."""
    bucket = workspace.bucket(bucket_name or archive.spec.bucket)
    return ArchiveFolder(archive, bucket, archive_prefix(archive.spec.prefix, archive.name))
