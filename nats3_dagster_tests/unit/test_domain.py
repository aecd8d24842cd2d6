"""The domain without a server: names, requests, turns, and questions that are asked together."""

import threading
import time

import pytest

from nats3_dagster.archive.served.permissions import check_domain
from nats3_dagster.archive.served.row_groups import RowGroups
from nats3_dagster.archive.served.served_stream import named
from nats3_dagster.archive.served.versions import Together
from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.responder import Request
from nats3_dagster.model import Incarnation, Message
from nats3_dagster.nats import replies, turns
from nats3_dagster.nats.get_request import BadRequest, GetRequest, parse
from nats3_dagster.nats.turns import Turns
from nats3_dagster_tests.support.chunks import batch_of


@pytest.mark.parametrize(
    ("streams", "served"),
    [
        ({}, {}),
        ({"a": "EV"}, {"EV": "a"}),
        ({"a": "EV", "b": "EV", "c": "OT"}, {"OT": "c", "a": "a", "b": "b"}),
        # An archive that gets its own name takes it from another archive's stream of that name.
        ({"a": "EV", "b": "EV", "c": "a"}, {"a": "a", "b": "b", "c": "c"}),
        ({"a": "EV", "b": "EV", "c": "a", "d": "c"}, {"a": "a", "b": "b", "c": "c", "d": "d"}),
        ({"EV": "EV", "b": "EV"}, {"EV": "EV", "b": "b"}),
        ({"EV": "OT", "b": "EV"}, {"EV": "b", "OT": "EV"}),
    ],
)
def test_each_archive_has_one_name_and_each_name_one_archive(streams: dict[str, str], served: dict[str, str]) -> None:
    assert named(streams) == served
    assert sorted(named(streams).values()) == sorted(streams)


@pytest.mark.parametrize("name", ["archive", "a-1_B", "x" * 64])
def test_a_domain_is_one_token(name: str) -> None:
    assert check_domain(name) == name


@pytest.mark.parametrize("name", ["", "a.b", "*", ">", "a b", "é", "x" * 65, "API", "ack", "FC"])
def test_what_is_no_domain_is_refused(name: str) -> None:
    with pytest.raises(OperatorError):
        check_domain(name)


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        (b'{"seq":3}', GetRequest(seq=3)),
        (b'{"seq":null,"last_by_subj":"a"}', GetRequest(last_by_subj="a")),
        (b'{"start_time":"1970-01-01T00:00:00.000000001Z","batch":2}', GetRequest(start_ns=1, batch=2)),
        (b'{"multi_last":["a","b.*"],"up_to_seq":9}', GetRequest(multi_last=("a", "b.*"), up_to_seq=9)),
        (b'{"seq":1,"no_hdr":true,"other":[1]}', GetRequest(seq=1, no_headers=True)),
    ],
)
def test_a_request_is_read_as_a_server_reads_it(payload: bytes, wanted: GetRequest) -> None:
    assert parse(payload) == wanted


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b'"seq"', b'{"seq":-1}', b'{"seq":true}', b'{"seq":1.5}', b'{"multi_last":"a"}',
                b'{"start_time":1}', b'{"start_time":"-2h"}', b"\xff\xfe"]
)  # fmt: skip
def test_what_is_no_request_is_refused(payload: bytes) -> None:
    with pytest.raises(BadRequest):
        parse(payload)


def test_a_message_keeps_its_own_headers_before_those_of_the_reply() -> None:
    life = Incarnation("EV", 1)
    message = Message(life, 7, 1_500_000_000, "a", b"a\xff", b"NATS/1.0\r\nNats-Subject: mine\r\n\r\n", b"x")
    assert replies.message_headers("EV", message) == (
        b"NATS/1.0\r\nNats-Subject: mine\r\nNats-Stream: EV\r\nNats-Subject: a\xff\r\nNats-Sequence: 7\r\n"
        b"Nats-Time-Stamp: 1970-01-01T00:00:01.5Z\r\n\r\n"
    )


def _request(client: str, number: int) -> Request:
    return Request("s", f"_INBOX.{client}.{number}", b"%d" % number)


def test_clients_take_turns() -> None:
    waiting = Turns()
    for number in range(3):
        assert waiting.put(_request("many", number))
    assert waiting.put(_request("one", 0))
    waiting.end()
    taken = list(iter(waiting.take, None))
    assert [r.reply for r in taken if r] == ["_INBOX.many.0", "_INBOX.one.0", "_INBOX.many.1", "_INBOX.many.2"]


def test_a_client_with_too_many_is_refused_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "OF_CLIENT", 2)
    monkeypatch.setattr(turns, "OF_ALL", 4)
    waiting = Turns()
    assert [waiting.put(_request("many", n)) for n in range(3)] == [True, True, False]
    assert [waiting.put(_request(client, 0)) for client in ("a", "b", "c")] == [True, True, False]
    assert waiting.take() is not None
    assert waiting.put(_request("c", 0))


def test_questions_are_asked_together_and_never_answered_by_an_older_call() -> None:
    calls, may_end, begun = list[float](), threading.Semaphore(0), threading.Semaphore(0)

    def ask(_: str) -> float:
        at = time.monotonic()
        calls.append(at)
        begun.release()
        may_end.acquire()
        return at

    together, answers = Together(ask), list[tuple[float, float]]()

    def one() -> None:
        asked = time.monotonic()
        answers.append((asked, together.now("a")))

    first = threading.Thread(target=one)
    first.start()
    begun.acquire()
    others = [threading.Thread(target=one) for _ in range(20)]
    for other in others:
        other.start()
    while len(together._next) == 0:
        time.sleep(0.001)
    may_end.release(30)
    for thread in (first, *others):
        thread.join()
    assert all(answer >= asked for asked, answer in answers)
    assert len(answers) == 21
    assert len(calls) < 10


def test_an_error_reaches_all_that_asked_and_the_next_question_is_asked_again() -> None:
    failing = True

    def ask(_: str) -> int:
        if failing:
            raise OSError("gone")
        return 1

    together = Together(ask)
    with pytest.raises(OSError, match="gone"):
        together.now("a")
    failing = False
    assert together.now("a") == 1


def test_row_groups_are_kept_up_to_their_bytes() -> None:
    batches = [batch_of([(n, 1, "a", None, b"x" * 1000)]) for n in range(10)]
    kept = RowGroups(max_bytes=3 * batches[0].nbytes)
    for n, batch in enumerate(batches):
        kept.put("sha", n, n, n, batch)
    assert [kept.find("sha", n) is not None for n in range(10)] == [False] * 7 + [True] * 3
    assert kept.find("other", 9) is None
    assert kept.find("sha", 10) is None
