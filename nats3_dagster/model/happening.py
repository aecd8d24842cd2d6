"""A happening: one line of the history of an archive."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An act on an archive, or a failure."""

    happened_at: datetime
    # The `what` of an event (0100_events.sql), or captured, capture_failed, sealed, replayed, replay_failed.
    what: str
    # Of a capture and a seal.
    hour: str | None
    # By what it is: counts, names and settings, and nothing of messages.
    detail: dict[str, Any]
    # Of what failed; None for what did not.
    error_kind: str | None
    error: str | None
    # User and host; None where the catalog does not know it.
    actor: str | None
    dagster_run_id: str | None
