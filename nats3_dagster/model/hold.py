"""A hold: hours and sequences of an archive that must not leave it."""

from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.model.pattern import Pattern

HOLD_NAME = Pattern(r"[A-Za-z0-9_.-]+", "the name of a hold", "Use letters, digits, _, . and - only", longest=200)

# The hold that a rebuild places on the whole archive: the settings beside the chunks may be another hand's, so until a
# person has looked at them and ends it, nothing leaves the archive and nothing is copied.
REBUILT = "rebuilt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A hold that is in force."""

    name: str
    reason: str
    # Who placed it: user and host.
    actor: str
    created_at: datetime
    # Of what it holds, both included; None for no bound.
    first_hour: str | None
    last_hour: str | None
    first_seq: int | None
    last_seq: int | None
