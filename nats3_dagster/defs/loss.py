"""How near a stream is to deleting what has not been captured.

The rule kept here: the limits are the server's own, and the nearest of them counts.
"""

from dataclasses import dataclass

from nats3_dagster.archive.backlog import Uncaptured
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import StreamState

WARN, ERROR = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Loss:
    """`used`: the share of the way to its deletion that the oldest uncaptured message has gone, by the limit that is
    nearest; 0 without any limit, or when nothing waits."""

    used: float
    limit: str

    @property
    def level(self) -> str:
        return "error" if self.used >= ERROR else "warn" if self.used >= WARN else "ok"

    @property
    def said(self) -> str:
        if not self.limit:
            return "No limit of the stream deletes messages"
        return f"The oldest uncaptured message has gone {self.used:.0%} of its way to deletion by {self.limit}"


def loss(state: StreamState, waiting: Uncaptured) -> Loss:
    """By the stream's limits on age, messages and bytes."""
    config, mean = state.config, state.bytes / max(state.messages, 1)
    ways = [
        (waiting.behind_s, int(config.get("max_age") or 0) / SECOND_NS, "max_age"),
        (waiting.behind, int(config.get("max_msgs") or 0), "max_msgs"),
        (waiting.behind * mean, int(config.get("max_bytes") or 0), "max_bytes"),
    ]
    found = [Loss(gone / limit, name) for gone, limit, name in ways if limit > 0]
    return max(found, key=lambda way: way.used, default=Loss(0.0, ""))
