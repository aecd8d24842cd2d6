"""Exports: what archives export, and what each hour's export was made of.

Invariant: an hour counts as exported only as it was when its export began: one whose chunks change meanwhile, or
later, is due again.
"""

import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from difflib import get_close_matches
from typing import Any, cast

from psycopg import errors

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict, OperatorError, Unknown
from nats3_dagster.model import Archive, ExportSpec
from nats3_dagster.model.export import Export, ExportHour, ExportLag, ExportTotals, Failed, Made
from nats3_dagster.steps import Next

# An error may quote what a decoder raised.
_ERROR_CHARS = 2000


@dataclass(slots=True, kw_only=True)
class ExportRow:
    """A row of nats3.export."""

    id: int
    archive_id: int
    name: str
    spec: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime

    def export(self) -> Export:
        # JSON has lists where the spec has tuples.
        values: dict[str, Any] = {
            field: tuple(cast(list[Any], value)) if isinstance(value, list) else value
            for field, value in self.spec.items()
        }
        return Export(self.id, self.archive_id, ExportSpec(**values), self.version, self.created_at, self.updated_at)


@dataclass(slots=True, kw_only=True)
class ExportHourRow:
    """An hour that is sealed, or was exported: units as in ExportHour, Made and Failed."""

    hour: str
    sealed_revision: int | None
    sealed_chunks: int | None
    sealed_messages: int | None
    revision: int | None
    chunks: int | None
    version: int | None
    files: int | None
    messages: int | None
    dropped: int | None
    undecoded: int | None
    bytes: int | None
    content: str | None
    manifest: str | None
    made_at: datetime | None
    error_kind: str | None
    error: str | None
    failures: int
    failed_at: datetime | None
    dagster_run_id: str | None
    change: int
    retired_messages: int
    holds_retired: bool

    def export_hour(self) -> ExportHour:
        sealed = made = failure = None
        if self.sealed_revision is not None and self.sealed_chunks is not None:
            sealed = self.sealed_revision, self.sealed_chunks, self.sealed_messages or 0
        if self.made_at is not None:
            columns: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(Made)}
            made = Made(**columns)
        if self.failed_at is not None:
            failure = Failed(self.error_kind or "", self.error or "", self.failures, self.failed_at)
        return ExportHour(
            self.hour,
            sealed,
            made,
            failure,
            self.dagster_run_id,
            self.change if made else 0,
            self.retired_messages,
            self.holds_retired,
        )


@dataclass(slots=True, kw_only=True)
class ExportTotalsRow:
    """The sums of an export: units as in ExportTotals."""

    export_id: int
    hours: int
    failed: int
    files: int
    messages: int
    undecoded: int
    bytes: int
    last_hour: str | None


@dataclass(slots=True, kw_only=True)
class FormerExportRow:
    """The names of an archive and of an export that it had."""

    archive: str
    name: str


@dataclass(slots=True, kw_only=True)
class PlaceRow:
    """An export, and the URL of its place."""

    archive: str
    name: str
    place: str


@dataclass(slots=True, kw_only=True)
class ChangeRow:
    """The number of the change that an hour's export belongs to."""

    hour: str
    change: int


