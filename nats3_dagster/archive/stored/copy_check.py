"""Check of copies: each object of a copy is read again, and put again where it is not as it was written.

Invariant: an object is put only after its bytes were read from the first bucket and have the hash that the catalog has,
so that no check makes a copy worse.
"""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from nats3_dagster.archive.stored.copies import AT_ONCE, PAGE, PATIENCE_S, as_written
from nats3_dagster.errors import ChunkError, ObjectMissing, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class CheckedCopy:
    """The objects of one copy that a check read, and those that it mended."""

    # The copy's bucket.
    bucket: str
    # Objects that should be there.
    objects: int
    # Those of them that were missing or damaged, and were put again.
    mended: int


@dataclass(frozen=True, slots=True)
class _Object:
    """An object of the first bucket: its key, and its SHA-256 in hex."""

    key: str
    sha256: str


def check_copies(workspace: Workspace, archive: Archive) -> tuple[CheckedCopy, ...]:
    """Read each object that the copies should have: live chunks, manifests of valid seals, consumers. What waits to be
    copied is left to `copies.copy`. Raises the first ChunkError at the end, for an object that the first bucket does
    not have as it was written either; StoreError if a bucket does not answer."""
    return tuple(_check(workspace, archive, name) for name in archive.spec.copies)


def _check(workspace: Workspace, archive: Archive, bucket_name: str) -> CheckedCopy:
    count = mended = 0
    failure: StoreError | None = None
    every = _objects(workspace, archive)
    with ThreadPoolExecutor(AT_ONCE, "nats3-copy") as pool:
        while page := [*islice(every, PAGE)]:
            count += len(page)
            right = pool.map(partial(_is_right, workspace, bucket_name), page)
            for wrong in [one for one, is_right in zip(page, right, strict=True) if not is_right]:
                try:
                    mended += _mend(workspace, archive, bucket_name, wrong)
                except (ChunkError, ObjectMissing) as error:
                    failure = failure or error
    if failure:
        raise failure
    return CheckedCopy(bucket_name, count, mended)


def _objects(workspace: Workspace, archive: Archive) -> Iterator[_Object]:
    """Yields the objects of the first bucket that copies should have, chunks page by page."""
    for chunks in workspace.catalog.chunks.pages(archive, PAGE, with_minutes=False):
        for meta in (chunk.meta for chunk in chunks):
            if meta.bucket == archive.spec.bucket:
                yield _Object(meta.key, meta.sha256)
    yield from _documents(workspace, archive)


def _documents(workspace: Workspace, archive: Archive) -> list[_Object]:
    """The manifests of valid seals, and what is kept of consumers."""
    valid = [one for one in workspace.catalog.seals.select(archive) if one.valid]
    rows = (*valid, *workspace.catalog.consumers.all(archive))
    return [_Object(one.key, one.sha256) for one in rows if one.bucket == archive.spec.bucket]


def _is_right(workspace: Workspace, bucket_name: str, wanted: _Object) -> bool:
    try:
        return hashlib.sha256(workspace.bucket(bucket_name).get(wanted.key)).hexdigest() == wanted.sha256
    except ObjectMissing:
        return False


def _mend(workspace: Workspace, archive: Archive, bucket_name: str, wanted: _Object) -> bool:
    """Puts the object again; False if by now it should not be there, or still waits to be copied."""
    copies, source = workspace.catalog.copies, archive.spec.bucket
    # No other process removes it from the copy meanwhile.
    with workspace.catalog.locks.copying(bucket_name, PATIENCE_S):
        is_chunk = workspace.catalog.chunks.by_key(source, wanted.key) is not None
        if not is_chunk and wanted not in _documents(workspace, archive):
            return False
        if copies.waits(bucket_name, wanted.key):
            return False
        data = as_written(workspace, source, wanted.key, wanted.sha256, f"nor is it in the copy {bucket_name!r}")
        workspace.bucket(bucket_name).put_again(wanted.key, data, wanted.sha256)
        fault_point("copy.put_again")
        return True
