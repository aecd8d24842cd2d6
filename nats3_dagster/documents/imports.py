"""Imports: archives of backups."""

from typing import Self

from pydantic import Field

from nats3_dagster.archive.imports.run import Imported
from nats3_dagster.documents.base import Document, time_of


class ImportedArchive(Document):
    """An archive of a backup."""

    archive: str
    stream: str
    bucket: str
    prefix: str
    messages: int
    ended: int = Field(
        description="Messages of the backup whose own time to live has ended: a server does not restore them."
    )
    first_seq: int
    last_seq: int
    first_time: str | None
    last_time: str | None
    hours: int = Field(description="Hours with messages.")
    sealed: int = Field(
        description="Sealed hours, those between without a message too; an hour that has not ended is not sealed."
    )
    paused: bool = Field(description="True: it follows no stream until it is resumed.")

    @classmethod
    def of(cls, done: Imported) -> Self:
        spec, state = done.archive.spec, done.state
        return cls(
            archive=spec.name,
            stream=spec.stream,
            bucket=spec.bucket,
            prefix=spec.prefix,
            messages=done.messages,
            ended=done.ended,
            first_seq=state.first_seq,
            last_seq=state.last_seq,
            first_time=time_of(state.first_ns or None),
            last_time=time_of(state.last_ns or None),
            hours=done.hours,
            sealed=done.sealed,
            paused=True,
        )
