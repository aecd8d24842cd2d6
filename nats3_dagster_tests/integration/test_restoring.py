"""A stream made again from its archive is the stream that was: each message, each sequence, each hole."""

import time
from functools import partial
from typing import Any

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.restore import run as run_module
from nats3_dagster.archive.restore.configuration import MARK
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import Restored, restore
from nats3_dagster.errors import Nats3Error, OperatorError, SourceError, Unknown, WrongState
from nats3_dagster.model import Selection, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def stored(wire: Wire, stream: str) -> list[tuple[Any, ...]]:
    """All that STREAM.MSG.GET says of each message."""
    return [tuple(message) for message in wire.messages(stream)]


def restored(workspace: Workspace, **spec: Any) -> Restored:
    return restore(workspace, plan(workspace, RestoreSpec("a", **spec)))


def times(workspace: Workspace) -> dict[int, int]:
    """The store times by sequence, as the archive has them."""
    cursor = Cursor.begin(workspace, workspace.catalog.archives.get("a"), Selection(), over_gaps=True)
    return {
        seq: time_ns
        for batch in cursor.batches()
        for seq, time_ns in zip(batch.column("seq").to_pylist(), batch.column("time_ns").to_pylist(), strict=True)
    }


def next_seq(wire: Wire, stream: str, subject: str) -> int:
    wire.publish([(subject, b"", b"next")])
    return wire.state(stream)["last_seq"]


