"""Changes of settings, of archives and exports alike."""

from typing import Any, Self

from pydantic import Field

from nats3_dagster.archive.lifecycle import change
from nats3_dagster.documents.base import Document
from nats3_dagster.model import ReplayPreset


class Difference(Document):
    """A field that changes, or would."""

    field: str
    old: Any
    new: Any
    refused: str | None = Field(description="Why it may not change; null where it may.")

    @classmethod
    def of(cls, one: change.Difference) -> Self:
        old, new = (_plain(value) for value in (one.old, one.new))
        return cls(field=one.field, old=old, new=new, refused=one.refusal.what if one.refusal else None)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value.document() if isinstance(value, ReplayPreset) else value