class Exports:
    """Declare, list and delete exports; ask for their hours, and record them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, archive: Archive, spec: ExportSpec) -> Export:
        """The new export. Raises Conflict when the name is taken, or the archive was deleted; OperatorError when
        another export has its place."""
        with self._session.transaction() as sql:
            _lock(sql, archive)
            if sql.row(ExportRow, "export", archive=archive.id, name=spec.name) is None:
                _check_place(sql, archive, spec)
            try:
                row = sql.row(
                    ExportRow,
                    "create_export",
                    archive=archive.id,
                    name=spec.name,
                    spec=_document(spec),
                    place=_place(archive, spec),
                )
            except errors.UniqueViolation as error:
                raise Conflict(
                    f"Archive {archive.name} has an export {spec.name} already", "Choose another name"
                ) from error
        assert row is not None
        return row.export()

    def all(self, archive: Archive | None = None) -> tuple[Export, ...]:
        """The exports that are not deleted, by name: of an archive, or of each."""
        with self._session.reading() as sql:
            rows = sql.rows(ExportRow, "exports", archive=archive and archive.id)
        return tuple(row.export() for row in rows)

    def find(self, archive: Archive, name: str) -> Export | None:
        """Returns the export; None if there is none of this name, or it is deleted."""
        with self._session.reading() as sql:
            row = sql.row(ExportRow, "export", archive=archive.id, name=name)
        return row.export() if row else None

    def get(self, archive: Archive, name: str) -> Export:
        """Raises Unknown, with similar names, when there is none."""
        if export := self.find(archive, name):
            return export
        names = [one.name for one in self.all(archive)]
        similar = get_close_matches(name, names, n=3) or names[:5]
        hint = f"Did you mean {', '.join(similar)}?" if similar else Next.CREATE_EXPORT(archive=archive.name)
        raise Unknown(f"Archive {archive.name} has no export {name}", hint)

    def change(self, archive: Archive, seen: Export, spec: ExportSpec) -> Export:
        """The export with another spec. Raises Conflict when another process changed or deleted it since `seen`,
        OperatorError when another export has its place."""
        with self._session.transaction() as sql:
            _lock(sql, archive)
            _check_place(sql, archive, spec)
            row = sql.row(
                ExportRow,
                "change_export",
                export=seen.id,
                seen=seen.version,
                spec=_document(spec),
                place=_place(archive, spec),
            )
        if row is None:
            raise Conflict(
                f"Another process changed or deleted export {seen.name} of archive {archive.name}",
                "Nothing was changed by this one. Look at it again, and repeat the change if it is still wanted",
            )
        return row.export()

    def check_place(self, archive: Archive, spec: ExportSpec) -> None:
        """Raises OperatorError when another export has the place of this one, or a place around it or in it."""
        with self._session.transaction() as sql:
            _check_place(sql, archive, spec)

    def delete(self, archive: Archive, export: Export) -> None:
        """Mark it as deleted; its files stay. Deleting it again changes nothing."""
        with self._session.transaction() as sql:
            _lock(sql, archive)
            sql.run("delete_export", export=export.id)

    def deleted_names(self) -> set[tuple[str, str]]:
        """The names of deleted exports, each after its archive's; also those that there are again."""
        with self._session.reading() as sql:
            return {(row.archive, row.name) for row in sql.rows(FormerExportRow, "deleted_export_names")}

    def deleted_names_of(self, archive: Archive) -> set[str]:
        """The names of the deleted exports of one archive; also those that there are again."""
        with self._session.reading() as sql:
            return set(sql.values(str, "deleted_export_names_of", archive=archive.id))

    def hours(
        self, archive: Archive, export: Export, *, first: str | None = None, last: str | None = None
    ) -> tuple[ExportHour, ...]:
        """The hours from `first` to `last` that are sealed, were exported, or had chunks that were deleted after a
        replay, ascending."""
        with self._session.reading() as sql:
            rows = sql.rows(
                ExportHourRow, "export_hours", export=export.id, archive=archive.id, first_hour=first, last_hour=last
            )
        return tuple(row.export_hour() for row in rows)

    def retired_messages(self, archive: Archive, hour: str) -> int:
        """The messages of the hour's chunks that were deleted after a replay."""
        with self._session.reading() as sql:
            return sql.value(int, "retired_messages", archive=archive.id, hour=hour)

    def changes(self, export: Export) -> dict[str, int]:
        """The hours that were exported, and the number of the change that each came with."""
        with self._session.reading() as sql:
            return {row.hour: row.change for row in sql.rows(ChangeRow, "exported_hours", export=export.id)}

    def totals(self, archive: Archive | None = None) -> dict[int, ExportTotals]:
        """Returns the totals of exports, by their id: of an archive, or of each. One that has made nothing is left
        out."""
        with self._session.reading() as sql:
            rows = [asdict(row) for row in sql.rows(ExportTotalsRow, "export_totals", archive=archive and archive.id)]
        return {row.pop("export_id"): ExportTotals(**row) for row in rows}

    def lags(self) -> tuple[ExportLag, ...]:
        """Returns the lag of each export after its archive, by the names of both."""
        with self._session.reading() as sql:
            return tuple(sql.rows(ExportLag, "export_lags"))

    def record(self, archive: Archive, export: Export, hour: str, made: Made) -> None:
        """Record that the hour was exported. Raises Conflict when the export or its archive was deleted meanwhile."""
        columns = {name: value for name, value in asdict(made).items() if name != "made_at"}
        with self._session.transaction() as sql:
            _lock(sql, archive)
            if sql.value_or_none(int, "export_version", export=export.id) is None:
                raise Conflict(
                    f"Export {export.name} of archive {archive.name} was deleted while hour {hour} was exported",
                    "The files of the hour stay",
                )
            sql.run("add_export_hour", export=export.id, archive=archive.id, hour=hour, run_id=current_run(), **columns)

    def reopen(self, archive: Archive, export: Export, hour: str) -> None:
        """Let the hour be due until it is recorded again: files by another spec are about to replace those it has."""
        with self._session.transaction() as sql:
            _lock(sql, archive)
            sql.run("reopen_export_hour", export=export.id, hour=hour)

    def record_failure(self, archive: Archive, export: Export, hour: str, kind: str, error: str) -> None:
        """Note that the hour could not be exported: the kind of the error, and what happened."""
        with self._session.transaction() as sql:
            sql.run(
                "add_export_failure",
                export=export.id,
                archive=archive.id,
                hour=hour,
                error_kind=kind,
                error=error.replace("\0", "")[:_ERROR_CHARS],
                run_id=current_run(),
            )


def _lock(sql: Statements, archive: Archive) -> None:
    """Changes of one archive's exports follow one another, and so do their numbers."""
    lock_archive(sql, archive, "Create it again")


def _place(archive: Archive, spec: ExportSpec) -> str:
    return f"{spec.place_of(archive.name, archive.spec.stream).url.rstrip('/')}/"


def _check_place(sql: Statements, archive: Archive, spec: ExportSpec) -> None:
    """The places of all archives' exports are compared: no other process gives one meanwhile."""
    sql.run("lock_export_places")
    place = _place(archive, spec)
    if other := sql.row(PlaceRow, "export_at", place=place, archive=archive.id, name=spec.name):
        where = "there" if other.place == place else f"to {other.place}"
        raise OperatorError(
            f"Export {spec.name} of archive {archive.name} would write to {place}, and export {other.name} of archive "
            f"{other.archive} writes {where}",
            "Give each export a destination of its own, beside those of the others",
            field="destination",
        )


def _document(spec: ExportSpec) -> str:
    return json.dumps(asdict(spec))
