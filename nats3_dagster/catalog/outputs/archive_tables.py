"""Tables of archives: which archive has one, what was last written to it, and what it shall have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg

from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Archive, Incarnation
from nats3_dagster.model.archive_table import ArchiveTable, TableFile, TableState
from nats3_dagster.steps import Next

# Chunks that are asked for at a time.
PAGE = 1000
# An error may quote what a server answered.
_ERROR_CHARS = 2000


@dataclass(slots=True, kw_only=True)
class _State:
    """A row of table_state: units as in TableState."""

    revision: int
    chunks: int
    ids: list[int]
    hours: list[str]
    retired_ids: list[int]
    retired_hours: list[str]


@dataclass(slots=True, kw_only=True)
class _File:
    """A row of table_files: units as in TableFile."""

    id: int
    bucket: str
    key: str
    hour: str
    stream: str
    created_ns: int
    messages: int
    stored_bytes: int
    first_ns: int
    last_ns: int
    first_seq: int | None
    last_seq: int | None

    def file(self) -> TableFile:
        seqs = None if self.first_seq is None or self.last_seq is None else (self.first_seq, self.last_seq)
        return TableFile(
            chunk_id=self.id,
            bucket=self.bucket,
            key=self.key,
            hour=self.hour,
            incarnation=Incarnation(self.stream, self.created_ns).token,
            messages=self.messages,
            stored_bytes=self.stored_bytes,
            first_ns=self.first_ns,
            last_ns=self.last_ns,
            seqs=seqs,
        )


class ArchiveTables:
    """Add, look at, note, forget."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def all(self) -> list[ArchiveTable]:
        """The tables of all archives, those of deleted archives too, by the archive's name."""
        with self._session.reading() as sql:
            return sql.rows(ArchiveTable, "archive_tables", archive=None)

    def of(self, archive_id: int) -> ArchiveTable | None:
        """The table of an archive, None where it has none."""
        with self._session.reading() as sql:
            return sql.row(ArchiveTable, "archive_tables", archive=archive_id)

    def named(self, archive_name: str) -> ArchiveTable | None:
        """The table of the archive of this name, else of the newest deleted one."""
        with self._session.reading() as sql:
            archive_id = sql.value_or_none(int, "archives_with_table", name=archive_name)
        return None if archive_id is None else self.of(archive_id)

    def add(self, archive: Archive, catalog: str, identifier: str) -> None:
        """Note that the archive has this table. Raises Conflict if it has one, or another archive has this one."""
        with self._session.transaction() as sql:
            try:
                sql.run("add_archive_table", archive=archive.id, catalog=catalog, identifier=identifier)
            except psycopg.errors.UniqueViolation as error:
                is_other = error.diag.constraint_name == "archive_table_once"
                what = "Another archive has this table" if is_other else f"Archive {archive.name} has a table already"
                raise Conflict(what, Next.LIST_TABLES()) from error

    def forget(self, archive_id: int) -> bool:
        """Forget the archive's table; whether it had one."""
        with self._session.transaction() as sql:
            return bool(sql.run("forget_archive_table", archive=archive_id))

    def forget_of_deleted(self, catalog: str, identifier: str) -> None:
        """Forget this table if it is of a deleted archive."""
        with self._session.transaction() as sql:
            sql.run("forget_table_of_deleted", catalog=catalog, identifier=identifier)

    def note_begun(self, archive_id: int, snapshot_id: int) -> None:
        """Note a snapshot before it is committed."""
        with self._session.transaction() as sql:
            sql.run("note_table_begun", archive=archive_id, snapshot=snapshot_id)

    def note_seen(self, archive_id: int, changed: str | None, differs: tuple[int, int] | None = None) -> None:
        """Note what another program did to the table; None: nothing. `differs`: chunks that it does not have and files
        that it has besides, if it was written with a newer copy of this catalog."""
        lacking, surplus = differs or (None, None)
        with self._session.transaction() as sql:
            sql.run(
                "note_table_seen",
                archive=archive_id,
                changed=changed and changed[:_ERROR_CHARS],
                lacking=lacking,
                surplus=surplus,
            )

    def note_synced(
        self,
        archive_id: int,
        state: TableState,
        last_chunk: int,
        snapshot_id: int | None,
        *,
        location: str | None,
        former: int | None,
    ) -> None:
        """`location`: as in ArchiveTable. `former`: the snapshot that was noted when this sync began."""
        with self._session.transaction() as sql:
            sql.run(
                "note_table_synced",
                archive=archive_id,
                revision=state.revision,
                chunks=state.chunks,
                last_chunk=last_chunk,
                snapshot=snapshot_id,
                location=location,
                former=former,
            )

    def note_failed(self, archive_id: int, error: str) -> None:
        with self._session.transaction() as sql:
            sql.run("note_table_failed", archive=archive_id, error=error.replace("\0", "")[:_ERROR_CHARS])

    def state(self, archive_id: int, last_chunk: int = 0, revision: int = 0) -> TableState:
        """Returns the intended state of the table: the live chunks with an id above `last_chunk`, and the number of all
        live chunks; and those up to it that were retired after `revision`.

        Within an archive ids ascend in the order of commits, because a commit holds the archive before it adds chunks.
        So the live chunks up to an id that was live once are those of then without the ones retired since."""
        with self._session.reading() as sql:
            row = sql.row(_State, "table_state", archive=archive_id, last_chunk=last_chunk, revision=revision)
        assert row is not None
        retired = tuple(zip(row.retired_hours, row.retired_ids, strict=True))
        return TableState(row.revision, row.chunks, tuple(row.ids), tuple(row.hours), retired)

    def files(self, chunk_ids: Sequence[int]) -> Iterator[TableFile]:
        """These chunks, live or not, in this order."""
        for at in range(0, len(chunk_ids), PAGE):
            with self._session.reading() as sql:
                rows = sql.rows(_File, "table_files", chunks=list(chunk_ids[at : at + PAGE]))
            yield from (row.file() for row in rows)
