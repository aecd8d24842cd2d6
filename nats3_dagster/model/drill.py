"""A drill: messages of an archive restored into a server of our own and compared, to know that a restore would work and
how long it takes."""

from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.errors import Nats3Error


@dataclass(frozen=True, slots=True)
class Drill:
    """The result of a drill of one archive."""

    # Messages that were restored and compared with the archive.
    messages: int
    # Bytes of their subjects, header blocks and payloads.
    payload_bytes: int
    # The time that restoring and comparing them took, in seconds.
    seconds: float
    # Messages that the live stream still had, and that were the same.
    live: int
    # How old the moment was up to which everything is archived, in seconds; None where nothing is.
    rpo_s: float | None
    # The first thing that was not as it should be; None where all was.
    error: Nats3Error | None = None
    # When it ended; None for one that is not in the catalog.
    drilled_at: datetime | None = None
    # When a drill last found all as it should be.
    proven_at: datetime | None = None

    def rto_s(self, messages: int, payload_bytes: int) -> float | None:
        """Returns the seconds that a restore of this number of messages and bytes would take at the speed of the drill:
        the larger share counts. None where it restored nothing."""
        if not self.messages:
            return None
        share = max(messages / self.messages, payload_bytes / self.payload_bytes if self.payload_bytes else 0)
        return self.seconds * share
