"""Deliveries: what a durable has handed out, and how much of it its archive accounts for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The deliveries of its durable that an archive accounts for. The durable numbers them from 1 on, those that come
    again included; so what is left over went to another client."""

    # When the server made the durable, in nanoseconds since 1970.
    created_ns: int
    # The number up to which all deliveries are accounted for, and how many after it are.
    consumer_seq: int
    accounted: int = 0
    # The most deliveries that one of these messages took before it was committed.
    most: int = 1
    # Up to this sequence messages may have been stored while there was no durable; 0 where none were.
    missed_seq: int = 0
    # The subject of its last session, where its flow control acknowledges: it counts from 1 on in each. Empty for a
    # durable without sessions.
    session: str = ""

    def unaccounted(self, consumer_seq: int) -> int:
        """Deliveries up to this number that the archive does not account for."""
        return max(consumer_seq - self.consumer_seq - self.accounted, 0)
