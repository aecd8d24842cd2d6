"""Rebuilds: rows of an archive that is made again from its bucket.

Invariant: everything goes through the triggers that prove a capture: what does not add up is refused here too.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from nats3_dagster.catalog.archives.archives import insert_archive
from nats3_dagster.catalog.archives.history import note
from nats3_dagster.catalog.contents.coverage import storable
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import broken_rule
from nats3_dagster.model import Archive, ArchiveSpec, FormerFilter, Incarnation, PlacedGap, ReplayPreset, Seal
from nats3_dagster.model.stream import removing_settings

# The revision of a seal after which its hour changed.
NOT_VALID = -1


class Rebuilds:
    """Add an archive, its incarnations, gaps and seals as objects of the bucket say they were."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @contextmanager
    def transaction(self) -> Generator[None]:
        """All that this thread writes to the catalog inside is committed at its end, or nothing is."""
        with self._session.transaction():
            yield

    def create(
        self,
        spec: ArchiveSpec,
        job_id: UUID,
        *,
        job_name: str | None,
        paused: bool,
        created_at: datetime | None,
        former_filters: Sequence[FormerFilter],
        presets: Sequence[ReplayPreset],
    ) -> Archive:
        """The archive, without an incarnation. `created_at`: None for now. Raises Conflict when a name or the durable
        is taken."""
        with self._session.transaction() as sql:
            archive = insert_archive(
                sql,
                spec,
                job_name,
                job_id=job_id,
                paused=paused,
                created_at=created_at,
                former_filters=former_filters,
                presets=presets,
            )
            note(sql, archive, "rebuilt", {})
        return archive

    def begin(self, archive: Archive, incarnation: Incarnation, config: Mapping[str, Any], start: int) -> int:
        """Let the archive hold an incarnation from this sequence on; the incarnation's id. `config`: of the stream, by
        a chunk; the newest one comes last. The state of the stream is unknown until it is observed."""
        with self._session.transaction() as sql:
            id_ = sql.value(
                int,
                "remember_stream",
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                config=json.dumps(storable(config)),
                removing=json.dumps(removing_settings(config)),
                start=start,
            )
            sql.run("begin_rebuilt", archive=archive.id, incarnation=id_, start=start)
            return id_

    def record(self, archive: Archive, incarnation: Incarnation, unknown_after: int | None) -> None:
        """Record that the stream was restored and continues the incarnation, or was removed."""
        with self._session.transaction() as sql:
            sql.run(
                "record_rebuilt",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                restored_ns=incarnation.restored_ns or None,
                unknown_after=unknown_after,
            )

    def add_gaps(self, archive: Archive, gaps: Sequence[tuple[int, PlacedGap]]) -> None:
        """Add gaps, each with the id of its incarnation. Raises Conflict if they overlap with something."""
        rows = [
            {"incarnation_id": id_, "first_seq": gap.seqs.first, "last_seq": gap.seqs.last}
            | {name: getattr(gap, name) for name in ("reason", "first_hour", "last_hour", "after_ns", "before_ns")}
            for id_, gap in gaps
        ]
        with self._session.transaction() as sql:
            try:
                sql.run("add_placed_gaps", archive=archive.id, gaps=json.dumps(rows))
            except psycopg.IntegrityError as error:
                raise broken_rule(error, archive.name) from error

    def add_seal(self, archive: Archive, seal: Seal) -> None:
        """Add a seal, valid only if its revision is that of the hour."""
        values = asdict(seal)
        for name in ("id", "valid", "sealed_at", "dagster_run_id"):
            del values[name]
        with self._session.transaction() as sql:
            sql.run("add_rebuilt_seal", archive=archive.id, **values)
