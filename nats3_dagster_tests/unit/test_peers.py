"""The comparison of `make peers`, what it reads of other programs, and the figures that it makes of the rounds."""

import base64
import gzip
import io
import json
import os
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nats3_dagster_tests.bench.rows import SUBJECTS, batch_of
from nats3_dagster_tests.peers.comparison import Comparison, Published
from nats3_dagster_tests.peers.deliveries import next_message
from nats3_dagster_tests.peers.jet_capture import file_messages
from nats3_dagster_tests.peers.meter import Meter, PeerError, ServerPids, Usage
from nats3_dagster_tests.peers.nats3_server import RESUMED_AFTER, Looks, configuration
from nats3_dagster_tests.peers.report import by_tool, draw_report, middle, print_report, ratio
from nats3_dagster_tests.peers.trial import Trial

# Four messages of two subjects, in turn.
SENT = [("a", b"first"), ("b", b"second"), ("a", b"third"), ("b", b"fourth")]


def compared(*returned: tuple[str, bytes]) -> Comparison:
    return Published(SENT).compare(returned, "to.")


def test_equal_messages_have_no_difference() -> None:
    result = compared(*((f"to.{end}", data) for end, data in SENT))
    assert result == Comparison(4, 4, 0, 0, 0, 0, 0)
    assert result.is_equal


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        # Nothing, and all but one.
        ([], Comparison(4, 0, 4, 0, 0, 0, 0)),
        ([0, 1, 3], Comparison(4, 3, 1, 0, 0, 0, 0)),
        # One message three times; what comes again is late too, if another of its subject came in between.
        ([0, 0, 0, 1, 2, 3], Comparison(4, 6, 0, 2, 0, 0, 0)),
        ([0, 1, 2, 3, 0], Comparison(4, 5, 0, 1, 0, 0, 1)),
        # Order holds within a subject.
        ([1, 0, 3, 2], Comparison(4, 4, 0, 0, 0, 0, 0)),
        ([2, 1, 0, 3], Comparison(4, 4, 0, 0, 0, 0, 1)),
    ],
)
def test_lost_doubled_and_late_messages(returned: list[int], expected: Comparison) -> None:
    result = compared(*((f"to.{SENT[number][0]}", SENT[number][1]) for number in returned))
    assert result == expected
    assert not result.is_equal or result.returned == 4


def test_a_changed_payload_is_different_and_its_message_lost() -> None:
    result = compared(("to.a", b"First"), ("to.b", b"second"), ("to.a", b"third"), ("to.b", b"fourth"))
    assert result == Comparison(4, 4, 1, 0, 1, 0, 0)
    assert not result.is_equal


@pytest.mark.parametrize("subject", ["to.b", "a", "to.all", "to.aa"])
def test_another_subject(subject: str) -> None:
    result = compared((subject, b"first"), ("to.b", b"second"), ("to.a", b"third"), ("to.b", b"fourth"))
    assert result == Comparison(4, 4, 0, 0, 0, 1, 0)
    assert not result.is_equal


def test_equal_payloads_are_refused() -> None:
    with pytest.raises(ValueError, match="one payload"):
        Published([("a", b"same"), ("b", b"same")])


def test_the_stream_has_the_subjects_that_are_expected() -> None:
    batch = batch_of(256, 70)
    assert batch.column("subject").to_pylist() == [f"bench.in.{number % SUBJECTS}" for number in range(70)]


# What is read of others


def test_messages_on_the_wire() -> None:
    wire = io.BytesIO(
        b"PING\r\n"
        b"MSG bench.in.1 1 $JS.ACK.S.C.1.1.1.1.0 4\r\nab\r\n\r\n"
        b"HMSG bench.in.2 1 $JS.ACK.S.C.1.2.2.1.0 22 25\r\nNATS/1.0\r\nK: value\r\n\r\nxyz\r\n"
        b"HMSG _B.peers 1 31 31\r\nNATS/1.0 408 Request Timeout\r\n\r\n\r\n"
        b"HMSG bench.in.3 1 $JS.ACK.S.C.1.3.3.1.0 12 12\r\nNATS/1.0\r\n\r\n\r\n"
        b"MSG bench.in.4 1 $JS.ACK.S.C.1.4.4.1.0 0\r\n\r\n"
    )
    assert [next_message(wire) for _ in range(4)] == [
        ("bench.in.1", b"", b"ab\r\n"),
        ("bench.in.2", b"NATS/1.0\r\nK: value\r\n\r\n", b"xyz"),
        ("bench.in.3", b"NATS/1.0\r\n\r\n", b""),
        ("bench.in.4", b"", b""),
    ]
    with pytest.raises(ConnectionError):
        next_message(wire)


def test_files_of_jet_capture(tmp_path: Path) -> None:
    lines = [
        json.dumps({"subject": f"s.{n}", "header": {}, "data": base64.b64encode(bytes([n, 255])).decode()}) + "\n"
        for n in range(3)
    ]
    (tmp_path / "1.json").write_text("".join(lines[:2]))
    with gzip.open(tmp_path / "2.json.gz", "wt") as file:
        file.write(lines[2])
    (tmp_path / "3.json").touch()
    messages = list(file_messages(sorted(tmp_path.iterdir())))
    assert messages == [("s.0", b"\x00\xff"), ("s.1", b"\x01\xff"), ("s.2", b"\x02\xff")]


