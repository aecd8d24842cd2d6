"""Compaction: a sealed hour has fewer chunks afterwards, and nothing else of it is another."""

import pyarrow as pa
import pytest

from nats3_dagster.archive.keep.compaction import compact_hours, plan, sealed_hours
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks, verify_seals
from nats3_dagster.archive.status import contents
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.chunks.columns import as_wire
from nats3_dagster.model import Archive, Chunk
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.stored import Made, hour_key, made, store

HOUR = hour_key(7)


@pytest.fixture
def logs(workspace: Workspace, bucket: str) -> Archive:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    return archive


def rows(workspace: Workspace, archive: Archive) -> pa.Table:
    """All messages of the archive, in order."""
    chunks = workspace.catalog.chunks.select(archive)
    read = fetch_chunks(workspace.bucket, chunks, 4)
    return pa.Table.from_batches([as_wire(batch) for _, reader in read for batch in reader.batches()])


def small(workspace: Workspace, archive: Archive, count: int = 6, each: int = 5, hour: int = 7) -> None:
    """`count` chunks of `each` messages, the hour sealed."""
    for n in range(count):
        seqs = range(n * each + 1, (n + 1) * each + 1)
        store(workspace, archive, hour, [Made(s, f"a.{s % 3}", b"%d" % s, None if s % 2 else b"H") for s in seqs])
    list(seal_hours(workspace, archive, [hour_key(hour)]))


def live(workspace: Workspace, archive: Archive) -> list[Chunk]:
    return list(workspace.catalog.chunks.select(archive, with_deleted=True, with_subjects=True))


def check_whole(workspace: Workspace, archive: Archive) -> None:
    """What is in the store is what the catalog says, and every sum of the catalog adds up."""
    assert [v.error for v in verify_chunks(workspace, chunks_to_verify(workspace, archive)) if v.error] == []
    seals = workspace.catalog.seals.select(archive)
    assert all(seal.valid for seal in seals)
    assert [error for _, error in verify_seals(workspace, seals) if error] == []


def test_an_hour_of_small_chunks_becomes_one(workspace: Workspace, logs: Archive) -> None:
    small(workspace, logs)
    before, version = rows(workspace, logs), contents(workspace, logs, [HOUR])[HOUR]
    old = live(workspace, logs)
    assert sealed_hours(workspace, logs) == (HOUR,)
    assert (plan(workspace, logs, HOUR).chunks, plan(workspace, logs, HOUR).after) == (6, 1)
    (done,) = compact_hours(workspace, logs, [HOUR])
    assert (done.before, done.after, done.messages) == (6, 1, 30)
    (new,) = live(workspace, logs)
    assert rows(workspace, logs).equals(before)
    assert (new.meta.covers.first, new.meta.covers.last, new.meta.messages) == (1, 30, 30)
    assert new.meta.subjects == {"a.0": 10, "a.1": 10, "a.2": 10}
    assert new.meta.payload_bytes == sum(c.meta.payload_bytes for c in old)
    assert contents(workspace, logs, [HOUR])[HOUR] == version
    (seal,) = workspace.catalog.seals.select(logs)
    assert (seal.valid, seal.number, seal.content, seal.chunks) == (True, 2, version, 1)
    check_whole(workspace, logs)
    # Nothing is left to do, and the catalog knows.
    assert sealed_hours(workspace, logs) == ()
    (again,) = compact_hours(workspace, logs, [HOUR])
    assert (again.before, again.after) == (1, 1)
