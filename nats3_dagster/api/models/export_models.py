"""Answers about exports."""

from typing import Literal

from pydantic import Field

from nats3_dagster.api.models.bodies import Answer


class Export(Answer):
    """What is declared, what was made, and how far it is."""

    archive: str
    name: str
    to: str
    subjects: list[str] = Field(description="NATS filters; empty for every subject.")
    decode: str
    schema_: str | None = Field(alias="schema")
    key: str | None
    format: str
    compression: str
    columns: list[str]
    path: str
    interval_minutes: int
    max_undecoded: int
    escape_formulas: bool
    version: int
    created_at: str
    updated_at: str
    hours_exported: int
    hours_done: int = Field(description="Exported as they are sealed.")
    hours_due: int = Field(description="Sealed, and not exported as they are.")
    hours_failed: int = Field(description="Due, and the newest attempt failed.")
    hours_changed: int = Field(description="Exported, and not sealed again since they changed.")
    hours_retired: int = Field(description="Chunks of them were deleted after a replay, and the files lack messages.")
    last_hour: str | None = Field(examples=["2026-11-21-07:00"])
    last_run_at: str | None = Field(description="When an hour was last exported, or failed.")
    files: int
    messages: int
    undecoded: int = Field(description="In the files of undecoded messages.")
    bytes: int


class ExportList(Answer):
    """The exports of an archive, by name."""

    exports: list[Export]


class ExportHour(Answer):
    """An hour that is sealed, or was exported."""

    hour: str = Field(examples=["2026-11-21-07:00"])
    state: Literal["done", "due", "failed", "changed", "retired"]
    files: int | None
    messages: int | None
    dropped: int | None
    undecoded: int | None
    bytes: int | None
    version: int | None = Field(description="Of the settings that it was made with.")
    manifest: str | None = Field(description="URL of the object that lists its files.")
    made_at: str | None
    retired_messages: int = Field(description="Of the hour, deleted from the archive after a replay.")
    error: str | None
    failures: int
    failed_at: str | None
    run_id: str | None


class ExportDetail(Export):
    """An export with its hours, oldest first."""

    hours: list[ExportHour]
