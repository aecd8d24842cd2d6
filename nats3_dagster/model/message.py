"""A message as a single value: what a point read answers with."""

from dataclasses import dataclass

from nats3_dagster.model.stream import Incarnation
from nats3_dagster.subjects import decoded


@dataclass(frozen=True, slots=True)
class Message:
    """One archived message."""

    incarnation: Incarnation
    # Stream sequence.
    seq: int
    # Store time, nanoseconds since 1970, UTC.
    time_ns: int
    # As the archive has it: text. Of a subject that is not UTF-8 see `subject_bytes`.
    subject: str
    # The wire's bytes where the subject is not UTF-8; None for all others.
    subject_bytes: bytes | None
    # The header block as on the wire; None without one.
    headers: bytes | None
    # The payload.
    data: bytes

    @property
    def exact_subject(self) -> str:
        """The subject as `subjects.decoded` gives it: no two are equal unless their bytes are."""
        return self.subject if self.subject_bytes is None else decoded(self.subject_bytes)