def test_it_is_the_stream_that_was(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """With holes at both ends and between, odd subjects and headers, and limits that would remove all."""
    wire.create_stream("EV", "ev.>", "größe", max_msgs=100, max_msgs_per_subject=50, first_seq=7)
    wire.publish(
        [
            ("ev.a", b"", b""),
            ("ev.b", b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n", b"x" * 300),
            (b"ev.\xff\xfe", b"", b"\0\r\n"),
            ("größe", b"NATS/1.0\r\n\r\n", b"y" * 20_000),
            *[(f"ev.{n % 5}", b"", b"%d" % n) for n in range(40)],
        ]
    )
    for seq in (7, 20, 21, 50):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    archived(workspace, wire, "EV", bucket)
    before, config = stored(wire, "EV"), wire.api("STREAM.INFO.EV")["config"]
    wire.api("STREAM.DELETE.EV")
    # Of a stream with limits an absence may be a loss.
    with pytest.raises(OperatorError, match="are not in archive a: 20-21, 50-50"):
        restored(workspace)
    done = restored(workspace, over_gaps=True)
    assert stored(wire, "EV") == before
    assert (done.messages, done.proof and done.proof.equal) == (40, 40)
    state = wire.state("EV")
    assert (state["first_seq"], state["last_seq"], state["num_deleted"]) == (8, 50, 3)
    now = wire.api("STREAM.INFO.EV")["config"]
    assert MARK not in (now.get("metadata") or {})
    assert {key for key in config if config[key] != now.get(key)} == {
        "first_seq", "max_msgs", "max_msgs_per_subject",
    }  # fmt: skip
    assert next_seq(wire, "EV", "ev.a") == 51


@pytest.mark.parametrize(
    ("selection", "seqs", "last"),
    [
        (Selection(sequences=SeqRange(3, 3)), [3], 3),
        (Selection(sequences=SeqRange(1, 6)), [1, 2, 3, 4, 6], 6),
        (Selection(sequences=SeqRange(4, 5)), [4], 5),
        (Selection(subjects=("ev.1",)), [2, 4, 6, 8, 10], 10),
        (Selection(subjects=("ev.0",)), [1, 3, 7, 9], 10),
    ],
)
def test_a_part_of_it(
    workspace: Workspace, wire: Wire, bucket: str, selection: Selection, seqs: list[int], last: int
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(10)])
    wire.api("STREAM.MSG.DELETE.EV", seq=5)
    archived(workspace, wire, "EV", bucket)
    before = [message for message in stored(wire, "EV") if message[0] in seqs]
    wire.api("STREAM.UPDATE.EV", **{**wire.api("STREAM.INFO.EV")["config"], "subjects": ["other"]})
    restored(workspace, name="PART", selection=selection, storage="memory")
    assert stored(wire, "PART") == before
    assert wire.state("PART")["last_seq"] == last
    assert wire.api("STREAM.INFO.PART")["config"]["storage"] == "memory"


def test_a_bucket_as_it_was_at_a_time(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """With the depth of its history, which its clients read from the limit of messages per subject."""
    wire.create_stream(
        "KV_b", "$KV.b.>", max_msgs_per_subject=2, allow_rollup_hdrs=True, deny_delete=True, discard="new"
    )
    for value in range(4):
        wire.publish([("$KV.b.k", b"", b"%d" % value), ("$KV.b.other", b"", b"%d" % value)])
        archived(workspace, wire, "KV_b", bucket)
    middle = times(workspace)[5]
    wire.api("STREAM.DELETE.KV_b")
    done = restored(workspace, selection=Selection(to_ns=middle + 1))
    assert [(message.subject[-1], message.data) for message in wire.messages("KV_b")] == [
        ("r", b"0"), ("k", b"1"), ("r", b"1"), ("k", b"2"),
    ]  # fmt: skip
    assert done.proof
    assert (done.proof.equal, done.proof.ended) == (4, 1)
    config = wire.api("STREAM.INFO.KV_b")["config"]
    assert (config["max_msgs_per_subject"], config["discard"]) == (2, "new")


@pytest.mark.parametrize(
    ("config", "lifted"),
    [
        ({"max_msgs_per_subject": 3, "discard": "new", "discard_new_per_subject": True},
         {"max_msgs_per_subject", "discard_new_per_subject"}),
        ({"max_msg_size": 4}, {"max_msg_size"}),
        ({"max_msg_size": 5}, set()),
        ({"max_age": 3600 * 10**9, "allow_msg_ttl": True, "subject_delete_marker_ttl": 10**9}, {"max_age"}),
        ({"republish": {"src": "ev.>", "dest": "again.>"}}, set()),
        ({"subject_transform": {"src": "ev.>", "dest": "made.>"}}, set()),
        ({"compression": "s2", "allow_direct": True, "deny_delete": True, "deny_purge": True}, set()),
        ({"duplicate_window": 60 * 10**9, "max_bytes": 10**6}, {"max_bytes"}),
        ({"metadata": {"team": "a"}, "description": "d", "consumer_limits": {"max_ack_pending": 9}}, set()),
        ({"allow_atomic": True, "allow_batched": True}, set()),
    ],
)  # fmt: skip
def test_settings_of_every_kind(
    workspace: Workspace, wire: Wire, bucket: str, config: dict[str, Any], lifted: set[str]
) -> None:
    wire.create_stream("EV", "ev.>", **{**config, "max_msg_size": -1})
    wire.publish([("ev.a", b"", b"12345")] * 2)
    if "max_msg_size" in config:
        wire.api("STREAM.UPDATE.EV", **(wire.api("STREAM.INFO.EV")["config"] | config))
    archived(workspace, wire, "EV", bucket)
    before, config = stored(wire, "EV"), wire.api("STREAM.INFO.EV")["config"]
    wire.api("STREAM.DELETE.EV")
    restored(workspace, over_gaps=True)
    now = wire.api("STREAM.INFO.EV")["config"]
    assert stored(wire, "EV") == before
    assert {key for key in {*config, *now} if config.get(key) != now.get(key)} == lifted


def test_a_mirror_is_a_stream_of_its_own_afterwards(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 3)
    wire.api("STREAM.CREATE.M", name="M", mirror={"name": "EV"}, storage="file")
    eventually(lambda: wire.state("M")["messages"] == 3, "the mirror has them")
    archived(workspace, wire, "M", bucket)
    before = stored(wire, "M")
    wire.api("STREAM.DELETE.M")
    restored(workspace)
    assert stored(wire, "M") == before
    assert "mirror" not in wire.api("STREAM.INFO.M")["config"]


def test_a_queue_and_messages_with_a_time_to_live(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", allow_msg_ttl=True)
    lives = [(b"NATS/1.0\r\nNats-TTL: %b\r\n\r\n" % ttl if ttl else b"") for ttl in (b"", b"1s", b"1h", b"never")]
    wire.publish([("ev.a", headers, b"x") for headers in lives])
    archived(workspace, wire, "EV", bucket)
    wire.api("STREAM.DELETE.EV")
    time.sleep(1.1)  # the second message's life, which began when it was stored
    done = restored(workspace)
    assert [message[0] for message in stored(wire, "EV")] == [1, 3, 4]
    assert done.proof
    assert (done.proof.equal, done.proof.ended) == (3, 1)


def test_a_stream_of_the_name_stays_as_it_is(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")])
    archived(workspace, wire, "EV", bucket)
    with pytest.raises(WrongState, match="Stream EV exists"):
        restored(workspace)
    with pytest.raises(WrongState, match="Stream OTHER would take ev.>, and stream EV takes some of that"):
        restored(workspace, name="OTHER")
    assert [stream["config"]["name"] for stream in wire.api("STREAM.LIST")["streams"]] == ["EV"]
    assert len(stored(wire, "EV")) == 1


def test_an_interrupted_one_leaves_nothing(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 3)
    archived(workspace, wire, "EV", bucket)
    before = stored(wire, "EV")
    wire.api("STREAM.DELETE.EV")
    planned = plan(workspace, RestoreSpec("a"))

    def broken(at: str, step: str) -> None:
        if step == at:
            raise KeyboardInterrupt

    def rewritten(step: str) -> None:
        if step == "restore.sent":
            wire.api("STREAM.DELETE.EV")
            wire.create_stream("EV", "own.>", metadata={MARK: "true"})
            wire.publish([("own.a", b"", b"x")] * 3)

    def written(step: str) -> None:
        if step == "restore.sent":
            wire.create_stream("OTHERS", "ev.>")
            wire.publish([("ev.b", b"", b"of another")])

    def removed(step: str) -> None:
        if step == "restore.sent":
            wire.api("STREAM.MSG.DELETE.EV", seq=2)

    for at in ("restore.sending", "restore.sent"):
        monkeypatch.setattr(run_module, "fault_point", partial(broken, at))
        with pytest.raises(KeyboardInterrupt):
            restore(workspace, planned)
        assert wire.api("STREAM.NAMES")["streams"] is None
    for meddle, says in ((rewritten, "Message 1 of stream EV has another time_ns"), (removed, "lacks message 2-2")):
        monkeypatch.setattr(run_module, "fault_point", meddle)
        with pytest.raises(SourceError, match=says):
            restore(workspace, planned)
        assert wire.api("STREAM.NAMES")["streams"] is None
    # One that was killed leaves a marked stream, which the next one deletes.
    monkeypatch.setattr(run_module, "fault_point", partial(broken, "restore.sent"))
    monkeypatch.setattr(run_module, "_remove", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        restore(workspace, planned)
    # Until it is whole it has no subject that others publish to: what they publish is in no stream that is deleted.
    config = wire.api("STREAM.INFO.EV")["config"]
    assert (config["subjects"], MARK in config["metadata"]) == (["nats3.restoring.EV"], True)
    monkeypatch.undo()
    monkeypatch.setattr(run_module, "fault_point", written)
    with pytest.raises(SourceError, match="subjects overlap"):
        restore(workspace, planned)
    assert wire.api("STREAM.NAMES")["streams"] == ["OTHERS"]
    assert len(stored(wire, "OTHERS")) == 1
    wire.api("STREAM.DELETE.OTHERS")
    monkeypatch.undo()
    restore(workspace, planned)
    assert stored(wire, "EV") == before
    assert next_seq(wire, "EV", "ev.a") == 4


def test_what_cannot_be(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")])
    archived(workspace, wire, "EV", bucket)
    wire.api("STREAM.DELETE.EV")
    for spec, says in (
        ({"name": "a.b"}, "not a stream name"),
        ({"replicas": 6}, "replicas is 6"),
        ({"selection": Selection(hours=("2026-11-21-07:00",))}, "takes no hours"),
        ({"selection": Selection(subjects=("no",))}, "No subject of archive a"),
        ({"selection": Selection(sequences=SeqRange(9, 9))}, "holds nothing of this selection"),
    ):
        with pytest.raises(Nats3Error, match=says):
            restored(workspace, **spec)


def test_the_command(workspace: Workspace, wire: Wire, bucket: str, nats3: Command) -> None:
    """It says what it would make, makes it, compares it, and names what is not as it was."""
    wire.create_stream("EV", "ev.>", max_age=3600 * 10**9)
    wire.publish([("ev.a", b"", b"x")] * 3)
    archived(workspace, wire, "EV", bucket)
    for more in ((), ("--dry-run",)):
        assert nats3.refused("stream", "restore", "a", *more) == (
            "2 Error: Stream EV exists: a restore makes a new one. Give another name, or delete it first"
        )
    wire.api("STREAM.DELETE.EV")
    planned = nats3.ok("stream", "restore", "a", "--dry-run", "-o", "json")
    assert (planned.json["messages"], planned.json["proven"], planned.json["left_out"]) == (3, None, ["max_age"])
    assert "A dry run: no stream was made" in planned.err
    assert wire.api("STREAM.NAMES")["streams"] is None
    done = nats3.ok("stream", "restore", "a", "-o", "json")
    assert [done.json[key] for key in ("stream", "messages", "proven", "first_seq", "last_seq")] == ["EV", 3, 3, 1, 3]
    assert "Not as in the archived stream: max_age" in done.err
    # The archive goes on with it: nothing is captured twice, and nothing is missing.
    wire.publish([("ev.a", b"", b"new")])
    archived(workspace, wire, "EV", bucket)
    (coverage,) = workspace.catalog.coverage.all(workspace.catalog.archives.get("a"))
    assert coverage.last == 4


def test_one_of_several_incarnations_is_restored_as_it_was(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command
) -> None:
    """Without saying which one nothing is restored: the newest may be what an application made by accident."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n}", b"", b"first %d" % n) for n in range(30)])
    archived(workspace, wire, "EV", bucket)
    before = stored(wire, "EV")
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.again", b"", b"second")])
    open_source(workspace, workspace.catalog.archives.get("a"), adopt=True)
    archived(workspace, wire, "EV", bucket)
    after = stored(wire, "EV")
    wire.api("STREAM.DELETE.EV")
    first, second = workspace.catalog.coverage.incarnations(workspace.catalog.archives.get("a"))
    with pytest.raises(WrongState, match=rf"{first.token} \(30 messages\), {second.token} \(1 messages\)"):
        plan(workspace, RestoreSpec("a"))
    with pytest.raises(Unknown, match="no messages of the incarnation 2020"):
        plan(workspace, RestoreSpec("a", incarnation="20200101T000000000000000Z"))
    assert plan(workspace, RestoreSpec("a", incarnation=first.token)).messages == 30
    assert restored(workspace, incarnation=first.token).messages == 30
    assert stored(wire, "EV") == before
    assert next_seq(wire, "EV", "ev.more") == 31
    wire.api("STREAM.DELETE.EV")
    nats3.ok("stream", "restore", "a", "--incarnation", second.token)
    assert stored(wire, "EV") == after
