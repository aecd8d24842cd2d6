"""An outbox and its batches: what is acknowledged counts once and without a hole, and no other answer counts as good.

The wire here notes what is sent, and the answers are written by hand: no server gives most of them.
"""

import asyncio
import time
from typing import Any, cast

import pyarrow as pa
import pytest
from nats.errors import Error as NatsError

from nats3_dagster.errors import Interrupted, SourceError, TargetError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.publish import outbox as sending
from nats3_dagster.jetstream.publish.batch import FLOW, KEEP_ALIVE_S, BatchOutbox, OpenBatch
from nats3_dagster.jetstream.publish.encode import Publication, encode
from nats3_dagster.jetstream.publish.fence import LEASE_S
from nats3_dagster.jetstream.publish.outbox import Outbox
from nats3_dagster.jetstream.publish.state import Event, ImpossibleEventError
from nats3_dagster.jetstream.read.scan import scan

INBOX = "_INBOX.me"
MARKER = f"MSG {INBOX}.".encode()


class NotingWire:
    """A connection that notes what is sent, until it is lost."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_lost = False
        self.steps: list[Any] = []
        self.on_loss: list[Any] = []
        self.on_refusal: list[Any] = []

    address, inbox_prefix = "nats.example", "_INBOX"
    # What a flush raises, and how long it may wait.
    failure: Exception | None = None
    patience: Any = None

    def new_inbox(self) -> str:
        return INBOX

    def send(self, part: bytes) -> bool:
        if not self.is_lost:
            self.sent.append(bytes(part))
        return not self.is_lost

    async def subscribe(self, subject: str, cb: Any) -> None:
        await cb(None)
        self.steps.append(("subscribe", subject))

    async def publish(self, subject: str) -> None:
        self.steps.append(("publish", subject))

    async def flush(self, patience: Any = None) -> None:
        self.steps.append("flush")
        self.patience = patience
        if self.failure:
            raise self.failure

    def divert(self, marker: bytes, take: Any) -> None:
        self.steps.append(("divert", marker))
        self.take = take


def publication(first: int, count: int) -> Publication:
    """Messages on subjects of their own, from `s.<first>` on."""
    names = pa.array([f"s.{number}".encode() for number in range(first, first + count)], pa.binary())
    return Publication.of(names, pa.array([None] * count, pa.binary()), pa.array([b""] * count, pa.binary()))


class Case:
    """An outbox that sends, and what came of it."""

    def __init__(
        self, *streams: str, messages: int = 4, kind: type[Outbox] = Outbox, ack_timeout_s: float = 9.0
    ) -> None:
        self.wire, self.changes = NotingWire(), 0
        self.outbox = kind(cast("Connection", self.wire), messages, 10_000, ack_timeout_s, self._changed, streams)
        self.outbox.life.on(Event.OPENED)

    def _changed(self) -> None:
        self.changes += 1

    def add(self, count: int) -> None:
        given = self.outbox.window.given
        self.outbox.add(encode(publication(given, count), f"{INBOX}.", given))

    def answer(self, *answers: tuple[int | str, str]) -> None:
        """Lets the server answer these in one read: the rest of the reply subject, and the body."""
        frames = "".join(f"MSG {INBOX}.{token} 4 {len(body)}\r\n{body}\r\n" for token, body in answers)
        self.outbox._on_frames(scan(frames.encode(), 0, MARKER))

    def ack(self, *numbers: int, stream: str = "S", seq: int | None = None, more: str = "") -> None:
        """Lets a stream acknowledge these; their sequences follow from the numbers."""
        bodies = [f'{{"stream":"{stream}","seq":{(10 + n) if seq is None else seq}{more}}}' for n in numbers]
        self.answer(*zip(numbers, bodies, strict=True))

    @property
    def counts(self) -> tuple[int, int]:
        return self.outbox.window.sent, self.outbox.window.acked

    @property
    def failure(self) -> str:
        """The failure's kind and words; empty without one."""
        failure = self.outbox.failure
        return f"{type(failure).__name__}: {failure.what}" if failure else ""


