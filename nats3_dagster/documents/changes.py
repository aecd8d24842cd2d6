"""Changes of settings, of archives and exports alike."""

from typing import Any, Self

from pydantic import Field

from nats3_dagster.archive.lifecycle import change
from nats3_dagster.documents.base import Document


class Difference(Document):
    """A field that changes, or would."""

    field: str
    old: Any
    new: Any
    refused: str | None = Field(description="Why it may not change; null where it may.")

    @classmethod
    def of(cls, one: change.Difference) -> Self:
        old, new = (list(value) if isinstance(value, tuple) else value for value in (one.old, one.new))
        return cls(field=one.field, old=old, new=new, refused=one.refusal.what if one.refusal else None)
