"""What was published and what came back, compared message by message.

Invariant: it shares no code with nats3. A message is known by its payload, because no two payloads of a run are equal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between what was published and what came back, in messages."""

    published: int
    returned: int
    # Published messages that did not come back.
    lost: int
    # Messages that came back again.
    doubled: int
    # Payloads that nothing published.
    different: int
    # Messages that have another subject than the expected one.
    other_subject: int
    # Messages that came after a later one of their subject.
    out_of_order: int

    @property
    def is_equal(self) -> bool:
        return not (self.lost or self.doubled or self.different or self.other_subject or self.out_of_order)


class Published:
    """The messages of a stream, in the order in which they were published: the end of the subject and the payload."""

    def __init__(self, messages: Iterable[tuple[str, bytes]]) -> None:
        self._numbers: dict[bytes, int] = {}
        self._ends: list[str] = []
        for number, (end, data) in enumerate(messages):
            self._numbers[_digest(data)] = number
            self._ends.append(end)
        if len(self._numbers) < len(self._ends):
            raise ValueError("Two published messages have one payload: they could not be told apart")

    def compare(self, returned: Iterable[tuple[str, bytes]], prefix: str) -> Comparison:
        """Compares messages (subject, payload) that came back. The subject of each should be `prefix` and its end."""
        seen = bytearray(len(self._ends))
        newest: dict[str, int] = {}
        count = doubled = different = other_subject = out_of_order = 0
        for subject, data in returned:
            count += 1
            number = self._numbers.get(_digest(data))
            if number is None:
                different += 1
                continue
            doubled += seen[number]
            seen[number] = 1
            end = self._ends[number]
            other_subject += subject != prefix + end
            out_of_order += number < newest.get(end, -1)
            newest[end] = max(number, newest.get(end, -1))
        lost = seen.count(0)
        return Comparison(len(seen), count, lost, doubled, different, other_subject, out_of_order)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
