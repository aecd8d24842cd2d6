"""Situations that were reported to nats-server, for an archive and its replays: docs/neighbours.md has the numbers."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import StreamChanged
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, live, replayed
from nats3_dagster_tests.support.taking import QUEUE, content, make, numbers, run
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

MARKED: dict[str, Any] = {
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": 3600 * SECOND_NS,
    "allow_rollup_hdrs": True,
    "duplicate_window": SECOND_NS // 2,
}


def headers(**values: Any) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in values.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


@pytest.mark.needs_nats("2.11")
def test_markers_of_what_expired_are_messages(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A server puts a marker in the place of a subject's last message: it is archived, acts in no replay, and acts in a
    live one as it did."""
    wire.create_stream("T", "t.>", **MARKED)
    wire.publish([("t.a", headers(Nats_TTL="3600s"), b"x"), ("t.b", b"", b"y")])
    config = wire.api("STREAM.INFO.T")["config"]
    wire.api("STREAM.UPDATE.T", **config | {"max_age": SECOND_NS})
    eventually(lambda: [message.seq for message in wire.messages("T")] == [3, 4], "two markers")
    wire.api("STREAM.UPDATE.T", **config)
    archived(workspace, wire, "T", bucket)
    wire.create_stream("BACK", "back.>", **MARKED)
    wire.create_stream("LIVE", "live.>", **MARKED)
    back = ReplaySpec("a", "back.>", Selection(subjects=("t.>",)), over_gaps=True)
    assert [replayed(workspace, spec).published for spec in (back, live("t.>", "live.>"))] == [2, 2]
    for stream, acts in (("BACK", False), ("LIVE", True)):
        stored = list(wire.messages(stream))
        assert [message.subject.partition(".")[2] for message in stored] == ["a", "b"]
        for message in stored:
            assert b"\r\nNats-Marker-Reason: MaxAge\r\n" in message.headers
            assert (b"\r\nNats-Rollup: sub\r\n" in message.headers, b"\r\nNats-TTL: " in message.headers) == (
                acts,
                acts,
            )


def test_headers_of_another_time_neither_hold_up_a_target_nor_what_is_made_of_it(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """Ids that came twice, after their window, and expected sequences: a mirror of the target gets all messages."""
    wire.create_stream("T", "t.>", duplicate_window=SECOND_NS // 10)
    wire.publish([("t.a", headers(Nats_Expected_Last_Subject_Sequence=0, Nats_Msg_Id="same"), b"1")])
    wire.quiet("T", 0.3)
    wire.publish([("t.a", headers(Nats_Expected_Last_Subject_Sequence=1, Nats_Msg_Id="same"), b"2")])
    wire.publish([("t.b", headers(Nats_Expected_Last_Sequence=2), b"3")])
    archived(workspace, wire, "T", bucket)
    for name, subject in (("BACK", "back.>"), ("LIVE", "live.>")):
        wire.create_stream(name, subject)
        wire.create_stream(f"{name}M", mirror={"name": name})
        wire.create_stream(f"{name}S", sources=[{"name": name}])
    replayed(workspace, ReplaySpec("a", "back.>", Selection(subjects=("t.>",))))
    replayed(workspace, live("t.>", "live.>"))
    for stream in ("BACK", "BACKM", "BACKS", "LIVE", "LIVEM", "LIVES"):
        eventually(lambda stream=stream: wire.state(stream)["messages"] == 3, stream)
        assert [message.data for message in wire.messages(stream)] == [b"1", b"2", b"3"]


def test_a_queue_that_forgot_its_end_while_its_durable_did_not(
    own_nats: NatsServer, postgres_url: str, store_folder: Path, bucket: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """As after a power cut: the durable is ahead of the stream, which gives its sequences out again."""
    for name, value in (
        ("NATS_URL", own_nats.url),
        ("POSTGRES_URL", postgres_url),
        ("STORE_URL", f"file://{store_folder}"),
    ):
        monkeypatch.setenv(f"NATS3_{name}", value)
    with Workspace(Settings.load()) as workspace:
        with Wire(own_nats.url) as wire:
            wire.create_stream("JOBS", "jobs.>", **QUEUE)
            archive = make(workspace, bucket)
            wire.publish(numbers(1, 50))
            assert run(workspace, archive).messages == 50
        own_nats.stop()
        (messages,) = (own_nats.folder / "data").glob("**/streams/JOBS/msgs")
        shutil.copytree(messages, tmp_path / "earlier")
        own_nats.start()
        with Wire(own_nats.url) as wire:
            wire.publish(numbers(51, 100))
            assert run(workspace, archive).messages == 50
        own_nats.stop()
        shutil.rmtree(messages)
        shutil.copytree(tmp_path / "earlier", messages)
        own_nats.start()
        with Wire(own_nats.url) as wire:
            assert wire.state("JOBS")["last_seq"] == 50
            for last in (200, 230):
                with pytest.raises(StreamChanged, match="holds it up to 100: the server forgot messages"):
                    run(workspace, archive)
                wire.publish(numbers(last, last + 9))
        assert [seq for seq, _ in content(workspace, archive)] == list(range(1, 101))
