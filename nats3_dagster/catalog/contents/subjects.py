"""Subjects: which live chunks of an archive have a subject, or may have it, without reading any object.

Invariant: a chunk that has a message of the subject is always among the answers. Subjects are compared by their bytes:
as `str` they are what `subjects.decoded` gives, and the stored text has the bytes of one that is not UTF-8. Sequences
`since` and `upto` are compared with the first sequence that a chunk covers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nats3_dagster.catalog.rows import SubjectsRow
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.model import Archive, Incarnation
from nats3_dagster.subjects import decoded, encoded, readable

# After every key of a subject that begins like the text before it: a key has 256 bytes of the subject at most.
_LAST = "\U0010ffff" * 65
_KEY_CHARS = 64


class ChunkPlace(NamedTuple):
    """A chunk by where it is in its incarnation."""

    # The first sequence that it covers.
    first_seq: int
    chunk_id: int
    # How many messages of the subject it has; None where they are not counted.
    messages: int | None = None


class Probe(NamedTuple):
    """The place of a subject in the bloom filter of a chunk (chunks.bloom)."""

    place: int
    bits: list[int]


class _SubjectPlaceRow(NamedTuple):
    # As it is stored; empty where the chunk is one for all subjects.
    subject: str
    first_seq: int
    chunk_id: int
    messages: int | None


class NearRow(NamedTuple):
    """A chunk with its subjects."""

    first_seq: int
    chunk_id: int
    # None where they are not counted.
    subjects: list[str] | None


class SubjectIndex(NamedTuple):
    """The index of a chunk for lookups by subject."""

    # None where its subjects are counted, or no filter was made.
    bloom: bytes | None
    # How many subjects it has; None where they were not counted.
    counted: int | None
    # How many subjects are listed, with the chunk's archive, incarnation and first sequence.
    listed: int


class Subjects:
    """Lookups by subject. All of them but one are about one incarnation of an archive."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin_of(self, archive: Archive, incarnation: Incarnation, seq: int) -> int:
        """Returns the first sequence of the live chunk that covers this sequence; the sequence itself if there is
        none."""
        with self._session.reading() as sql:
            values = _named(archive, incarnation)
            return sql.value_or_none(int, "chunk_at", seq=seq, **values) or seq

    def last_seq_by(self, archive: Archive, incarnation: Incarnation, at_ns: int) -> int | None:
        """Returns a sequence: no message that was stored at this time or before has a later one. None if there is
        none."""
        with self._session.reading() as sql:
            values = _named(archive, incarnation)
            row = sql.row(_LastRow, "last_seq_by", at_ns=at_ns, **values)
        return row.seq if row else None

    def like(self, archive: Archive, incarnation: Incarnation, prefix: str) -> dict[str, ChunkPlace]:
        """The distinct counted subjects that begin with `prefix` (and some that do not, if it is long), each with its
        newest chunk. It takes about 10 microseconds for each, with any number of chunks."""
        low = prefix[:_KEY_CHARS]
        return self._places("subjects_between", archive, incarnation, low=low, high=low + _LAST)

    def newest(
        self, archive: Archive, incarnation: Incarnation, upto: Mapping[str, int], at_ns: int | None = None
    ) -> dict[str, ChunkPlace]:
        """The newest chunk that counts each subject and begins at `upto` of it or before; a subject without one is left
        out. `at_ns`: only chunks with a message of this time or before."""
        return self._places(
            "newest_counted",
            archive,
            incarnation,
            subjects=[*map(to_stored, upto)],
            upto=list(upto.values()),
            at_ns=at_ns,
        )

    def next(
        self, archive: Archive, incarnation: Incarnation, subjects: Sequence[str], since: int
    ) -> dict[str, ChunkPlace]:
        """Returns the first chunk that counts each subject and begins at `since` or after it."""
        stored = [*map(to_stored, subjects)]
        return self._places("next_counted", archive, incarnation, subjects=stored, since=since)

    def newest_uncounted(
        self, archive: Archive, incarnation: Incarnation, upto: int, probe: Probe | None, at_ns: int | None = None
    ) -> ChunkPlace | None:
        """The newest chunk without counts that begins at `upto` or before and may have the subject; any subject,
        without a probe."""
        place, bits = probe or (None, None)
        found = self._places("newest_uncounted", archive, incarnation, upto=upto, at_ns=at_ns, place=place, bits=bits)
        return found.get("")

    def next_uncounted(
        self, archive: Archive, incarnation: Incarnation, since: int, probe: Probe | None
    ) -> ChunkPlace | None:
        """Returns the first chunk without counts that begins at `since` or after it and may have the subject; any
        subject, without a probe."""
        place, bits = probe or (None, None)
        return self._places("next_uncounted", archive, incarnation, since=since, place=place, bits=bits).get("")

    def counts_from(
        self, archive: Archive, incarnation: Incarnation, prefix: str, since: int
    ) -> tuple[dict[str, int], int]:
        """The messages of each counted subject that begins with `prefix` (and some that do not, if it is long) in the
        chunks that begin at `since` or after it; and all messages of the chunks there without counts."""
        low = prefix[:_KEY_CHARS]
        values = _named(archive, incarnation)
        with self._session.reading() as sql:
            rows = sql.rows(_CountRow, "counts_from", low=low, high=low + _LAST, since=since, **values)
            uncounted = sql.value(int, "uncounted_from", since=since, **values)
        return {from_stored(row.subject): row.messages for row in rows}, uncounted

    def without(self, chunk_ids: Sequence[int], probes: Sequence[Probe]) -> set[int]:
        """Returns the chunks without counts that have none of these subjects, by their bloom filters."""
        with self._session.reading() as sql:
            places = [p.place for p in probes]
            bits = ["{" + ",".join(map(str, p.bits)) + "}" for p in probes]
            return set(sql.values(int, "without_subjects", chunks=list(chunk_ids), places=places, bits=bits))

    def near(self, archive: Archive, incarnation: Incarnation, since: int, limit: int) -> list[NearRow]:
        """Returns the first chunks that begin at `since` or after it, with their subjects."""
        with self._session.reading() as sql:
            values = _named(archive, incarnation)
            return _near(sql.rows(NearRow, "near_chunks", since=since, limit_to=limit, **values))

    def near_back(
        self, archive: Archive, incarnation: Incarnation, upto: int, at_ns: int | None, limit: int
    ) -> list[NearRow]:
        """The newest chunks that begin at `upto` or before, with their subjects. `at_ns`: see `newest`."""
        with self._session.reading() as sql:
            values = _named(archive, incarnation)
            return _near(sql.rows(NearRow, "near_chunks_back", upto=upto, at_ns=at_ns, limit_to=limit, **values))

    def index_of(self, chunk_id: int) -> SubjectIndex | None:
        """Returns the index of a live chunk; None when there is none."""
        with self._session.reading() as sql:
            return sql.row(SubjectIndex, "subject_index_of", chunk=chunk_id)

    def _places(
        self, statement: str, archive: Archive, incarnation: Incarnation, **values: object
    ) -> dict[str, ChunkPlace]:
        with self._session.reading() as sql:
            rows = sql.rows(_SubjectPlaceRow, statement, **_named(archive, incarnation), **values)
        return {from_stored(row.subject): ChunkPlace(row.first_seq, row.chunk_id, row.messages) for row in rows}