@pytest.mark.parametrize(
    ("reads", "acked"),
    [
        ([[0]], 1),
        ([[0, 1, 2, 3]], 4),
        ([[0], [1], [2], [3]], 4),
        # Early ones wait for those before them.
        ([[1]], 0),
        ([[3], [1]], 0),
        ([[1], [0]], 2),
        ([[1, 0]], 2),
        ([[3], [0, 1]], 2),
        ([[3], [0, 1], [2]], 4),
        ([[2, 3], [0], [1]], 4),
        ([[3, 2, 1, 0]], 4),
    ],
)
def test_messages_count_from_the_first_one_without_a_hole(reads: list[list[int]], acked: int) -> None:
    case = Case(messages=4)
    case.add(9)
    for read in reads:
        case.ack(*read)
    assert (case.counts, case.failure) == ((4 + acked, acked), "")
    assert case.outbox.is_answered is False


def test_what_is_acknowledged_lets_the_next_ones_go() -> None:
    case = Case("S", messages=2)
    case.add(3)
    assert (case.counts, case.outbox.is_answered) == ((2, 0), False)
    case.ack(0)
    case.ack(1, 2)
    assert (case.counts, case.outbox.is_answered, case.outbox.stored) == ((3, 3), True, {"S": 12})
    assert b"".join(case.wire.sent) == b"".join(b"PUB s.%d _INBOX.me.%d 0\r\n\r\n" % (n, n) for n in range(3))


def test_the_caller_hears_when_frames_were_sent_to_their_end() -> None:
    case = Case(messages=2)
    case.add(1)
    assert case.changes == 1
    case.add(2)
    assert (case.counts, case.changes) == ((2, 0), 1)
    case.ack(0)
    assert (case.counts, case.changes) == ((3, 1), 3)


@pytest.mark.parametrize(
    ("reads", "subject"),
    [
        ([[0], [0]], "an earlier subject"),
        ([[0, 0]], "s.0"),
        ([[2], [2]], "s.2"),
        ([[2, 2]], "s.2"),
        ([[2], [0, 1], [2]], "an earlier subject"),
        # One that was never sent.
        ([[4]], "an earlier subject"),
        ([[0, 1, 2, 3, 4]], "s.4"),
        ([[3, 4]], "an earlier subject"),
    ],
)
def test_what_is_acknowledged_twice_or_was_not_sent_ends_it(reads: list[list[int]], subject: str) -> None:
    case = Case(messages=4)
    case.add(4)
    for read in reads:
        assert case.failure == ""
        case.ack(*read)
    assert "was acknowledged twice" in case.failure
    assert case.failure.startswith("TargetError: ")


def test_after_a_failure_nothing_is_sent_and_the_first_one_stays() -> None:
    case = Case(messages=4)
    case.add(4)
    case.ack(0)
    before, changes = len(case.wire.sent), case.changes
    case.outbox.fail(Interrupted("The first"))
    assert case.changes == changes + 1
    case.outbox.fail(TargetError("The second"))
    case.add(2)
    case.ack(1)
    assert case.failure == "Interrupted: The first; at least 1 messages were stored before"
    assert (len(case.wire.sent), case.counts) == (before, (4, 2))


def test_one_that_a_newer_attempt_stops_sends_nothing_more() -> None:
    case = Case(messages=4)
    case.add(1)
    assert case.outbox.stop(Interrupted("Another one"))
    assert not case.outbox.stop(Interrupted("A third one"))
    case.add(1)
    assert case.counts == (1, 0)
    assert case.failure.startswith("Interrupted: Another one")


def test_a_lost_connection_leaves_it_open_what_was_sent() -> None:
    case = Case(messages=2)
    case.add(3)
    case.wire.is_lost = True
    case.ack(0)
    assert (case.counts, case.failure) == (
        (2, 1),
        "Interrupted: The connection to NATS was lost; at least 1 messages were stored before",
    )


