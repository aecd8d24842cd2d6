"""Parts of a write: a partition of a frame, or of a batch of a streaming query, by what is the same in every try."""

from dataclasses import dataclass

from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import StreamState


@dataclass(frozen=True, slots=True)
class WritePart:
    """A partition of a write, or of a batch of a streaming query."""

    # The id of the write, or of the query, as its checkpoint has it. It is the run's where no other run has it.
    key: str
    # The number of the batch; None for a frame.
    batch: int | None
    partition: int
    # The run of the driver: another one after each start of the query.
    run: str

    @property
    def prefix(self) -> str:
        """Returns the prefix of the ids of its rows without a msg_id: the same in every try."""
        parts = (self.key, self.partition) if self.batch is None else (self.key, self.batch, self.partition)
        return ":".join(map(str, parts))


def window_s(state: StreamState) -> float:
    """Seconds for which the stream knows the id of a message."""
    return state.config.get("duplicate_window", 0) / SECOND_NS