class _CountRow(NamedTuple):
    # As it is stored.
    subject: str
    messages: int


class _LastRow(NamedTuple):
    # Null where no hour has a message of that time.
    seq: int | None


def counts_of(sql: Statements, chunk_ids: Sequence[int], known: dict[str, str]) -> dict[int, dict[str, int]]:
    """The messages of each of these chunks by subject; a chunk whose subjects are not counted is left out. `known`:
    subjects as stored, and decoded; those of these chunks are added."""
    rows = sql.rows(SubjectsRow, "subjects_of", chunks=[*chunk_ids])
    return {
        row.chunk_id: {
            known.get(text) or known.setdefault(text, from_stored(text)): count
            for text, count in zip(row.subjects, row.messages, strict=True)
        }
        for row in rows
    }


def to_stored(subject: str) -> str:
    """The text that the catalog has for a subject: itself; or where it is not UTF-8 its readable text, a space, and its
    bytes in hexadecimal digits, so that no two subjects have one text. A subject has no space on the wire."""
    text = readable(subject)
    return subject if text == subject and " " not in subject else f"{text} {encoded(subject).hex()}"


def from_stored(text: str) -> str:
    """The subject of a stored text."""
    _, space, digits = text.rpartition(" ")
    return decoded(bytes.fromhex(digits)) if space else text


def _near(rows: list[NearRow]) -> list[NearRow]:
    return [row._replace(subjects=row.subjects and [*map(from_stored, row.subjects)]) for row in rows]


def _named(archive: Archive, incarnation: Incarnation) -> dict[str, Any]:
    return {"archive": archive.id, "stream": incarnation.stream, "created_ns": incarnation.created_ns}
