"""The parts of the demo: its names, the lines of a host, the messages made of them, the comparison that judges the
replay, and what it says in the end."""

import pytest

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.defs.jobs.run_times import RunTimes
from nats3_dagster.dev.compare import Comparison, compare
from nats3_dagster.dev.demo_names import Names, free_names
from nats3_dagster.dev.demo_report import DemoResult, as_rows, document_of
from nats3_dagster.dev.history import Past
from nats3_dagster.dev.loglines import MAX_LINE, as_messages, read_lines
from nats3_dagster.dev.publish import BATCH, publish_live
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS
from nats3_dagster.jetstream.streams import create_stream, delete_stream
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.subjects import Transform

pytestmark = pytest.mark.slow

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


def test_a_demo_takes_names_that_nothing_has(workspace, bucket):
    link = workspace.link
    assert free_names(workspace) == Names(1)
    assert (Names(1).stream, Names(1).target, Names(1).archive) == ("LOGS", "LOGS_REPLAY", "logs")
    # A stream by one of its names, also by that of the target; then an archive whose stream is gone.
    create_stream(link, {"name": "LOGS_REPLAY", "subjects": ["anything"], "storage": "memory"})
    assert free_names(workspace) == Names(2)
    create_stream(link, {"name": "LOGS_2", "subjects": ["else"], "storage": "memory"})
    assert free_names(workspace) == Names(3)
    create(workspace, ArchiveSpec(name="logs_3", stream="LOGS_2", bucket=bucket))
    assert free_names(workspace) == Names(4)
    # A stream of another name that takes some of the subjects would take the messages too.
    create_stream(link, {"name": "MINE", "subjects": ["replay.logs_4.p1.>"], "storage": "memory"})
    names = free_names(workspace)
    assert (names.stream, names.target, names.archive) == ("LOGS_5", "LOGS_5_REPLAY", "logs_5")
    assert (names.read, names.write) == ("logs_5.>", "replay.logs_5.>")
    for name in ("MINE", "LOGS_2", "LOGS_REPLAY"):
        delete_stream(link, name)
    assert free_names(workspace) == Names(1)


def test_a_stream_of_all_subjects_leaves_no_room_for_a_demo(workspace):
    config = {"name": "ALL", "subjects": [">"], "storage": "memory", "no_ack": True}
    create_stream(workspace.link, config)
    with pytest.raises(OperatorError, match=r"a stream captures the subjects of each\. Set NATS3_HOME to"):
        free_names(workspace)


def test_what_the_time_went_into():
    result = DemoResult(
        names=Names(2),
        server="2.15.1",
        messages=60_000,
        distinct_lines=8,
        hours=48,
        chunks=48,
        payload_bytes=9_000,
        stored_bytes=1_000,
        replayed=60_000,
        mismatches=0,
        publish_s=1.04,
        capture_s=17.9,
        replay_s=12.5,
        compare_s=0.5,
        capture_times=RunTimes(spark_s=3.5, work_s=7.9),
        replay_times=None,
        replay_messages_s=0.42,
    )
    rows = dict(as_rows(result))
    assert rows["stream"] == "LOGS_2 (the names of LOGS are taken; nothing of it was touched)"
    assert rows["capture"] == (
        "60,000 messages in 17.9 s: 7.9 s for the 48 hours (each a chunk), 3.5 s to start Spark, 6.5 s Dagster"
    )
    assert rows["replay"] == "60,000 messages in 12.5 s, the start of Dagster and Spark included"
    view = document_of(result).plain()
    assert (view["stream"], view["archive"], view["target"], view["ok"]) == ("LOGS_2", "logs_2", "LOGS_2_REPLAY", True)
    parts = ("dagster_s", "spark_s", "work_s")
    assert [view[f"capture_{part}"] for part in parts] == [6.5, 3.5, 7.9]
    assert [view[f"replay_{part}"] for part in parts] == [None, None, None]