@pytest.mark.parametrize(("still", "sent"), [(LEASE_S - 1, 1), (LEASE_S + 1, 0)])
def test_a_process_that_stood_still_sends_nothing(still: float, sent: int) -> None:
    case = Case()
    case.outbox._alive_at = time.monotonic() - still
    case.add(1)
    assert case.counts == (sent, 0)
    assert bool(case.failure) == (not sent)


@pytest.mark.parametrize(
    ("streams", "acks", "failure"),
    [
        # Without streams any may take it, in any order.
        ((), [(0, "S", 5), (1, "S", 5), (2, "T", 1), (3, "S", 4)], ""),
        (("S",), [(0, "S", 5), (1, "S", 6)], ""),
        (("S",), [(0, "S", 5), (1, "S", 5)], "TargetError: Stream S acknowledged sequence 5 after 5"),
        (("S",), [(0, "S", 5), (1, "S", 4)], "TargetError: Stream S acknowledged sequence 4 after 5"),
        (("S",), [(0, "S", 1)], ""),
        (("S",), [(0, "T", 5)], "TargetError: Stream T took a message, and the replay publishes into S"),
        # Answers of several streams come in any order.
        (("S", "T"), [(0, "S", 5), (1, "T", 1), (2, "S", 4)], ""),
        (("S", "T"), [(0, "S", 5), (1, "U", 1)], "TargetError: Stream U took a message"),
    ],
)
def test_a_stream_may_acknowledge(streams: tuple[str, ...], acks: list[tuple[int, str, int]], failure: str) -> None:
    case = Case(*streams)
    case.add(4)
    for number, stream, seq in acks:
        case.ack(number, stream=stream, seq=seq)
    assert case.failure.startswith(failure) if failure else case.failure == ""
    assert case.counts == (4, len(acks) - bool(failure))
    stored = {name: max(seq for _, stream, seq in acks if stream == name) for name in {stream for _, stream, _ in acks}}
    assert failure or case.outbox.stored == stored


def test_a_duplicate_counts_where_the_streams_may_know_the_messages_and_ends_it_elsewhere() -> None:
    open_case, closed = Case(), Case("S")
    for case in (open_case, closed):
        case.add(2)
        case.ack(0, seq=9)
        case.ack(1, seq=3, more=',"duplicate": true')
        assert case.outbox.duplicates == 1
    assert (open_case.counts, open_case.failure, open_case.outbox.stored) == ((2, 2), "", {"S": 9})
    assert closed.counts == (2, 1)
    assert closed.failure.startswith("Interrupted: Stream S knows a message on s.1 that it did not hold")


@pytest.mark.parametrize(
    "body",
    ["{}", '{"stream":"S"}', '{"seq":1}', '{"seq":1,"stream":1}', '{"seq":"1","stream":"S"}', "[]", "x"],
)
def test_an_unknown_answer_ends_it(body: str) -> None:
    case = Case()
    case.add(2)
    case.answer((0, body))
    assert case.counts == (2, 0)
    assert " answered " in case.failure
    assert case.failure.startswith("Interrupted: ")


def test_a_refusal_ends_it_and_tells_the_targets_last_message() -> None:
    case = Case("S")
    case.add(3)
    case.ack(0)
    refused = '{"stream":"S","seq":0,"error":{"code":400,"err_code":10070,"description":"wrong last msg ID: m-7"}}'
    later = refused.replace("m-7", "m-8")
    case.answer((1, refused), (2, later))
    assert (case.outbox.last_id, case.counts) == ("m-7", (3, 1))
    assert case.failure.startswith("Interrupted: S refused a message on s.1")


