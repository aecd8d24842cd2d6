"""The judge of archives: each acknowledged message is in exactly one chunk, or in a gap that is true.

Invariant: no code of the product. The catalog is read by SQL, objects by boto3, Parquet by pyarrow alone, and what a
stream lost is worked out from the truth and the state of the stream.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg
import pyarrow.parquet as pq

from nats3_dagster_tests.soak.truth import Truth, hashes_of

# Bytes of the object of a bucket and a key; raises LookupError for none.
Fetch = Callable[[str, str], bytes]
# First and last sequence, and the reason.
Gap = tuple[int, int, str]
_CHUNKS = """
select lower(c.seqs), upper(c.seqs) - 1, c.messages, c.sha256, c.bucket, c.key, c.absent_reason, c.hour,
       (select coalesce(array_agg(array[lower(r), upper(r) - 1] order by lower(r)), '{}') from unnest(c.deleted) r)
from nats3.chunk c join nats3.archive a on a.id = c.archive_id
where a.name = %s and a.deleted_at is null and c.deleted_at is null order by 1
"""
_GAPS = """
select lower(g.seqs), upper(g.seqs) - 1, g.reason from nats3.gap g join nats3.archive a on a.id = g.archive_id
where a.name = %s and a.deleted_at is null order by 1
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A live chunk, as the catalog has it."""

    first: int
    last: int
    messages: int
    sha256: str
    bucket: str
    key: str
    absent_reason: str | None
    hour: str
    # Ranges of sequences that it covers and has no message of, both ends included.
    absent: list[list[int]]


@dataclass(slots=True)
class Archived:
    """What one archive has."""

    chunks: list[Chunk]
    # Of each message, in the order of the chunks.
    seqs: np.ndarray
    hashes: np.ndarray
    # What is in no chunk, absences inside chunks included.
    gaps: list[Gap]
    broken: list[str] = field(default_factory=list)

    def without(self) -> tuple[np.ndarray, np.ndarray]:
        """The sequences of gaps, and for each the index of its gap."""
        spans = [np.arange(first, last + 1) for first, last, _ in self.gaps]
        which = [np.full(len(span), n) for n, span in enumerate(spans)]
        empty = np.empty(0, np.int64)
        return np.concatenate([empty, *spans]), np.concatenate([empty, *which])


@dataclass(frozen=True, slots=True)
class Limits:
    """What may have removed messages of the stream before they were captured, or of the archive."""

    # The first sequence that the stream has now.
    first_seq: int
    # How many messages of a subject it keeps; 0: all.
    per_subject: int = 0
    # The archive expires hours. `expired_before`: each sequence below it may have gone; 0: none.
    expired_before: int = 0


def read_catalog(connection: "psycopg.Connection[Any]", name: str) -> tuple[list[Chunk], list[Gap]]:
    """The live chunks and the gaps of an archive."""
    chunks = [Chunk(*row) for row in connection.execute(_CHUNKS, (name,))]
    return chunks, [(int(a), int(b), str(reason)) for a, b, reason in connection.execute(_GAPS, (name,))]


def read_archive(name: str, chunks: list[Chunk], gaps: Sequence[Gap], fetch: Fetch) -> Archived:
    """All messages and gaps of an archive. An object that is not what the catalog says is broken."""
    archived = Archived(chunks, np.empty(0, "<i8"), np.empty(0, "<u8"), [*gaps])
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for chunk in chunks:
        archived.gaps += [(a, b, chunk.absent_reason or "none") for a, b in chunk.absent]
        try:
            data = fetch(chunk.bucket, chunk.key)
        except LookupError:
            archived.broken.append(f"{name}: {chunk.messages} messages lost: {chunk.key} is not in the store")
            continue
        if hashlib.sha256(data).hexdigest() != chunk.sha256:
            archived.broken.append(f"{name}: {chunk.key} has other bytes than were committed")
        seqs, hashes = read_chunk(data)
        if len(seqs) != chunk.messages or (np.diff(seqs) <= 0).any():
            archived.broken.append(f"{name}: {chunk.key} has not {chunk.messages} ascending sequences")
        if len(seqs) and (seqs[0] < chunk.first or seqs[-1] > chunk.last):
            archived.broken.append(f"{name}: {chunk.key} has sequences outside of {chunk.first} to {chunk.last}")
        parts.append((seqs, hashes))
    if parts:
        archived.seqs = np.concatenate([seqs for seqs, _ in parts])
        archived.hashes = np.concatenate([hashes for _, hashes in parts])
    return archived


def read_chunk(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The sequences of a Parquet object, and the hash of each message."""
    seqs, hashes = list[np.ndarray](), list[np.ndarray]()
    for batch in pq.ParquetFile(io.BytesIO(data)).iter_batches(columns=["seq", "subject", "data"]):
        seqs.append(batch.column("seq").to_numpy())
        subjects = (subject.encode() for subject in batch.column("subject").to_pylist())
        hashes.append(hashes_of(zip(subjects, batch.column("data").to_pylist(), strict=True)))
    return np.concatenate([np.empty(0, "<i8"), *seqs]), np.concatenate([np.empty(0, "<u8"), *hashes])


