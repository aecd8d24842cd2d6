"""A merge: one chunk has what several had, in order, and takes their place only if the store answers it so."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nats3_dagster.archive.keep import merge as merging
from nats3_dagster.archive.keep.merge import Merged, merge
from nats3_dagster.chunks import ChunkWriter, open_chunk
from nats3_dagster.chunks.rows_digest import RowsDigest
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import Chunk, ChunkMeta, Reason, SeqRange
from nats3_dagster.objects import StoreOptions
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import archive
from nats3_dagster_tests.support.chunks import HOUR, LOGS, START, batch_of

SPEC = archive(prefix="team").spec
Rows = list[tuple[int, int, str, bytes | None, bytes]]


@pytest.fixture
def workspace(file_store: StoreOptions, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("NATS3_STORE_URL", str(file_store.url))
    return Workspace(Settings.load())


def rows_of(seqs: Sequence[int]) -> Rows:
    return [
        (seq, START + seq, f"logs.{seq}", b"NATS/1.0\r\nA: b\r\n\r\n" if seq % 3 else None, b"x" * seq) for seq in seqs
    ]


def chunk(
    workspace: Workspace,
    number: int,
    seqs: Sequence[int],
    covers: tuple[int, int] | None = None,
    reason: Reason = "deleted",
    *,
    config: Any = None,
    subjects: Sequence[str] = (),
) -> Chunk:
    """A chunk in the store, with a message for each of these sequences."""
    writer = ChunkWriter("logs", LOGS, HOUR, "archive", "team", 3, config or {}, subjects)
    writer.write(batch_of(rows_of(seqs)))
    data, meta = writer.finish(SeqRange(*(covers or (seqs[0], seqs[-1]))), reason)
    workspace.bucket("archive").put_new(meta.key, data, meta.sha256)
    return Chunk(number, meta, datetime.now(UTC), None)


def merged(workspace: Workspace, *run: Chunk, put: list[ChunkMeta] | None = None) -> list[Merged]:
    return list(merge(workspace.bucket, SPEC, run, [] if put is None else put))


def rows_in(workspace: Workspace, meta: ChunkMeta) -> list[tuple[Any, ...]]:
    reader = open_chunk(workspace.bucket(meta.bucket).get(meta.key), meta)
    rows = [row for batch in reader.batches() for row in batch.to_pylist()]
    return [tuple(row[name] for name in ("seq", "time_ns", "headers", "data")) for row in rows]


@pytest.mark.parametrize(
    ("filters", "old"),
    [
        # By the settings that each chunk was captured with.
        ("a", []),
        ("aa", [(1, 2)]),
        ("aaaa", [(1, 2, 3, 4)]),
        ("ab", []),
        ("aab", [(1, 2)]),
        ("abb", [(2, 3)]),
        ("aba", []),
        ("aabb", [(1, 2), (3, 4)]),
        ("abba", [(2, 3)]),
    ],
)
@pytest.mark.parametrize("kind", ["config", "subjects"])
def test_what_is_merged(workspace: Workspace, filters: str, old: list[tuple[int, ...]], kind: str) -> None:
    def settings(name: str) -> dict[str, Any]:
        return {"config": {"name": name}} if kind == "config" else {"subjects": (name,)}

    run = [chunk(workspace, n + 1, range(n * 3 + 1, n * 3 + 4), **settings(name)) for n, name in enumerate(filters)]
    put: list[ChunkMeta] = []
    found = merged(workspace, *run, put=put)
    assert [one.old for one in found] == old
    assert [one.meta for one in found] == put
    for one in found:
        first, last = one.old[0] * 3 - 2, one.old[-1] * 3
        assert tuple(one.meta.covers) == (first, last)
        assert rows_in(workspace, one.meta) == [(row[0], row[1], *row[3:]) for row in rows_of(range(first, last + 1))]
    # What is in the store already was put by another call.
    again: list[ChunkMeta] = []
    assert merged(workspace, *run, put=again) == found
    assert again == []


def test_each_merged_chunk_is_proven_by_what_the_store_answers(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, proven = [chunk(workspace, n + 1, [n * 2 + 1, n * 2 + 2]) for n in range(3)], list[Any]()
    monkeypatch.setattr(merging, "_prove", lambda *asked: proven.append(asked))
    (one,) = merged(workspace, *run)
    ((name, old, new, digest, reader),) = proven
    assert (name, old, new) == (SPEC.name, [c.meta for c in run], one.meta)
    assert tuple(reader.meta.covers) == (1, 6)
    assert digest.messages == 6


def test_what_is_absent_keeps_its_reason(workspace: Workspace) -> None:
    whole, lost = chunk(workspace, 1, [1, 2]), chunk(workspace, 2, [4], (3, 6), "expired")
    for run, covers in (((whole, lost), (1, 6)), ((replace(lost, id=1), chunk(workspace, 2, [7])), (3, 7))):
        (one,) = merged(workspace, *run)
        assert (one.meta.absent_reason, tuple(one.meta.covers)) == ("expired", covers)
        assert one.meta.deleted == (SeqRange(3, 3), SeqRange(5, 6))


def test_a_chunk_that_is_not_as_it_was_written_is_not_merged(workspace: Workspace) -> None:
    one, two = chunk(workspace, 1, [1, 2]), chunk(workspace, 2, [3, 4])
    wrong = replace(two, meta=replace(two.meta, sha256="0" * 64))
    put: list[ChunkMeta] = []
    with pytest.raises(ChunkError, match="its hour stays as it is"):
        merged(workspace, one, wrong, put=put)
    assert put == []


Change = Callable[[ChunkMeta], ChunkMeta]
CHANGES: dict[str, Change] = {
    "messages": lambda meta: replace(meta, messages=meta.messages + 1),
    "bytes": lambda meta: replace(meta, payload_bytes=meta.payload_bytes - 1),
    "largest message": lambda meta: replace(meta, largest_bytes=meta.largest_bytes + 1),
    "first time": lambda meta: replace(meta, first_ns=meta.first_ns - 1),
    "last time": lambda meta: replace(meta, last_ns=meta.last_ns + 1),
    "absent sequences": lambda meta: replace(meta, covers=SeqRange(meta.covers.first, meta.covers.last + 1)),
    "reasons": lambda meta: replace(meta, absent_reason="ttl"),
    "ranges of absent sequences": lambda meta: replace(meta, deleted=(SeqRange(1, 1),)),
}


@pytest.mark.parametrize("what", ["", "rows", "metadata", *CHANGES])
def test_a_merge_is_proven(workspace: Workspace, what: str) -> None:
    """One difference is enough, whatever it is in; it is named."""
    chunks = [chunk(workspace, 1, [1, 2], (1, 3), "expired"), chunk(workspace, 2, [4, 6], (4, 6), "expired")]
    (one,) = merged(workspace, *chunks)
    digest, old, new = RowsDigest(), [c.meta for c in chunks], one.meta
    for batch in open_chunk(workspace.bucket("archive").get(new.key), new).batches():
        digest.add(batch)
    if what == "rows":
        digest.add(batch_of(rows_of([7])))
    elif what == "metadata":
        new = replace(new, payload_bytes=new.payload_bytes + 1)
    elif what:
        old = [CHANGES[what](meta) for meta in old]
    reader = open_chunk(workspace.bucket("archive").get(one.meta.key), one.meta)
    if not what:
        merging._prove("logs", old, new, digest, reader)
        return
    with pytest.raises(ChunkError, match=what):
        merging._prove("logs", old, new, digest, reader)
