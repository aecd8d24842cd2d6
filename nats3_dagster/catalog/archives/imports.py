"""Imports: which archives are of backups, and whether all of it is archived."""

from dataclasses import asdict

from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.model import Archive
from nats3_dagster.model.imported import ImportedBackup, KeptImport


class Imports:
    """Note and find imports."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of(self, archive: Archive) -> KeptImport | None:
        """The backup that an archive is of; None for an archive of a stream."""
        with self._session.reading() as sql:
            return sql.row(KeptImport, "import_of", archive=archive.id)

    def paused(self) -> dict[int, KeptImport]:
        """The backups of archives that are paused, by the archive's id: their streams do not change."""
        with self._session.reading() as sql:
            return {row.archive_id: row for row in sql.rows(KeptImport, "paused_imports")}

    def finish(self, archive: Archive) -> None:
        """Record that all of the backup is archived."""
        with self._session.transaction() as sql:
            sql.run("finish_import", archive=archive.id)


def add_import(sql: Statements, archive: Archive, backup: ImportedBackup) -> None:
    """Record the backup that an archive is of."""
    sql.run("add_import", archive=archive.id, **asdict(backup))