def judge_archive(name: str, archived: Archived, truth: Truth, limits: Limits) -> list[str]:
    """A line for each broken promise of an archive."""
    broken = list(archived.broken)
    seqs, counts = np.unique(archived.seqs, return_counts=True)
    if (twice := seqs[counts > 1]).size:
        broken.append(f"{name}: {twice.size} sequences are in several chunks: {_some(twice)}")
    gone, which = archived.without()
    if (both := np.intersect1d(gone, seqs)).size:
        broken.append(f"{name}: {both.size} sequences are in a chunk and in a gap: {_some(both)}")
    if (again := gone.size - np.unique(gone).size) > 0:
        broken.append(f"{name}: {again} sequences are in several gaps")
    acked = truth.acked
    absent = acked["seq"][~np.isin(acked["seq"], seqs) & ~np.isin(acked["seq"], gone)]
    end = max(seqs.max(initial=0), gone.max(initial=0))
    if (lost := absent[absent < end]).size:
        broken.append(f"{name}: {lost.size} acknowledged messages lost: {_some(lost)}")
    if (late := absent[absent > end]).size:
        broken.append(f"{name}: {late.size} acknowledged messages not captured: {_some(late)}")
    order = np.argsort(archived.seqs, kind="stable")
    ours, hashes = archived.seqs[order], archived.hashes[order]
    if acked.size and ours.size:
        at = np.minimum(np.searchsorted(acked["seq"], ours), acked.size - 1)
        known = acked["seq"][at] == ours
        if (changed := ours[known & (acked["hash"][at] != hashes)]).size:
            broken.append(f"{name}: {changed.size} messages changed: {_some(changed)}")
        strange = ~known & ~np.isin(hashes, truth.unknown["hash"])
        if strange.any():
            broken.append(f"{name}: {int(strange.sum())} messages that nobody sent: {_some(ours[strange])}")
        _, times = np.unique(hashes[np.unique(ours, return_index=True)[1]], return_counts=True)
        if (doubled := int((times > 1).sum())) > 0:
            broken.append(f"{name}: {doubled} messages are there under two sequences")
    return broken + _judge_gaps(name, archived.gaps, gone, which, truth, limits)


def _judge_gaps(
    name: str,
    gaps: Sequence[Gap],
    gone: np.ndarray,
    which: np.ndarray,
    truth: Truth,
    limits: Limits,
) -> list[str]:
    """Whether the acknowledged messages in gaps are gone for the reason that is said."""
    acked = truth.acked
    chosen = np.isin(gone, acked["seq"])
    seqs, reasons = gone[chosen], np.array([reason for _, _, reason in gaps] or [""])[which[chosen]]
    true = (reasons == "expired_by_policy") & (seqs < limits.expired_before)
    true |= (reasons == "expired") & (seqs < limits.first_seq)
    if limits.per_subject:
        true |= (reasons == "superseded") & (_later(truth, seqs) >= limits.per_subject)
    if (false := seqs[~true]).size:
        said = ", ".join(sorted(set(reasons[~true].tolist())))
        return [f"{name}: {false.size} acknowledged messages are in a gap that is not true ({said}): {_some(false)}"]
    return []


def _later(truth: Truth, seqs: np.ndarray) -> np.ndarray:
    """How many messages of its subject came after each of these at most: those that are unknown may all have."""
    acked = truth.acked
    order = np.lexsort((acked["seq"], acked["subject"]))
    subjects = acked["subject"][order]
    ends = np.searchsorted(subjects, subjects, side="right")
    later = np.empty(acked.size, np.int64)
    later[order] = ends - np.arange(acked.size) - 1
    at = np.searchsorted(acked["seq"], seqs)
    unknown = np.bincount(truth.unknown["subject"], minlength=int(acked["subject"].max(initial=0)) + 1)
    return later[at] + unknown[acked["subject"][at]]


def _some(seqs: np.ndarray) -> str:
    return ", ".join(map(str, seqs[:4].tolist())) + (" ..." if seqs.size > 4 else "")
