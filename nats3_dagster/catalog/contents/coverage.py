"""Coverage: which sequences of a stream's incarnation an archive accounts for, and which are missing.

Postgres keeps what is covered, in the transaction that adds or retires a chunk or a gap. Nothing here reads a chunk, so
an archive of a million chunks answers in a millisecond.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from nats3_dagster.catalog.rows import CoverageRow, StreamRow
from nats3_dagster.catalog.session.multirange import from_multirange
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError
from nats3_dagster.model import Archive, Coverage, CoverageNow, Incarnation, SeqRange, StreamState, Witness
from nats3_dagster.model.stream import removing_settings
from nats3_dagster.steps import Next


@dataclass(slots=True, kw_only=True)
class CoverageNowRow(CoverageRow):
    """A row of nats3.coverage_view, and what of the incarnation is missing."""

    witness_seq: int | None
    witness_ns: int | None
    # As CoverageNow.missing, the text of an int8multirange; None for another incarnation than the stream's.
    missing: str | None


class Coverages:
    """Observe streams; ask what is covered."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def observe(self, archive: Archive, state: StreamState) -> None:
        """Record the stream's state. The archive's first incarnation begins here, with the oldest message that the
        stream has; another one only by `begin`."""
        with self._session.transaction() as sql:
            incarnation = self._record_state(sql, state)
            if not sql.value(bool, "has_coverage", archive=archive.id):
                self._begin(sql, archive, state, incarnation)

    def observe_all(self, states: Sequence[StreamState]) -> None:
        """Record the states of streams whose incarnations are known, in one statement; the others are left out. Of one
        that is read from a buffer its own."""
        if not states:
            return
        states = [state.own for state in states]
        with self._session.transaction() as sql:
            sql.run(
                "observe_streams",
                streams=[state.name for state in states],
                created=[state.incarnation.created_ns for state in states],
                configs=[json.dumps(storable(state.config)) for state in states],
                removing=[json.dumps(removing_settings(state.config)) for state in states],
                firsts=[state.first_seq for state in states],
                lasts=[state.last_seq for state in states],
                first_times=[state.first_ns for state in states],
                last_times=[state.last_ns for state in states],
                messages=[state.messages for state in states],
                bytes=[state.bytes for state in states],
            )

    def begin(self, archive: Archive, state: StreamState, start: int = 1) -> None:
        """Record the stream's state and archive this incarnation as well. One made after an earlier one of this archive
        is expected from its first sequence on, or from `start` on if that is later: what expired before it was seen is
        a loss."""
        with self._session.transaction() as sql:
            self._begin(sql, archive, state, self._record_state(sql, state), start)

    def extend_back(self, archive: Archive, incarnation: Incarnation, start: int) -> None:
        """Let the archive begin with this sequence, unless it begins before it."""
        with self._session.transaction() as sql:
            sql.run("extend_back", archive=archive.id, start=start, **_named(incarnation))

    def continue_restored(self, archive: Archive, coverage: Coverage, created_ns: int) -> bool:
        """Let the stream of this `created` time continue an incarnation. False, and nothing changes, if the archive
        has changed since `coverage` was read: then what was compared may not be its end."""
        with self._session.transaction() as sql:
            if sql.value_or_none(int, "lock_archive", archive=archive.id) is None:
                return False
            return bool(
                sql.values(
                    int,
                    "continue_restored",
                    archive=archive.id,
                    restored_ns=created_ns,
                    last_seq=coverage.last,
                    messages=coverage.messages,
                    **_named(coverage.incarnation),
                )
            )

    def record_unknown_end(self, archive: Archive, incarnation: Incarnation, last: int) -> None:
        """Record that the stream was removed, and may have had messages after this sequence that no process saw."""
        with self._session.transaction() as sql:
            sql.run("record_unknown_end", archive=archive.id, last=last, **_named(incarnation))

    def incarnations(self, archive: Archive) -> tuple[Incarnation, ...]:
        """Returns the incarnations that the archive has coverage of, oldest first."""
        return tuple(c.incarnation for c in self.all(archive))

    def all(self, archive: Archive) -> tuple[Coverage, ...]:
        """One for each incarnation of the archive, oldest first. Reads no chunk."""
        with self._session.reading() as sql:
            return tuple(row.coverage() for row in sql.rows(CoverageRow, "coverages", archive=archive.id))

    def now(self, states: Sequence[tuple[Archive, StreamState]]) -> dict[int, CoverageNow]:
        """Returns the contents of each archive, by its id, compared with the state of its stream: all in one statement.
        Raises CatalogError when an archive has begun no incarnation."""
        with self._session.reading() as sql:
            rows = sql.rows(
                CoverageNowRow,
                "coverages_now",
                archives=[archive.id for archive, _ in states],
                streams=[state.name for _, state in states],
                created=[state.incarnation.created_ns for _, state in states],
                lasts=[state.last_seq for _, state in states],
            )
        of_archive: dict[int, list[CoverageNowRow]] = {}
        for row in rows:
            of_archive.setdefault(row.archive_id, []).append(row)
        return {a.id: _now(of_archive.get(a.id) or _unknown(a, state.incarnation)) for a, state in states}

    def of(self, archive: Archive, incarnation: Incarnation) -> Coverage:
        """Raises CatalogError when the archive has not begun this incarnation."""
        with self._session.reading() as sql:
            row = sql.row(CoverageRow, "coverage_of", archive=archive.id, **_named(incarnation))
        return _unknown(archive, incarnation) if row is None else row.coverage()

    def start(self, archive: Archive, incarnation: Incarnation) -> int:
        """The first sequence that the archive accounts for."""
        return self.of(archive, incarnation).start

    def covered(self, archive: Archive, incarnation: Incarnation, within: SeqRange) -> tuple[SeqRange, ...]:
        """The sequences of `within` that are in a chunk or a gap, ascending, joined where they touch."""
        with self._session.reading() as sql:
            return _ranges(sql, "covered", archive, incarnation, within)

    def missing(self, archive: Archive, incarnation: Incarnation, within: SeqRange) -> tuple[SeqRange, ...]:
        """The sequences of `within` from the archive's start on that are in no chunk and no gap, ascending."""
        with self._session.reading() as sql:
            return _ranges(sql, "missing", archive, incarnation, within)

    def witness(self, archive: Archive, incarnation: Incarnation) -> Witness | None:
        """Returns the newest captured message whose store time is known; None if there is none."""
        with self._session.reading() as sql:
            return sql.row(Witness, "witness", archive=archive.id, **_named(incarnation))

    def record_witness(self, archive: Archive, incarnation: Incarnation, witness: Witness) -> None:
        """Record it, unless a newer one is known."""
        with self._session.transaction() as sql:
            sql.run(
                "record_witness", archive=archive.id, seq=witness.seq, time_ns=witness.time_ns, **_named(incarnation)
            )

    def last_state(self, incarnation: Incarnation) -> StreamState | None:
        """The stream's state when it was last observed; None when it never was."""
        with self._session.reading() as sql:
            row = sql.row(StreamRow, "stream_state", **_named(incarnation))
        return row.state() if row else None

    def removing_settings(self, incarnation: Incarnation) -> dict[str, Any]:
        """Returns all settings that were ever observed and that let the stream remove messages, as in its
        configuration."""
        with self._session.reading() as sql:
            row = sql.row(StreamRow, "stream_state", **_named(incarnation))
        return row.removing if row else {}

    def _record_state(self, sql: Statements, state: StreamState) -> int:
        """Records the stream's own state. Archives of one stream share it, whether they have a buffer or not."""
        state = state.own
        return sql.value(
            int,
            "observe_stream",
            **_named(state.incarnation),
            config=json.dumps(storable(state.config)),
            removing=json.dumps(removing_settings(state.config)),
            first_seq=state.first_seq,
            last_seq=state.last_seq,
            first_ns=state.first_ns,
            last_ns=state.last_ns,
            messages=state.messages,
            bytes=state.bytes,
        )

    def _begin(self, sql: Statements, archive: Archive, state: StreamState, incarnation: int, start: int = 1) -> None:
        sql.run(
            "begin_coverage",
            archive=archive.id,
            incarnation=incarnation,
            created_ns=state.incarnation.created_ns,
            # A stream that never had a message reports 0, and one may be made to begin above 1.
            first_seq=max(state.first_seq, 1),
            born_at=max(int(state.config.get("first_seq") or 1), start),
        )


