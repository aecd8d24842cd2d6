"""Records of erasures beside an archive's chunks, in its bucket and in each of its copies.

Invariant: before anything is removed from a bucket for an erasure, its record is there; and before anything is written
there, the catalog has every record that is there. So neither an older catalog nor one that was made again brings
back what was erased.
"""

import logging

from nats3_dagster.archive.stored.archive_folder import ArchiveFolder
from nats3_dagster.archive.stored.erasure_record import decode_record, encode_record, list_records, record_key
from nats3_dagster.errors import StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def agree(workspace: Workspace, folder: ArchiveFolder) -> None:
    """Let the catalog and a folder have the same records: each learns what the other has. One listing where they agree.
    Raises StoreError; ChunkError for a record that is not as it was written."""
    archive, bucket, erasures = folder.archive, folder.bucket, workspace.catalog.erasures
    known = {row.digest: row for row in erasures.all(archive)}
    there = list_records(bucket, folder.path)
    for digest, key in sorted(there.items(), key=lambda item: item[1]):
        if digest not in known:
            record = decode_record(key, bytes(bucket.get(key)))
            erasures.learn(archive, record, digest)
            log.warning(
                "%s: erasure %d of %s was found beside the chunks, and the catalog did not know it: %d messages",
                archive.name,
                record.number,
                record.decided_at.isoformat(),
                record.messages,
            )
    for digest, row in known.items():
        if digest not in there:
            data, again = encode_record(erasures.record(archive, row))
            if again != digest:
                raise StoreError(
                    f"The record of erasure {row.number} of archive {archive.name} cannot be written as it was",
                    "The catalog was changed by another hand: bring the record back from a copy of the bucket",
                )
            bucket.put_new(record_key(folder.path, row.number, digest), data, digest)
            fault_point("erase.recorded")


def unknown(workspace: Workspace, folder: ArchiveFolder) -> int:
    """Returns the number of records in the folder that the catalog does not have: it is older. Writes nothing. Raises
    StoreError."""
    known = {row.digest for row in workspace.catalog.erasures.all(folder.archive)}
    return len(list_records(folder.bucket, folder.path).keys() - known)


def places(workspace: Workspace, archive: Archive) -> tuple[str, ...]:
    """The buckets that may have messages of the archive: its own first, then its copies, then former ones, and those
    that deleted archives of this folder had."""
    catalog, spec = workspace.catalog, archive.spec
    names = [*spec.buckets, *catalog.erasures.former_copies(archive)]
    for other in catalog.archives.deleted(archive.name):
        if (other.spec.bucket, other.spec.prefix) == (spec.bucket, spec.prefix):
            names += [*other.spec.buckets, *catalog.erasures.former_copies(other)]
    return tuple(dict.fromkeys(names))
