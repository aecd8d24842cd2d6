"""Answers about Iceberg tables."""

from pydantic import ConfigDict, Field

from nats3_dagster.api.models.bodies import Answer

EXAMPLE = {
    "archive": "logs", "archive_deleted": False, "catalog": "nats3", "table": "nats3.logs", "chunks": 120, "lacking": 1,
    "surplus": 0, "revision": 240, "archive_revision": 241, "snapshot_id": 7930418413321939569,
    "created_at": "2026-11-20T09:00:00.000000Z", "synced_at": "2026-11-21T07:59:58.120000Z",
}  # fmt: skip


class Table(Answer):
    """The Iceberg table of an archive, and how far it is behind."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    archive: str
    archive_deleted: bool = Field(description="Then the table shall have no files.")
    catalog: str = Field(description="An Iceberg catalog: a name in pyiceberg's configuration, or an address.")
    table: str = Field(description="Namespace and name.")
    chunks: int | None = Field(description="Chunks that it was last made to list; null before that.")
    lacking: int = Field(description="Chunks of the archive that it does not list.")
    surplus: int = Field(description="Chunks that it lists and that the archive does not have any more.")
    revision: int | None = Field(description="The archive's revision that it was last made equal to.")
    archive_revision: int = Field(description="The archive's revision now.")
    snapshot_id: int | None = Field(description="Its newest snapshot, of 64 bits; null while there is none.")
    created_at: str
    synced_at: str | None = Field(description="When it was last made equal to the archive.")
    error: str | None = Field(description="Why the newest try failed; null where it did not.")
    failed_at: str | None
    changed: str | None = Field(
        description="What another program did to the table, as of seen_at; null where it did nothing."
    )
    seen_at: str | None = Field(description="When the Iceberg catalog was last asked for the table's snapshot.")