def _now(rows: Sequence[CoverageNowRow]) -> CoverageNow:
    witness, missing = None, None
    for row in rows:
        if row.missing is not None:
            missing = from_multirange(row.missing)
            if row.witness_seq is not None and row.witness_ns is not None:
                witness = Witness(row.witness_seq, row.witness_ns)
    return CoverageNow(tuple(row.coverage() for row in rows), witness, missing)


def _ranges(
    sql: Statements, statement: str, archive: Archive, incarnation: Incarnation, within: SeqRange
) -> tuple[SeqRange, ...]:
    """Returns the multirange that a statement finds within these sequences."""
    text = sql.value_or_none(
        str, statement, archive=archive.id, **_named(incarnation), first=within.first, last=within.last
    )
    return _unknown(archive, incarnation) if text is None else from_multirange(text)


def _named(incarnation: Incarnation) -> dict[str, Any]:
    return {"stream": incarnation.stream, "created_ns": incarnation.created_ns}


def _unknown(archive: Archive, incarnation: Incarnation) -> NoReturn:
    raise CatalogError(
        f"Archive {archive.name} does not archive the {incarnation.stream} of {incarnation.token}",
        Next.ADOPT_INCARNATION(archive=archive.name),
    )


def storable(value: Any) -> Any:
    """The configuration without NUL, which a stream's description may hold and Postgres' jsonb may not. Chunks have it
    as it is."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, Mapping):
        items = cast(Mapping[str, Any], value).items()
        return {storable(key): storable(item) for key, item in items}
    return [storable(item) for item in cast(list[Any], value)] if isinstance(value, list) else value
