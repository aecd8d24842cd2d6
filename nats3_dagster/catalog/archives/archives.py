"""Archives: what is captured, from where, into which bucket.

Invariant: a name belongs to one archive that is not deleted. The stream and mode of an archive never change, because
its coverage counts by them; nor does where its objects are. Its subjects change for sequences that no capture has
planned.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import NamedTuple
from uuid import UUID

from psycopg import errors

from nats3_dagster.catalog.archives.accounts import add_archive
from nats3_dagster.catalog.archives.durables import record_deliveries
from nats3_dagster.catalog.archives.imports import add_import
from nats3_dagster.catalog.contents.coverage import Coverages
from nats3_dagster.catalog.rows import ArchiveRow, ArchiveTotalsRow
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict, OperatorError, Unknown
from nats3_dagster.model import (
    Archive,
    ArchiveSpec,
    ArchiveTotals,
    ArchiveVersion,
    Deliveries,
    FormerFilter,
    ReplayPreset,
    StreamState,
)
from nats3_dagster.model.account_rule import KeptRule
from nats3_dagster.model.imported import ImportedBackup
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.steps import Next


@dataclass(slots=True, kw_only=True)
class FormerRow:
    """The name of a deleted archive, and its stream."""

    name: str
    stream: str


@dataclass(slots=True, kw_only=True)
class JobNameRow:
    """A job that has or had an archive of some name."""

    job_name: str
    # Whether its archive is not deleted.
    live: bool


class ServedVersion(NamedTuple):
    """Numbers of an archive: while they stand still, so does what it answers."""

    id: int
    # Changes of its chunks and gaps, and of its settings.
    revision: int
    updated_at: datetime


class Archives:
    """Create, list, change, pause and delete."""

    def __init__(self, session: Session, coverage: Coverages) -> None:
        self._session = session
        self._coverage = coverage

    def create(
        self,
        spec: ArchiveSpec,
        state: StreamState,
        job_name: str | None = None,
        deliveries: Deliveries | None = None,
        *,
        paused: bool = False,
        presets: Sequence[ReplayPreset] = (),
        rule: KeptRule | None = None,
        imported: ImportedBackup | None = None,
    ) -> Archive:
        """The new archive, its coverage beginning with the oldest message that the stream has now. `job_name`: where it
        is not the archive's. `deliveries`: of its durable, if it has one. `rule`: the rule for an account that has it.
        `imported`: the backup that it is of. Raises Conflict when a name or the durable is taken or the rule was ended,
        OperatorError when `state` is another stream's."""
        if state.name != spec.stream:
            raise OperatorError(f"Archive {spec.name} is of stream {spec.stream}, not of {state.name}")
        with self._session.transaction() as sql:
            archive = insert_archive(sql, spec, job_name, paused=paused, presets=presets)
            if deliveries:
                record_deliveries(sql, archive, deliveries)
            if rule:
                add_archive(sql, rule, archive)
            if imported:
                add_import(sql, archive, imported)
            self._coverage.observe(archive, state)
        return archive

    def all(self) -> tuple[Archive, ...]:
        """All that are not deleted, by name."""
        with self._session.reading() as sql:
            return tuple(row.archive() for row in sql.rows(ArchiveRow, "archives"))

    def find(self, name: str) -> Archive | None:
        """Returns the archive; None if there is none of this name, or it is deleted."""
        with self._session.reading() as sql:
            row = sql.row(ArchiveRow, "archive", name=name)
        return row.archive() if row else None

    def get(self, name: str) -> Archive:
        """Finds it by its own name, else by its job's. Raises OperatorError, with similar names, when there is none."""
        with self._session.reading() as sql:
            row = sql.row(ArchiveRow, "archive_or_job", name=name)
        return row.archive() if row else self._unknown(name)

    def of_job(self, job_id: UUID) -> tuple[Archive, bool] | None:
        """The archive of a job, and whether it is not deleted; None when there never was one."""
        with self._session.reading() as sql:
            row = sql.row(ArchiveRow, "job", job_id=job_id)
        return (row.archive(), row.deleted_at is None) if row else None

    def deleted(self, name: str) -> tuple[Archive, ...]:
        """The deleted archives of this name."""
        with self._session.reading() as sql:
            return tuple(row.archive() for row in sql.rows(ArchiveRow, "deleted_archives", name=name))

    def jobs_of_name(self, name: str) -> tuple[JobNameRow, ...]:
        """The jobs that have, or had, an archive of this name."""
        with self._session.reading() as sql:
            return tuple(sql.rows(JobNameRow, "job_names", name=name))

    def totals(self) -> tuple[ArchiveTotals, ...]:
        """All that are not deleted, by name, with their sums. Reads one row for each incarnation, and no chunk."""
        with self._session.reading() as sql:
            return tuple(row.totals() for row in sql.rows(ArchiveTotalsRow, "archive_totals", archive=None))

    def totals_of(self, archive: Archive) -> ArchiveTotals | None:
        """The archive with its sums; None when it is deleted."""
        with self._session.reading() as sql:
            row = sql.row(ArchiveTotalsRow, "archive_totals", archive=archive.id)
        return row.totals() if row else None

    def versions(self) -> tuple[ArchiveVersion, ...]:
        """Returns the version of each archive that is not deleted, the oldest archive first."""
        with self._session.reading() as sql:
            return tuple(sql.rows(ArchiveVersion, "archive_versions"))

    def served_version(self, name: str) -> ServedVersion | None:
        """The version of an archive for who reads it; None if there is none of this name, or it is deleted."""
        with self._session.reading() as sql:
            return sql.row(ServedVersion, "served_version", name=name)

    def of(self, archive_ids: Collection[int]) -> tuple[Archive, ...]:
        """Returns the archives of these ids that are not deleted."""
        with self._session.reading() as sql:
            return tuple(row.archive() for row in sql.rows(ArchiveRow, "archives_of", archives=[*archive_ids]))

    def deleted_names(self) -> tuple[set[str], set[str]]:
        """The names and the streams of deleted archives, also those that an archive has again."""
        with self._session.reading() as sql:
            rows = sql.rows(FormerRow, "deleted_archive_names")
        return {row.name for row in rows}, {row.stream for row in rows}

    def change(
        self,
        seen: Archive,
        spec: ArchiveSpec,
        *,
        paused: bool,
        presets: Sequence[ReplayPreset] | None = None,
        ended: Callable[[], Sequence[FormerFilter]] = tuple,
    ) -> Archive:
        """The archive with those settings of `spec`, its pause and its presets that differ from `seen`; the others are
        left as they are now. Without `presets` they stay.

        `ended` returns the end of the earlier subjects if the subjects change; it is called while no capture plans by
        them. Raises Conflict when another process deleted it, or changed one of them since `seen` was read."""
        with self._session.transaction() as sql:
            if spec.subjects != seen.spec.subjects:
                sql.run("alone_with_filter", archive=seen.id)
            row = sql.row(ArchiveRow, "locked_archive", archive=seen.id)
            if row is None:
                raise Conflict(f"Archive {seen.name} was deleted", "Create it again")
            now = row.archive()
            before, current = (_settings(one.spec, one.paused, one.presets) for one in (seen, now))
            wanted = _settings(spec, paused, seen.presets if presets is None else presets)
            changed = {field: value for field, value in wanted.items() if value != before[field]}
            for field, value in changed.items():
                if current[field] not in (before[field], value):
                    raise Conflict(
                        f"Another process changed archive {seen.name}: {field} is {current[field]} now, and was "
                        f"{before[field]}",
                        "Nothing was changed by this one. Look at the archive again, and repeat the change if it is "
                        "still wanted",
                    )
            former = list(now.former_filters)
            if changed.get("subjects", current["subjects"]) != current["subjects"]:
                former += ended()
            row = sql.row(
                ArchiveRow,
                "change_archive",
                archive=seen.id,
                **(current | changed),
                former_filters=json.dumps([asdict(one) for one in former]),
            )
            assert row is not None
        return row.archive()

    def reread(self, archive: Archive) -> Archive:
        """The archive as it is now. A change of its subjects that this does not show will count for sequences that the
        stream gets after this call. Raises Conflict when it was deleted."""
        with self._session.transaction() as sql:
            sql.run("share_filter", archive=archive.id)
            row = sql.row(ArchiveRow, "archive_by_id", archive=archive.id)
        if row is None:
            raise Conflict(f"Archive {archive.name} was deleted", "Create it again, or stop what captures into it")
        return row.archive()

    def pause(self, name: str) -> Archive:
        """Stop its sensors. Raises OperatorError when there is none."""
        return self._set_paused(name, True)

    def resume(self, name: str) -> Archive:
        """Start its sensors. Raises OperatorError when there is none."""
        return self._set_paused(name, False)

    def delete(self, name: str) -> int:
        """Mark the archive and its exports as deleted and retire its chunks; how many were live. Objects stay: see
        `Removals`. Raises OperatorError when there is none."""
        with self._session.transaction() as sql:
            archive = self.get(name)
            # Commits hold this row: those that came first are deleted with the rest, later ones are refused.
            if sql.value_or_none(int, "lock_archive", archive=archive.id) is None:
                self._unknown(name)
            chunks = sql.run("retire_archive", archive=archive.id)
            sql.run("delete_exports", archive=archive.id)
            sql.run("delete_archive", archive=archive.id)
        return chunks

    def _set_paused(self, name: str, paused: bool) -> Archive:
        with self._session.transaction() as sql:
            row = sql.row(ArchiveRow, "pause_archive", archive=self.get(name).id, paused=paused)
        return row.archive() if row else self._unknown(name)

    def _unknown(self, name: str) -> Archive:
        with self._session.reading() as sql:
            names = sql.values(str, "archive_names")
        similar = get_close_matches(name, names, n=3) or names[:5]
        hint = f"Did you mean {', '.join(similar)}?" if similar else Next.CREATE_ARCHIVE()
        raise Unknown(f"There is no archive {name}", hint)