def test_an_answer_is_overdue_after_its_time() -> None:
    case = Case()
    now = time.monotonic()
    assert not case.outbox._overdue(now + 1000)
    case.add(1)
    since = case.outbox.window.waiting_since
    assert since is not None
    assert not case.outbox._overdue(since + 9.0)
    assert case.outbox._overdue(since + 9.1)
    case.ack(0)
    assert not case.outbox._overdue(since + 1000)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ('permissions violation for publish to "big.one"', "does not let this user publish to Big.One;"),
        ('permissions violation for publish to "other"', "does not let this user publish to other;"),
        ('permissions violation for subscription to "big.one"', ""),
        ("slow consumer: publish", ""),
    ],
)
def test_a_subject_that_the_server_refuses_ends_it(words: str, says: str) -> None:
    """The client has the server's words in small letters."""
    case = Case()
    names = pa.array([b"small", b"Big.One"], pa.binary())
    given = Publication.of(names, pa.array([None, None], pa.binary()), pa.array([b"", b""], pa.binary()))
    case.outbox.add(encode(given, f"{INBOX}.", 0))
    case.outbox._on_refusal(words)
    assert says in case.failure
    assert bool(case.failure) == bool(says)


class Ticking(Outbox):
    """An outbox that counts its looks at the time, and is closed by one of them."""

    ticks, last = 0, 5

    def _keep_alive(self) -> None:
        self.ticks += 1
        if self.ticks == self.last:
            self._watch.cancel()