def test_the_configuration_of_nats3_server() -> None:
    place: Any = SimpleNamespace(
        name="t1",
        source_url="nats://127.0.0.1:4222",
        postgres=SimpleNamespace(url=lambda name: f"postgresql://me:p%22w@127.0.0.1:5432/{name}"),
        s3=SimpleNamespace(region="r", endpoint="http://127.0.0.1:9", access_key="account:user", secret_key='a"b\\c'),
    )
    assert tomllib.loads(configuration(place, 8080)) == {
        "log": "warn",
        "server": {"addr": "127.0.0.1:8080"},
        "nats": {"url": "nats://127.0.0.1:4222"},
        "postgres": {"url": "postgresql://me:p%22w@127.0.0.1:5432/t1", "migrate": True},
        "s3": {"region": "r", "endpoint": "http://127.0.0.1:9", "access": "account:user", "secret": 'a"b\\c'},
    }


def steps(*counts: tuple[int, int]) -> tuple[list[str], bool]:
    """What follows each look at a consumer, and whether the store job is over."""
    looks = Looks()
    states = [{"num_pending": pending, "num_ack_pending": unacknowledged} for pending, unacknowledged in counts]
    return [looks.next_step(state) for state in states], looks.is_over


def test_a_store_job_is_paused_when_all_is_delivered_and_nothing_moves() -> None:
    assert steps((5, 1000), (5, 1000), (0, 700), (0, 600), (0, 600), (0, 600), (0, 0)) == (
        ["", "", "", "", "pause", "", ""],
        True,
    )
    assert steps((5, 1000), (0, 0)) == (["", ""], True)
    assert Looks().next_step({}) == ""


def test_a_paused_store_job_that_does_not_move_is_resumed() -> None:
    done, is_over = steps(*[(0, 3)] * (2 + RESUMED_AFTER))
    assert done == ["", "pause", *[""] * (RESUMED_AFTER - 1), "resume"]
    assert not is_over


# Figures


def trial(tool: str, seconds: float, came_back: int | None = 100, tool_s: float = 1.0) -> Trial:
    if came_back is None:
        return Trial(tool, 256, 100, failed="it ended by itself")
    usage = Usage(seconds, tool_s, 0.5, 0.25, 123.4)
    return Trial(tool, 256, 100, usage, usage, 5_000, Comparison(100, came_back, 100 - came_back, 0, 0, 0, 0))


def test_rates_count_what_came_back_once() -> None:
    half = trial("b", 2, came_back=50)
    assert (half.archived_per_s, half.replayed_per_s) == (50, 25)
    assert trial("b", 1, came_back=None).replayed_per_s is None


def test_ratios_are_taken_within_a_round() -> None:
    rounds = [[trial("a", 1), trial("b", 2)], [trial("a", 10), trial("b", 5)], [trial("a", 4), trial("b", 1)]]
    tools = by_tool(rounds)
    assert middle(tools["b"], lambda one: one.archived_per_s) == 50
    assert ratio(tools["b"], tools["a"], lambda one: one.archived_per_s) == 2
    assert ratio(tools["b"], [trial("a", 1, None)] * 3, lambda one: one.archived_per_s) is None


def test_a_report_cuts_nothing_on_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one = [
        trial("nats3-dagster-restore", 1e-4, tool_s=5),
        trial("nats3-server-20000", 1),
        trial("jet-capture", 1, None),
    ]
    print_report([one], "nats3-dagster-restore")
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(len(line) for line in printed.splitlines()) <= 80
    for text in ("nats3-dagster-restore", "1,000,000", "50,000", "2,500", "jet-capture: it ended by itself"):
        assert text in printed
    draw_report(tmp_path / "peers.svg", {256: [one]})
    assert "archive, 256 B" in (tmp_path / "peers.svg").read_text()


# Costs


def meter(tmp_path: Path, program: str) -> Meter:
    own = [os.getpid()]
    return Meter(ServerPids(own, own), [sys.executable, "-c", program], dict(os.environ), tmp_path / "log")


def test_processor_time_and_memory_of_children_count(tmp_path: Path) -> None:
    work = (
        "import time; held = bytearray(60_000_000); end = time.process_time() + 0.4\nwhile time.process_time() < end: 0"
    )
    with meter(tmp_path, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])") as running:
        usage = running.wait(60)
    assert 0.4 <= usage.tool_s <= usage.seconds * 2
    assert usage.peak_mb > 60
    assert usage.nats_s >= 0


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    failing = meter(tmp_path, "import sys; print('no such stream'); sys.exit(3)")
    with failing as running, pytest.raises(PeerError, match="status 3: no such stream"):
        running.wait(60)
    with meter(tmp_path, "") as running:
        running.process.wait()
        with pytest.raises(PeerError, match="ended by itself"):
            running.finish()


def test_a_command_that_goes_on_is_ended_with_the_meter(tmp_path: Path) -> None:
    with meter(tmp_path, "import time; time.sleep(60)") as running:
        assert running.finish().seconds < 60
        with pytest.raises(PeerError, match="did not end within 0"):
            running.wait(0.01)
    assert running.process.returncode is not None