def _columns(spec: ArchiveSpec) -> dict[str, object]:
    """The columns of a spec."""
    values = {one.name: getattr(spec, one.name) for one in settings_of(ArchiveSpec)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _settings(spec: ArchiveSpec, paused: bool, presets: Sequence[ReplayPreset]) -> dict[str, object]:
    """Returns the changeable settings of an archive, by column."""
    columns = _columns(spec)
    changeable = {one.name: columns[one.name] for one in settings_of(ArchiveSpec) if one.fixed is None}
    return changeable | {"paused": paused, "presets": _listed(presets)}


def _listed(presets: Sequence[ReplayPreset]) -> str:
    return json.dumps([one.document() for one in presets])


def insert_archive(
    sql: Statements,
    spec: ArchiveSpec,
    job_name: str | None,
    *,
    job_id: UUID | None = None,
    paused: bool = False,
    created_at: datetime | None = None,
    former_filters: Sequence[FormerFilter] = (),
    presets: Sequence[ReplayPreset] = (),
) -> Archive:
    """The archive, without an incarnation; without `job_id` or `created_at` it gets them now. Raises Conflict when a
    name or the durable is taken."""
    try:
        row = sql.row(
            ArchiveRow,
            "create_archive",
            **_columns(spec),
            job_name=None if job_name == spec.name else job_name,
            job_id=job_id,
            paused=paused,
            created_at=created_at,
            former_filters=json.dumps([asdict(one) for one in former_filters]),
            presets=_listed(presets),
        )
    except errors.UniqueViolation as error:
        if error.diag.constraint_name == "archive_durable":
            raise durable_taken(spec) from error
        raise name_taken(job_name or spec.name) from error
    assert row is not None
    return row.archive()


def lock_archive(
    sql: Statements, archive: Archive, hint: str = "Create it again, or stop what captures into it"
) -> None:
    """Hold the archive before any of its chunks, as everything does that changes them: in another order two would wait
    for each other. Raises Conflict, with `hint` as the next step, when it was deleted."""
    if sql.value_or_none(int, "lock_archive", archive=archive.id) is None:
        raise Conflict(f"Archive {archive.name} was deleted", hint)


def name_taken(name: str) -> Conflict:
    """The error of a name that an archive or a job has already."""
    return Conflict(f"There is an archive {name} already", Next.NAME_TAKEN(archive=name))


def durable_taken(spec: ArchiveSpec, owner: str = "") -> Conflict:
    """The error of a durable that the archive `owner`, or another one, takes its messages through."""
    who = f"archive {owner}" if owner else "another archive"
    return Conflict(
        f"Consumer {spec.durable} of stream {spec.stream} belongs to {who}, and two archives would take each other's "
        "messages",
        Next.OWN_CONSUMER(),
    )
