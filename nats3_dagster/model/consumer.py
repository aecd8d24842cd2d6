"""The position of a stream's durable: what it has delivered, what is acknowledged, and what is between the two."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """One place in two counts."""

    # The consumer's own count of deliveries, in which a message that comes again has another number.
    consumer: int
    # The stream's.
    stream: int


@dataclass(frozen=True, slots=True)
class ConsumerPosition:
    """A durable, as it was asked."""

    name: str
    # The server's JSON, unchanged.
    config: Mapping[str, Any] = field(repr=False)
    # The last delivery.
    delivered: Pair
    # Everything up to here is acknowledged.
    ack_floor: Pair
    # Messages that were delivered and are not acknowledged, by sequence of the stream: the number of the delivery, and
    # its time in nanoseconds since 1970.
    pending: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    # Messages that were delivered again: how many times more than once.
    redelivered: Mapping[int, int] = field(default_factory=dict[int, int])
    # Whether what is pending is known. Else the position is the acknowledgement floor, and what was delivered after it
    # comes again, acknowledged or not.
    exact: bool = True

    def cut(self, first_seq: int, last_seq: int, has: Callable[[int], bool]) -> "ConsumerPosition":
        """The position in a stream that begins and ends with these sequences. `has`: True for messages that it has."""
        pending = {seq: value for seq, value in self.pending.items() if seq <= last_seq and has(seq)}

        def within(pair: Pair) -> Pair:
            return pair._replace(stream=max(first_seq - 1, min(pair.stream, last_seq)))

        delivered = within(self.delivered)
        return replace(
            self,
            delivered=delivered,
            # Without a message that waits for an acknowledgement the floor is where the deliveries are.
            ack_floor=within(self.ack_floor) if pending else delivered,
            pending=pending,
            redelivered={seq: times for seq, times in self.redelivered.items() if seq in pending},
        )

    def at_floor(self) -> "ConsumerPosition":
        """The position by its floor alone: what was delivered after it is delivered once more, as new."""
        return replace(self, delivered=self.ack_floor, pending={}, redelivered={})


@dataclass(frozen=True, slots=True)
class KeptConsumers:
    """An object that has the consumers of a stream."""

    # The hour (UTC) of the observation.
    hour: str
    # When the stream was asked, in nanoseconds since 1970; and its last sequence then, or a little later.
    observed_ns: int
    last_seq: int
    # The number of them.
    consumers: int
    # SHA-256 of what is said of them, without the time, in hex.
    content: str
    bucket: str
    key: str
    sha256: str  # of the object, in hex
    stored_bytes: int
