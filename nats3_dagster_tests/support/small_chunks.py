"""Archives whose sealed hours have many small chunks, without a stream, and what is read of them."""

import pyarrow as pa

from nats3_dagster.archive.keep.compaction import Compacted, compact_hours
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks, verify_seals
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.archive.stored.removal import sweep
from nats3_dagster.chunks.columns import as_wire
from nats3_dagster.model import Archive, Chunk
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.stored import Made, hour_key, store

HOUR = hour_key(7)


def messages(first: int, last: int) -> list[Made]:
    """One for each sequence: of three subjects, every second one with headers."""
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    return [Made(s, f"a.{s % 3}", b"%d" % s, None if s % 2 else header) for s in range(first, last + 1)]


def small(workspace: Workspace, archive: Archive, count: int = 6, *, each: int = 5, first: int = 1) -> None:
    """`count` chunks of `each` messages, in an hour that is sealed."""
    for seq in range(first, first + count * each, each):
        store(workspace, archive, 7, messages(seq, seq + each - 1))
    seal(workspace, archive)


def seal(workspace: Workspace, archive: Archive, *hours: str) -> None:
    list(seal_hours(workspace, archive, hours or [HOUR]))


def compact(workspace: Workspace, archive: Archive, *hours: str) -> Compacted:
    (done,) = compact_hours(workspace, archive, hours or [HOUR])
    return done


def swept(workspace: Workspace) -> int:
    """Remove what is not needed, without a time of grace; how many objects."""
    workspace.settings.delete_grace = 0
    return sweep(workspace).objects


def live(workspace: Workspace, archive: Archive) -> list[Chunk]:
    return list(workspace.catalog.chunks.select(archive, with_deleted=True, with_subjects=True))


def bounds(workspace: Workspace, archive: Archive) -> list[tuple[int, int]]:
    """The first and last sequence of each live chunk."""
    return [(chunk.meta.covers.first, chunk.meta.covers.last) for chunk in live(workspace, archive)]


def rows(workspace: Workspace, archive: Archive) -> pa.Table:
    """All messages of the archive, in order."""
    read = fetch_chunks(workspace.bucket, workspace.catalog.chunks.select(archive), 4)
    return pa.Table.from_batches([as_wire(batch) for _, reader in read for batch in reader.batches()])


def check_whole(workspace: Workspace, archive: Archive) -> None:
    """What is in the store is what the catalog says, and every hour is sealed as it is."""
    assert [one.error for one in verify_chunks(workspace, chunks_to_verify(workspace, archive)) if one.error] == []
    seals = workspace.catalog.seals.select(archive)
    assert [seal.hour for seal in seals if seal.valid] == [*workspace.catalog.hours.revisions(archive)]
    assert [error for _, error in verify_seals(workspace, seals) if error] == []
