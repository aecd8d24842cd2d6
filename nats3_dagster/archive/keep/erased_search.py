"""The search for erased messages in the objects of an archive: every object of its folder, listed or not, with all
versions, in each bucket that has or had them. And the removal of what is found.

Invariant: a search that could not look somewhere is an error, never an answer of nothing. An object goes only if each
other message of it is in a live chunk, or was removed as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from nats3_dagster.archive.proof.unlisted import missing_of
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.chunks.naming import may_be_chunk, parse_key
from nats3_dagster.errors import ChunkError, Nats3Error, ObjectMissing, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, SeqRange
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.model.erasure import ErasedSequences, Trace
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.objects import ObjectVersion, delete_version, get_version, list_versions, locked_until
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

# How long another process may copy into a bucket.
PATIENCE_S = 60.0
# Objects whose rows are asked for at once.
_PAGE = 1000
_UNREADABLE = "it cannot be read, and by its name it may have them"
_FOREIGN = "it has not the name of a chunk: another program put it there"
_SOFT_DELETED = "soft delete of the bucket keeps it"


def search(workspace: Workspace, archive: Archive, bucket: str, erased: ErasedSequences) -> Iterator[Trace]:
    """The objects of the archive's folder in a bucket, and their versions, that have an erased message, or cannot be
    read and may have one. Lists the whole folder. A chunk that the catalog lists, of the size that it lists, is opened
    where its name says that it may have one; every other object is opened, whatever its name is. Raises StoreError."""
    store, sequences = workspace.settings.store, {of: _Sequences(ranges) for of, ranges in erased.items()}
    buckets = {bucket, archive.spec.bucket}
    versions = filter(_may_be_chunk, list_versions(store, bucket, archive_prefix(archive.spec.prefix, archive.name)))
    while page := list(islice(versions, _PAGE)):
        names = {one.key: parse_key(one.key) for one in page}
        listed = workspace.catalog.chunks.stored_sizes(buckets, [key for key, name in names.items() if name])
        for one in page:
            name = names[one.key]
            may_have = name and name.created_ns in sequences and sequences[name.created_ns].touch(name.covers)
            if not may_have and one.size == listed.get(one.key):
                continue
            trace = Trace(bucket, one.key, one.version_id or "")
            if one.is_soft_deleted:
                # It cannot be read: a chunk is known by its name, and anything else may have been one.
                if may_have or name is None:
                    yield replace(trace, why=_soft_deleted(workspace, trace))
                continue
            try:
                reader = open_chunk(get_version(store, bucket, one.key, one.version_id))
                own = sequences.get(reader.meta.incarnation.created_ns)
                if own and own.count(reader):
                    yield trace if name else replace(trace, why=_FOREIGN, by_hand=True)
            except ObjectMissing:
                pass  # removed since it was listed
            except ChunkError:
                if may_have:
                    yield replace(trace, why=_UNREADABLE, by_hand=True)


def _may_be_chunk(one: ObjectVersion) -> bool:
    """False for delete markers and documents, which have no message."""
    return not one.is_delete_marker and may_be_chunk(one.key, one.size)


def count_in(reader: ChunkReader, ranges: Sequence[SeqRange]) -> int:
    """Returns the number of messages of these sequences, which ascend, in an object. Raises ChunkError."""
    return _Sequences(ranges).count(reader)


class _Sequences:
    """The erased sequences of an incarnation. There may be a question for each of a million objects."""

    def __init__(self, ranges: Sequence[SeqRange]) -> None:
        self._firsts = np.array([part.first for part in ranges], np.int64)
        self._lasts = np.array([part.last for part in ranges], np.int64)

    def touch(self, covers: SeqRange) -> bool:
        """True if one of them lies in `covers`."""
        at = int(np.searchsorted(self._lasts, covers.first))
        return at < len(self._lasts) and int(self._firsts[at]) <= covers.last

    def count(self, reader: ChunkReader) -> int:
        """Returns the number of messages of them in an object. Raises ChunkError."""
        found = 0
        for batch in reader.batches(["seq"]) if self.touch(reader.meta.covers) else ():
            seqs: Int64s = batch.column("seq").to_numpy()
            at = np.searchsorted(self._lasts, seqs)
            inside = at < len(self._lasts)
            found += int((self._firsts[at[inside]] <= seqs[inside]).sum())
        return found


def step_of(archive: Archive, traces: Sequence[Trace]) -> Step:
    """The next step for what a search found, or what stays."""
    trace = next((one for one in traces if one.by_hand), None)
    if trace is None:
        return Next.FINISH_ERASURES(archive=archive.name)
    return Next.REMOVE_BY_HAND(archive=archive.name, key=trace.key, bucket=trace.bucket)


def remove(workspace: Workspace, archive: Archive, traces: Sequence[Trace]) -> tuple[int, list[Trace]]:
    """Remove what a search found in one bucket. Returns the number of objects of the archive's own bucket that went,
    and what stays, with the reason. Raises CatalogError, and StoreError where the bucket does not answer."""
    removed, stay = 0, [trace for trace in traces if trace.why.startswith(_SOFT_DELETED)]
    traces = [trace for trace in traces if not trace.why.startswith(_SOFT_DELETED)]
    for key in dict.fromkeys(trace.key for trace in traces):
        versions = [trace for trace in traces if trace.key == key]
        if why := _needed(workspace, archive, versions[0]):
            stay += [replace(trace, why=trace.why or why) for trace in versions]
            continue
        try:
            removed += _remove_object(workspace, archive, versions[0].bucket, key)
            fault_point("erase.removed")
        except StoreError as error:
            stay += [replace(trace, why=error.what) for trace in versions]
            continue
        for trace in versions if versions[0].version else ():
            try:
                delete_version(workspace.settings.store, trace.bucket, key, trace.version)
            except StoreError as error:
                stay.append(replace(trace, why=_kept_by(workspace, trace, error)))
    return removed, stay


def _kept_by(workspace: Workspace, trace: Trace, error: StoreError) -> str:
    """Returns the reason why the store keeps a version, and until when if it says so."""
    store = workspace.settings.store
    until = locked_until(store, trace.bucket, trace.key, trace.version)
    keeper = "Object Lock" if store.of(trace.bucket).cloud is None else "a policy of the bucket"
    return f"{keeper} keeps it until {until.isoformat()}" if until else error.what


def _soft_deleted(workspace: Workspace, trace: Trace) -> str:
    """Returns the reason why soft delete keeps a version, and until when if the cloud says so."""
    until = locked_until(workspace.settings.store, trace.bucket, trace.key, trace.version)
    return f"{_SOFT_DELETED}{f' until {until.isoformat()}' if until else ', and it cannot be read'}"


def _needed(workspace: Workspace, archive: Archive, trace: Trace) -> str:
    """Returns the reason why an object with erased messages may not go yet; empty if it may."""
    bucket, key = trace.bucket, trace.key
    if trace.why:
        return trace.why
    if workspace.catalog.chunks.by_key(archive.spec.bucket, key):
        return "its chunk could not be written without them yet"
    try:
        reader = open_chunk(get_version(workspace.settings.store, bucket, key, trace.version or None))
        missing = missing_of(workspace, archive, reader)
    except ObjectMissing:
        return ""
    except Nats3Error as error:
        return error.what
    if missing:
        return f"the archive misses {missing:,} other messages of it, until it adopts them"
    return ""


def _remove_object(workspace: Workspace, archive: Archive, bucket: str, key: str) -> int:
    """1 if an object of the archive's own bucket went. In a copy no other process puts it again meanwhile."""
    if bucket == archive.spec.bucket:
        return remove_objects(workspace, bucket, [key]) if workspace.bucket(bucket).exists(key) else 0
    with workspace.catalog.locks.copying(bucket, PATIENCE_S):
        folder.check_removable(workspace, bucket, [key])
        workspace.bucket(bucket).delete(key)
    return 0
