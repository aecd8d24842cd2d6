"""A hold, as lists and details of archives show it: it imports nothing that reads chunks."""

from typing import Self

from pydantic import Field

from nats3_dagster.documents.base import Document, stamp
from nats3_dagster.model import Hold as Stored


class Hold(Document):
    """A hold: what it covers is not removed, whatever removes it."""

    name: str
    reason: str
    placed_by: str
    created: str
    first_hour: str | None = Field(description="Null for no bound.")
    last_hour: str | None
    first_seq: int | None = Field(description="Of each incarnation of the stream; null for no bound.")
    last_seq: int | None

    @classmethod
    def of(cls, hold: Stored, **others: object) -> Self:
        return cls.by_name(hold, placed_by=hold.actor, created=stamp(hold.created_at), **others)