@pytest.mark.parametrize(
    ("sends", "is_closed", "is_failure"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_the_watch_ends_what_is_not_answered_in_time(sends: bool, is_closed: bool, is_failure: bool) -> None:
    case = Case(kind=Ticking, ack_timeout_s=0.04)
    if sends:
        case.add(1)
    if is_closed:
        case.outbox.life.on(Event.CLOSE)
    case.outbox._alive_at = before = time.monotonic() - 1

    async def watch() -> None:
        case.outbox._watch = asyncio.create_task(case.outbox._watch_over())
        await asyncio.wait([case.outbox._watch], timeout=20)

    began = time.monotonic()
    asyncio.run(watch())
    assert cast("Ticking", case.outbox).ticks == 5
    # It looks at least as often as the answers' time asks for.
    assert time.monotonic() - began < 2
    assert case.outbox._alive_at > before + 0.9
    assert ("did not acknowledge messages within" in case.failure) == is_failure


def test_the_watch_of_a_process_that_stood_still_does_not_hide_it() -> None:
    case = Case(kind=Ticking, ack_timeout_s=0.04)
    case.outbox._alive_at = still = time.monotonic() - LEASE_S - 1

    async def watch() -> None:
        case.outbox._watch = asyncio.create_task(case.outbox._watch_over())
        await asyncio.wait([case.outbox._watch], timeout=20)

    asyncio.run(watch())
    assert case.outbox._alive_at == still
    case.add(1)
    assert "This process stood still for" in case.failure


def test_a_closed_outbox_watches_and_sends_nothing() -> None:
    case = Case()

    async def close() -> bool:
        case.outbox._watch = asyncio.create_task(case.outbox._watch_over())
        await asyncio.sleep(0)
        case.outbox.close()
        await asyncio.wait([case.outbox._watch])
        return case.outbox._watch.cancelled()

    assert asyncio.run(close())
    case.add(1)
    assert (case.counts, case.failure) == ((0, 0), "")


async def opened(case: Case) -> None:
    await case.outbox.open()
    case.outbox.close()
    await asyncio.wait([case.outbox._watch])


def test_an_outbox_listens_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(sending, "check_allowed", lambda _, *subjects: asked.append((*subjects, *case.wire.steps)))
    case = Case()
    asyncio.run(opened(case))
    before = [("subscribe", f"{INBOX}.>"), ("publish", f"{INBOX}.hello"), "flush"]
    assert asked == [(f"{INBOX}.>", f"{INBOX}.hello", *before)]
    assert case.wire.steps == [*before, ("divert", MARKER)]
    assert (case.wire.take, case.wire.on_refusal) == (case.outbox._on_frames, [case.outbox._on_refusal])
    (lost,) = case.wire.on_loss
    lost()
    assert case.failure.startswith("Interrupted: The connection to NATS was lost")


@pytest.mark.parametrize(
    ("sent", "failure", "unknown", "is_stored"),
    [
        (1, None, None, True),
        (0, None, SourceError("Nobody is asked"), True),
        (1, None, SourceError("No answer"), False),
        (1, TimeoutError("No PONG"), None, False),
        (0, NatsError("No PONG"), None, False),
    ],
)
def test_what_was_sent_is_stored_when_the_stream_says_so(
    sent: int,
    failure: Exception | None,
    unknown: Exception | None,
    is_stored: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, asked = Case(), list[Any]()

    async def until_stored(_: Any, subject: str, until: float) -> int:
        asked.append((subject, round(until - time.monotonic(), 1)))
        if unknown:
            raise unknown
        return 1

    monkeypatch.setattr(sending, "until_stored", until_stored)
    if sent:
        case.add(sent)
    case.wire.failure = failure
    assert asyncio.run(case.outbox.parsed()) == (failure is None)
    assert case.wire.patience == 3
    assert asyncio.run(case.outbox.all_stored()) == is_stored
    assert asked == ([("s.0", 3.0)] if sent and not failure else [])


@pytest.mark.parametrize("acked", [0, 1])
def test_a_message_that_no_stream_takes_ends_it(acked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there was a stream before decides what to do next."""

    async def nobody_listens(_: Any, subject: str, hint: Any) -> TargetError:
        return TargetError(f"No stream listens on {subject}", hint)

    monkeypatch.setattr(sending, "nobody_listens", nobody_listens)
    case = Case()
    case.add(3)

    async def answered() -> None:
        for number in range(acked):
            case.ack(number)
        headers = b"NATS/1.0 503\r\n\r\n"
        frame = b"HMSG %b.%d 4 %d %d\r\n%b\r\n" % (INBOX.encode(), acked, len(headers), len(headers), headers)
        case.outbox._on_frames(scan(frame, 0, MARKER))
        asking = case.outbox._asking
        case.outbox._on_frames(scan(frame, 0, MARKER))
        assert case.outbox._asking is asking
        case.add(1)
        assert case.counts == (3, acked)
        await asyncio.wait([case.outbox._asking])

    asyncio.run(answered())
    assert case.failure.startswith(f"TargetError: No stream listens on s.{acked}; at least {acked} messages")
    assert case.outbox.failure
    assert case.outbox.failure.hint == (sending.GONE if acked else sending.NONE_YET)


# Batches


class BatchCase(Case):
    """An outbox of batches, with one that has begun."""

    def __init__(self, *streams: str, messages: int = 100) -> None:
        super().__init__(*streams, messages=messages, kind=BatchOutbox)
        self.begin("b1")

    @property
    def batches(self) -> BatchOutbox:
        return cast("BatchOutbox", self.outbox)

    def begin(self, batch: str) -> None:
        self.open = OpenBatch(batch, 50, time.monotonic())
        self.batches.begin(batch, 50, "s.>")

    def add(self, count: int) -> None:
        given = self.outbox.window.given
        self.outbox.add(self.open.encode(self.batches, publication(given, count)))

    def tell(self, body: str, *, count: int = 1, batch: str = "") -> None:
        """Lets the server answer a message of the batch."""
        self.answer((f"{batch or self.open.id}.50.fail.{count}.1.$FI", body))

    def flow(self, seq: int, msgs: int) -> None:
        self.tell(f'{{"type":"ack","seq":{seq},"msgs":{msgs}}}')

    def confirm(self, count: int, stream: str = "S", seq: int = 100) -> None:
        self.tell(f'{{"stream":"{stream}","seq":{seq},"batch":"{self.open.id}","count":{count}}}')


def test_a_batch_sends_one_message_until_it_is_answered_then_three_groups() -> None:
    case = BatchCase()
    case.add(20)
    assert case.counts == (1, 0)
    case.flow(0, 2)
    assert case.counts == (6, 0)
    case.flow(1, 2)
    assert case.counts == (7, 1)
    # A count that goes back is none, and a flow of 0 is one message.
    case.flow(0, 0)
    assert case.counts == (7, 1)
    case.flow(7, 0)
    assert case.counts == (10, 7)
    assert (case.failure, case.outbox.is_answered) == ("", False)


def test_a_batch_stays_within_the_window() -> None:
    case = BatchCase(messages=4)
    case.add(9)
    case.flow(0, 50)
    assert case.counts == (4, 0)
    case.flow(1, 50)
    assert case.counts == (5, 1)


def test_replies_count_from_one_in_each_batch_and_the_first_begins_it() -> None:
    case = BatchCase(messages=100)
    case.add(1)
    case.flow(1, 50)
    case.add(2)
    case.batches.end()
    case.confirm(3)
    case.begin("b2")
    case.add(1)
    case.add(1)
    case.flow(1, 50)
    case.batches.end()
    assert b"".join(case.wire.sent).replace(b"\r\n", b"") == (
        b"PUB s.0 _INBOX.me.b1.50.fail.1.0.$FI 0"
        b"PUB s.1 _INBOX.me.b1.50.fail.2.1.$FI 0PUB s.2 _INBOX.me.b1.50.fail.3.1.$FI 0"
        b"PUB s.> _INBOX.me.b1.50.fail.4.3.$FI 0"
        b"PUB s.3 _INBOX.me.b2.50.fail.1.0.$FI 0PUB s.4 _INBOX.me.b2.50.fail.2.1.$FI 0"
        b"PUB s.> _INBOX.me.b2.50.fail.3.3.$FI 0"
    )
    assert case.counts == (5, 4)
    case.confirm(2, seq=200)
    assert (case.counts, case.outbox.is_answered, case.failure) == ((5, 5), True, "")


def test_the_end_follows_the_last_message_that_the_window_lets_go() -> None:
    case = BatchCase(messages=2)
    case.add(3)
    case.batches.end()
    assert not any(b".3.$FI" in part for part in case.wire.sent)
    case.flow(2, 2)
    assert case.wire.sent[-1] == b"PUB s.> _INBOX.me.b1.50.fail.4.3.$FI 0\r\n\r\n"
    case.confirm(3)
    assert (case.counts, case.failure) == ((3, 3), "")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_batch_whose_count_is_not_ours_ends_it(count: int) -> None:
    case = BatchCase()
    case.add(2)
    case.flow(1, 50)
    case.batches.end()
    case.confirm(count)
    assert case.failure.startswith(f"Interrupted: The stream ended a batch of 2 messages after {count};")
    assert (case.counts, case.outbox.is_answered) == ((2, 1), False)


def test_a_batch_that_ends_before_we_end_it_ends_it() -> None:
    case = BatchCase()
    case.add(1)
    case.confirm(1)
    assert case.failure.startswith("Interrupted: The stream ended a batch of 1 messages after 1;")


def test_a_batch_that_another_stream_confirms_ends_it() -> None:
    case = BatchCase("S")
    case.add(1)
    case.batches.end()
    case.confirm(1, stream="T")
    assert case.failure.startswith("TargetError: Stream T took a message")
    assert case.counts == (1, 0)


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ('{"type":"gap","last_seq":1,"seq":3}', "Interrupted: Messages 1 to 3 of a batch did not arrive"),
        ('{"type":"err","seq":2,"error":{"code":400,"description":"full"}}', "a message on s.4: full"),
        ('{"stream":"S","error":{"code":400,"description":"full"}}', "a message on s.5: full"),
        ('{"type":"ack","seq":-1,"msgs":1}', "Interrupted: A stream answered with something unknown"),
        ('{"type":"ack","seq":1}', "Interrupted: A stream answered with something unknown"),
        ('{"type":"ack","seq":"1","msgs":1}', "Interrupted: A stream answered with something unknown"),
        ('{"type":"other"}', "Interrupted: A stream answered with something unknown"),
    ],
)
def test_any_other_answer_to_the_second_batch_ends_it(body: str, failure: str) -> None:
    case = BatchCase()
    case.add(3)
    case.flow(1, 50)
    case.batches.end()
    case.confirm(3)
    case.begin("b2")
    case.add(4)
    case.flow(1, 50)
    # Of an earlier batch: it does not matter.
    case.tell(body, count=3, batch="b1")
    assert (case.counts, case.failure) == ((7, 4), "")
    case.tell(body, count=3)
    assert failure in case.failure
    assert case.counts == (7, 4)


def test_an_answer_between_two_batches_does_not_matter() -> None:
    case = BatchCase()
    case.add(1)
    case.batches.end()
    case.confirm(1)
    case.confirm(1)
    case.flow(5, 5)
    assert (case.counts, case.outbox.is_answered, case.failure) == ((1, 1), True, "")


@pytest.mark.parametrize("step", ["begin", "end"])
def test_a_batch_begins_and_ends_once(step: str) -> None:
    case = BatchCase()
    case.add(1)
    if step == "end":
        case.batches.end()
    with pytest.raises(ImpossibleEventError):
        case.begin("b2") if step == "begin" else case.batches.end()


@pytest.mark.parametrize(
    ("messages", "largest", "flow"),
    [(10_000, 1, FLOW), (FLOW - 1, 1, FLOW - 1), (10_000, 100, 100), (10_000, 10_000, 1), (10_000, 10_001, 1)],
)
def test_a_group_fits_into_the_window(messages: int, largest: int, flow: int) -> None:
    assert BatchCase(messages=messages).batches.flow_for(largest) == flow


def test_a_quiet_batch_is_asked_for() -> None:
    """By the number of its last message, and only once the server has answered it."""
    case = BatchCase()
    case.add(1)
    case.batches.end()
    case.confirm(1)
    case.begin("b2")
    case.add(1)

    def keep_alive(quiet: float) -> bytes:
        case.outbox._sent_at = time.monotonic() - quiet
        before = len(case.wire.sent)
        case.outbox._keep_alive()
        assert len(case.wire.sent) <= before + 1
        return b"".join(case.wire.sent[before:])

    assert keep_alive(KEEP_ALIVE_S + 1) == b""
    case.flow(1, 50)
    case.add(1)
    assert keep_alive(KEEP_ALIVE_S - 1) == b""
    assert keep_alive(KEEP_ALIVE_S + 1) == b"PUB s.> _INBOX.me.b2.50.fail.2.4.$FI 0\r\n\r\n"
    assert time.monotonic() - case.outbox._sent_at < KEEP_ALIVE_S
    case.batches.end()
    assert keep_alive(KEEP_ALIVE_S + 1) == b""
    case.confirm(2)
    assert keep_alive(KEEP_ALIVE_S + 1) == b""


@pytest.mark.parametrize(
    ("steps", "is_owed"),
    [
        ([], False),
        (["add"], True),
        # A part of a group may wait.
        (["add", "flow 1"], False),
        (["add", "flow 1", "add"], False),
        (["add", "flow 1", "add", "add"], True),
        (["add", "flow 1", "ping"], True),
        (["add", "flow 1", "ping", "flow 1"], False),
        (["add", "end"], True),
        (["add", "end", "confirm"], False),
    ],
)
def test_what_a_server_owes_to_a_batch(steps: list[str], is_owed: bool) -> None:
    case = BatchCase()
    todo: dict[str, Any] = {
        "add": lambda: case.add(1),
        "flow 1": lambda: case.flow(1, 2),
        "ping": lambda: (setattr(case.outbox, "_sent_at", 0.0), case.outbox._keep_alive()),
        "end": case.batches.end,
        "confirm": lambda: case.confirm(1),
    }
    for step in steps:
        todo[step]()
    since = case.batches._waiting_since
    assert not case.outbox._overdue(since + 9)
    if not is_owed:
        assert case.batches._waiting_since == since + 9
        assert not case.outbox._overdue(since + 1000)
    else:
        assert case.outbox._overdue(since + 9.1)
    assert case.failure == ""


def test_a_protocol_message_that_cannot_be_sent_ends_it() -> None:
    case = BatchCase()
    case.add(1)
    case.wire.is_lost = True
    case.batches.end()
    assert case.failure.startswith("Interrupted: The connection to NATS was lost")
