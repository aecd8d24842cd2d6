"""The parts of the demo: the lines of a host, the messages made of them, and the comparison that judges the replay."""

import pytest

from nats3_dagster.dev.compare import Comparison, compare
from nats3_dagster.dev.history import Past
from nats3_dagster.dev.loglines import MAX_LINE, as_messages, read_lines
from nats3_dagster.dev.publish import BATCH, publish_live
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS
from nats3_dagster.jetstream.streams import create_stream
from nats3_dagster.subjects import Transform

BACK = Transform("logs.>", "back.logs.>")
LINES = [("/var/log/a", b"started"), ("/var/log/a", b"ERROR: full"), ("/var/log/b", b"\xff\xfe")]


def test_the_lines_of_text_files_and_of_nothing_else(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.log").write_bytes(b"one\r\n\ntwo\n" + b"x" * (MAX_LINE + 1))
    (tmp_path / "sub" / "b.log").write_bytes(b"\xfffour\n")
    (tmp_path / "wtmp").write_bytes(b"no\0text\n")
    (tmp_path / "empty").touch()
    a, b = str(tmp_path / "a.log"), str(tmp_path / "sub" / "b.log")
    lines = [(a, b"one"), (a, b"two"), (a, b"x" * MAX_LINE), (b, b"\xfffour")]
    assert read_lines(10, tmp_path) == lines
    assert read_lines(2, tmp_path) == lines[:2]


def test_a_host_without_logs_is_told_what_to_do(tmp_path):
    with pytest.raises(OperatorError, match=f"no readable log on this host. Put a text file under {tmp_path}"):
        read_lines(10, tmp_path)


def test_messages_fill_the_hours_before_a_time_in_order():
    until = 500_000 * HOUR_NS
    messages = list(as_messages(LINES, 4800, until, 48))
    times = [m.time_ns for m in messages]
    assert [m.seq for m in messages] == list(range(1, 4801))
    assert times == sorted(times)
    assert {time // HOUR_NS for time in times} == set(range(until // HOUR_NS - 48, until // HOUR_NS))
    assert len({m.headers for m in messages}) == 4800  # also of a line that is repeated
    assert [m.headers.count(b"Severity: error") for m in messages[:3]] == [0, 1, 0]


@pytest.mark.parametrize(
    ("change", "mismatches"),
    [
        (lambda sent: sent, 0),
        (lambda sent: [sent[0]._replace(subject="logs.p9.other"), *sent[1:]], 1),
        (lambda sent: [sent[0]._replace(headers=b""), *sent[1:]], 1),
        (lambda sent: [sent[0]._replace(headers=sent[0].headers.replace(b"Log", b"log")), *sent[1:]], 1),
        (lambda sent: [sent[0]._replace(data=b""), *sent[1:]], 1),
        (lambda sent: sent[:-3], 3),
        (lambda sent: [*sent, sent[-1]], 1),
        (lambda sent: [sent[1], sent[0], *sent[2:]], 2),
    ],
    ids=["the same", "a subject", "no headers", "a header", "a payload", "fewer", "one twice", "another order"],
)
def test_every_difference_of_a_replay_is_counted(nats, link, change, mismatches):
    sent = [*as_messages(LINES, BATCH + 10, 500_000 * HOUR_NS, 1), Past(0, 0, "logs.plain", b"", b"")]
    received = [m._replace(subject=f"back.{m.subject}") for m in change(sent)]
    for name, subject, messages in (("LOGS", "logs.>", sent), ("BACK", "back.>", received)):
        create_stream(link, {"name": name, "subjects": [subject], "storage": "memory"})
        counts: list[int] = []
        publish_live(nats.options, messages, counts.append)
        assert counts == [BATCH, len(messages)]
    assert compare(nats.options, "LOGS", "BACK", BACK) == Comparison(len(sent), len(received), mismatches)
