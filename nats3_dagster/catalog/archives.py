"""Archives: what is captured, from where, into which bucket.

The rule kept here: a name belongs to one archive that is not deleted, and what an archive takes (stream, subjects,
mode) never changes, because its coverage means just that.
"""

from difflib import get_close_matches

from psycopg import errors

from nats3_dagster.catalog.coverage import Coverages
from nats3_dagster.catalog.rows import archive_of
from nats3_dagster.catalog.session import Session
from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, ArchiveTotals, StreamState
from nats3_dagster.steps import Next


class Archives:
    """Create, list, change and delete."""

    def __init__(self, session: Session, coverage: Coverages) -> None:
        self._session = session
        self._coverage = coverage

    def create(self, spec: ArchiveSpec, state: StreamState) -> Archive:
        """The new archive, its coverage beginning with the oldest message that the stream has now. Raises Conflict
        when the name is taken, OperatorError when `state` is another stream's."""
        if state.name != spec.stream:
            raise OperatorError(f"Archive {spec.name} is of stream {spec.stream}, not of {state.name}")
        with self._session.transaction() as sql:
            try:
                row = sql.create_archive(
                    name=spec.name, stream=spec.stream, bucket=spec.bucket, prefix=spec.prefix,
                    subjects=list(spec.subjects), mode=spec.mode, durable=spec.durable, max_messages=spec.max_messages,
                    max_bytes=spec.max_bytes, max_age_s=spec.max_age_s, zstd_level=spec.zstd_level,
                )  # fmt: skip
            except errors.UniqueViolation as error:
                raise Conflict(
                    f"There is an archive {spec.name} already",
                    Next.NAME_TAKEN(archive=spec.name),
                ) from error
            archive = archive_of(row)
            self._coverage.observe(archive, state)
        return archive

    def all(self) -> tuple[Archive, ...]:
        """All that are not deleted, by name."""
        with self._session.reading() as sql:
            return tuple(archive_of(row) for row in sql.archives())

    def find(self, name: str) -> Archive | None:
        """None when there is none of this name, or no more."""
        with self._session.reading() as sql:
            row = sql.archive(name=name)
        return archive_of(row) if row else None

    def get(self, name: str) -> Archive:
        """Raises OperatorError, with names that are near, when there is none."""
        return self.find(name) or self._unknown(name)

    def totals(self) -> tuple[ArchiveTotals, ...]:
        """All that are not deleted, by name, with their sums: one row an incarnation is read, whatever they hold."""
        with self._session.reading() as sql:
            return tuple(
                ArchiveTotals(
                    archive_of(row), row.incarnations, row.chunks, row.messages, row.payload_bytes, row.stored_bytes,
                    row.first_ns, row.last_ns, row.begins_ns,
                )
                for row in sql.archive_totals()
            )  # fmt: skip

    def change(self, spec: ArchiveSpec) -> Archive:
        """Take over bucket, prefix, thresholds and compression for chunks to come. Raises OperatorError when the
        archive is unknown, or `spec` changes what it takes."""
        with self._session.transaction() as sql:
            old = self.get(spec.name).spec
            for what in ("stream", "subjects", "mode", "durable"):
                before, after = getattr(old, what), getattr(spec, what)
                if before != after:
                    raise OperatorError(
                        f"The {what} of archive {spec.name} cannot change from {before or 'none'} to {after or 'none'}",
                        "Create another archive for it",
                    )
            row = sql.change_archive(
                name=spec.name, bucket=spec.bucket, prefix=spec.prefix, max_messages=spec.max_messages,
                max_bytes=spec.max_bytes, max_age_s=spec.max_age_s, zstd_level=spec.zstd_level,
            )  # fmt: skip
        return archive_of(row) if row else self._unknown(spec.name)

    def pause(self, name: str) -> Archive:
        """Stop its sensors. Raises OperatorError when there is none."""
        return self._set_paused(name, True)

    def resume(self, name: str) -> Archive:
        """Start its sensors. Raises OperatorError when there is none."""
        return self._set_paused(name, False)

    def delete(self, name: str) -> int:
        """Forget the archive; its chunks are no longer live (their number is returned), its objects stay: to remove
        them as well, see `Removals`. Raises OperatorError when there is none."""
        with self._session.transaction() as sql:
            archive = self.get(name)
            # Commits hold this row: those that came first are deleted with the rest, later ones are refused.
            if sql.lock_archive(archive=archive.id) is None:
                self._unknown(name)
            chunks = sql.retire_archive(archive=archive.id)
            sql.delete_archive(archive=archive.id)
        return chunks

    def _set_paused(self, name: str, paused: bool) -> Archive:
        with self._session.reading() as sql:
            row = sql.pause_archive(name=name, paused=paused)
        return archive_of(row) if row else self._unknown(name)

    def _unknown(self, name: str) -> Archive:
        with self._session.reading() as sql:
            names = [row.name for row in sql.archive_names()]
        near = get_close_matches(name, names, n=3) or names[:5]
        hint = f"Did you mean {', '.join(near)}?" if near else Next.CREATE_ARCHIVE()
        raise OperatorError(f"There is no archive {name}", hint)
