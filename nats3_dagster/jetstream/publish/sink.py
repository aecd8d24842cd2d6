"""A publisher for messages that are independent of each other, each with an id: what a stream refuses is reported, and
the others go on.

Invariant: every message given is acknowledged by the one stream, or is among the refusals, or an error is raised. After
an Interrupted the same messages may be published again: the stream knows their ids.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nats3_dagster.errors import Interrupted, TargetError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import Status, message_passes
from nats3_dagster.jetstream.publish.acks import Answer
from nats3_dagster.jetstream.publish.outbox import Outbox
from nats3_dagster.jetstream.publish.probe import NONE_YET, nobody_listens
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.jetstream.publish.state import State
from nats3_dagster.jetstream.read.scan import FrameError

# How many refusals are kept; all of them are counted.
REFUSALS = 100


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that was not stored."""

    subject: str
    # The reason, in the words of the server or of nats3.
    reason: str


class SinkOutbox(Outbox):
    """An outbox that counts a refused message as answered."""

    def __init__(
        self,
        client: Connection,
        messages: int,
        size: int,
        ack_timeout_s: float,
        changed: Callable[[], None],
        streams: Sequence[str] = (),
    ) -> None:
        super().__init__(client, messages, size, ack_timeout_s, changed, streams)
        self.refused = 0  # of the first `acked` messages
        self._refused_ahead: dict[int, Refusal] = {}  # of those after them
        self.refusals: list[Refusal] = []
        self._questions: dict[str, list[int]] = {}  # by subject without a subscriber: messages without an answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._uncaptured: set[str] = set()

    def _number_of(self, answer: Answer) -> int | None:
        if answer.status == Status.NO_RESPONDERS:
            return self._no_responders(answer.number)
        if answer.status or message_passes(answer.error):
            self._refused(answer, self.window.subject_of(answer.number))
            return None
        if answer.error:
            self._report(answer.number, f"{answer.error.get('description')} ({answer.error.get('err_code')})")
            return answer.number
        stream, seq = answer.body.get("stream"), answer.body.get("seq")
        if not isinstance(stream, str) or not isinstance(seq, int):
            raise FrameError(f"A stream answered with something unknown: {answer.body}")
        self.duplicates += bool(answer.body.get("duplicate"))
        return answer.number if self._advances(stream, seq) else None

    def _advances(self, stream: str, seq: int) -> bool:
        if stream not in self._streams:
            self.fail(
                TargetError(
                    f"Stream {stream} took a message that was meant for {', '.join(self._streams)}",
                    "Subjects were moved from one stream to the other, or a mapping of the account leads there",
                )
            )
            return False
        self.stored[stream] = max(seq, self.stored.get(stream, 0))
        return True

    def _no_responders(self, number: int) -> int | None:
        """Returns the number of a message without a subscriber if no stream captures its subject, None until that is
        known."""
        subject = self.window.subject_of(number)
        if subject in self._uncaptured:
            self._report(number, "no stream captures the subject")
            return number
        waiting = self._questions.setdefault(subject, [])
        waiting.append(number)
        if len(waiting) == 1:
            task = asyncio.create_task(self._ask(subject))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    async def _ask(self, subject: str) -> None:
        """Asks about a subject without a subscriber. It has none between two leaders of a stream either: then these
        messages are to be sent again."""
        reason = await nobody_listens(self._client, subject, NONE_YET)
        if isinstance(reason, Interrupted):
            self.fail(reason)
            return
        self._uncaptured.add(subject)
        numbers = self._questions.pop(subject)
        for number in numbers:
            self._report(number, "no stream captures the subject")
        self._on_numbers(numbers)

    def _report(self, number: int, reason: str) -> None:
        self._refused_ahead[number] = Refusal(self.window.subject_of(number), reason)

    def _advance(self, acked: int) -> None:
        # A message after one without an answer is published again with it, and refused again.
        for number in sorted(n for n in self._refused_ahead if n < acked):
            refusal = self._refused_ahead.pop(number)
            self.refused += 1
            if len(self.refusals) < REFUSALS:
                self.refusals.append(refusal)
        super()._advance(acked)


class SinkPublisher(Publisher):
    """Publishes into one stream; `published` counts refused messages as well."""

    _outbox: SinkOutbox

    def __enter__(self) -> "SinkPublisher":
        super().__enter__()
        return self

    @property
    def refused(self) -> int:
        """The number of messages that the stream, or the server, did not take."""
        return self._outbox.refused

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The first REFUSALS of them."""
        return tuple(self._outbox.refusals)

    @property
    def max_payload(self) -> int:
        """Bytes of headers and payload that the server takes."""
        return self._link.client.max_payload

    def _new_outbox(self, client: Connection) -> Outbox:
        return SinkOutbox(client, *self._limits, self._notify, self._streams)

    def _await_quiet(self, end: State) -> None:
        """Waits for nothing: what may still be under way is known by its id when it is published again."""
