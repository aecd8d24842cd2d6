"""Bodies of what happens to an archive after its captures: holds and erasures."""

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from nats3_dagster.bodies.base import Body, Text, with_settings
from nats3_dagster.model import Selection
from nats3_dagster.model.spec_table import by_key, settings_of

_KEYS = {one.key for one in settings_of(Selection)}


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("It is blank")
    return text


Reason = Annotated[Text, AfterValidator(_not_blank)]


class _Selecting(with_settings("Selecting", Body, Selection)):
    """Messages of an archive: all fields that are given narrow the selection together."""

    def selection(self) -> Selection:
        """Raises OperatorError if a field is invalid."""
        given: dict[str, Any] = self.model_dump(by_alias=True, exclude_none=True)
        return Selection(**by_key(Selection, {key: value for key, value in given.items() if key in _KEYS}))


class PlaceHold(_Selecting):
    """A hold on hours, times or sequences, or on the whole archive."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "case-17", "reason": "court order 17", "hours": ["2026-11-21-07:00"]}]}
    )

    name: Text = Field(description="Letters, digits, dots, hyphens and _.")
    reason: Reason = Field(description="Why these messages must stay.")


class EraseMessages(_Selecting):
    """Messages that leave an archive for good: those that meet all conditions. One condition at least is to be given.
    There is no second question: ask with `dry_run` first."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "request 4711", "read_subject": "orders.17.>", "dry_run": True}]}
    )

    reason: Reason = Field(description="Why these messages must go; for the audit.")
    headers: dict[Text, str] | None = Field(None, max_length=16, description="Only with these headers.")
    where: str | None = Field(
        None, max_length=4096, description="Only messages for which this is true, as WHERE of a query has it."
    )
    dry_run: bool = Field(False, description="Count what would go, and change nothing.")
