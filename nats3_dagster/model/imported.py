"""Imports: archives of backups of streams, which have no stream that goes on."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedBackup:
    """The backup that an archive is of."""

    # SHA-256 of its files, in hex.
    digest: str
    # As the backup describes its stream.
    first_seq: int
    last_seq: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptImport(ImportedBackup):
    """An import as the catalog has it."""

    archive_id: int
    # When all of it was archived; None before.
    finished_at: datetime | None
