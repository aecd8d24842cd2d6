"""Durables of a restored stream stand where they stood: an application goes on, with no message twice and none left
out."""

import re
import time
from typing import Any

import pytest

from nats3_dagster.archive.captures.consumers import record_consumers
from nats3_dagster.archive.restore import run as run_module
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import Restored, restore
from nats3_dagster.errors import OperatorError, SourceError, WrongState
from nats3_dagster.jetstream.consumers.positions import durables_of
from nats3_dagster.model import Selection, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.consumers import app, filled, kept, set_back
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.taking import make, run
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def restored(workspace: Workspace, wire: Wire, *names: str, **spec: Any) -> Restored:
    wire.api("STREAM.DELETE.EV")
    return restore(workspace, plan(workspace, RestoreSpec("a", consumers=names or ("all",), **spec)))


def test_explicit_acknowledgements_out_of_order(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Acknowledged ones above the floor do not come again; those that were not do, with the count that they had."""
    filled(wire)
    one = app(workspace)
    one.make(ack_policy="explicit", ack_wait=1)
    assert one.take(12, acked=[1, 2, 3, 5, 6, 9, 11], nacked=[8]) == [*range(1, 13)]
    assert one.take(1) == [8]
    assert kept(workspace, wire, bucket)
    restored(workspace, wire)
    taken = one.rest(2.5)
    assert sorted(taken) == [(4, 2), (7, 2), (8, 3), (10, 2), (12, 2), *((seq, 1) for seq in range(13, 21))]
    assert one.rest() == []


def test_every_kind_of_durable_goes_on(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Acknowledged up to one, or not at all; with filters; pushed to a group. Ephemeral ones are left out."""
    filled(wire)
    apps = {
        "all": {"ack_policy": "all", "ack_wait": 1},
        "none": {"ack_policy": "none"},
        "one_filter": {"ack_policy": "explicit", "ack_wait": 1, "filter_subject": "ev.1"},
        "two_filters": {"ack_policy": "explicit", "filter_subjects": ["ev.1", "ev.2"]},
        "of_new": {"ack_policy": "explicit", "deliver_policy": "new"},
        "of_seq": {"ack_policy": "explicit", "deliver_policy": "by_start_sequence", "opt_start_seq": 15},
        "of_last": {"ack_policy": "explicit", "deliver_policy": "last"},
        "of_subjects": {"ack_policy": "explicit", "deliver_policy": "last_per_subject", "filter_subject": "ev.>"},
        "untouched": {"ack_policy": "explicit", "max_deliver": 3, "metadata": {"team": "a"}},
    }
    for name, config in apps.items():
        app(workspace, name).make(**config)
    pushed = {"deliver_subject": "to.them", "deliver_group": "g", "ack_policy": "explicit", "durable_name": "pushed"}
    wire.api("CONSUMER.CREATE.EV.pushed", stream_name="EV", config={"name": "pushed", **pushed})
    wire.api("CONSUMER.CREATE.EV.ephemeral", stream_name="EV", config={"name": "ephemeral", "ack_policy": "explicit"})
    assert app(workspace, "all").take(5, acked=[3]) == [1, 2, 3, 4, 5]
    assert app(workspace, "none").take(7) == [1, 2, 3, 4, 5, 6, 7]
    # ev.1 has 1, 4, 7 ... and ev.2 has 2, 5, 8 ...
    assert app(workspace, "one_filter").take(3, acked=[4]) == [1, 4, 7]
    assert app(workspace, "two_filters").take(4, acked=[1, 2, 4, 5]) == [1, 2, 4, 5]
    assert app(workspace, "of_subjects").take(1, acked=[18]) == [18]
    taken = app(workspace, "pushed").pushed("to.them", "g", 20)
    assert taken == [*range(1, 21)]
    eventually(lambda: not wire.api("CONSUMER.INFO.EV.pushed").get("push_bound"), "the server knows that it is gone")
    wire.publish([("ev.1", b"", b"later")] * 2)
    assert kept(workspace, wire, bucket)
    done = restored(workspace, wire)
    assert {one["name"] for one in wire.api("CONSUMER.LIST.EV")["consumers"]} == {*apps, "pushed"}
    assert done.proof
    assert app(workspace, "pushed").pushed("to.them", "g", 2) == [21, 22]
    rest = {name: sorted(seq for seq, _ in app(workspace, name).rest(2, acks=name != "none")) for name in apps}
    assert rest == {
        "all": [*range(4, 23)],
        "none": [*range(8, 23)],
        "one_filter": [1, 7, 10, 13, 16, 19, 21, 22],
        "two_filters": [7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 21, 22],
        "of_new": [21, 22],
        "of_seq": [*range(15, 23)],
        "of_last": [20, 21, 22],
        "of_subjects": [19, 20, 21, 22],
        "untouched": [*range(1, 23)],
    }
    configs = {one["name"]: one["config"] for one in wire.api("CONSUMER.LIST.EV")["consumers"]}
    assert configs["untouched"]["max_deliver"] == 3
    assert configs["untouched"]["metadata"]["team"] == "a"
    assert all("pause_until" not in config for config in configs.values())


def test_a_part_of_the_stream(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """What is not restored does not wait; a consumer ahead of what is restored waits for the next message."""
    filled(wire)
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    app(workspace, "ahead").make(ack_policy="explicit")
    app(workspace).take(12, acked=[1, 2, 3, 5, 12])
    app(workspace, "ahead").take(20, acked=range(1, 21))
    wire.api("STREAM.MSG.DELETE.EV", seq=6)
    assert kept(workspace, wire, bucket)
    restored(workspace, wire, selection=Selection(sequences=SeqRange(5, 20), subjects=("ev.0", "ev.1")))
    assert sorted(app(workspace).rest(2)) == [
        (7, 2), (9, 2), (10, 2), (13, 1), (15, 1), (16, 1), (18, 1), (19, 1),
    ]  # fmt: skip
    wire.publish([("ev.1", b"", b"next")])
    assert app(workspace, "ahead").rest() == [(21, 1)]


def test_a_consumer_ahead_of_the_archive(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """It has delivered what no capture took: of the restored stream it delivers the next message."""
    filled(wire)
    archived(workspace, wire, "EV", bucket)
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    wire.publish([("ev.0", b"", b"not captured")] * 5)
    app(workspace).take(25, acked=range(1, 24))
    archive = workspace.catalog.archives.get("a")
    assert record_consumers(workspace, archive)
    wire.api("STREAM.DELETE.EV")
    # All that is archived, said by its sequences, is no earlier moment.
    whole = Selection(sequences=SeqRange(1, 20))
    restore(workspace, plan(workspace, RestoreSpec("a", consumers=("all",), selection=whole)))
    assert wire.state("EV")["last_seq"] == 20
    wire.publish([("ev.1", b"", b"next")] * 2)
    assert app(workspace).rest(1.5) == [(21, 1), (22, 1)]


def test_the_last_that_was_kept_before_the_restored_moment(
    workspace: Workspace, wire: Wire, bucket: str, postgres_url: str
) -> None:
    filled(wire, 10)
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    app(workspace).take(4, acked=range(1, 5))
    first = kept(workspace, wire, bucket)
    assert first
    # As if it were of an hour before: the next one does not take its place.
    set_back(postgres_url, "update nats3.kept_consumers set hour = '2026-01-01-00:00'")
    wire.publish([("ev.0", b"", b"more")] * 10)
    app(workspace).take(8, acked=range(5, 13))
    second = kept(workspace, wire, bucket)
    assert second
    times = {message.seq: message.time for message in wire.messages("EV")}
    wire.api("STREAM.DELETE.EV")
    for selection, floor, last in (
        (Selection(), 12, 20),
        (Selection.parse(to_time=times[11]), 4, 10),
        (Selection(sequences=SeqRange(1, 10)), 4, 10),
        (Selection(sequences=SeqRange(1, 19)), 4, 19),
        (Selection(sequences=SeqRange(1, 20)), 12, 20),
    ):
        planned = plan(workspace, RestoreSpec("a", consumers=("app",), selection=selection))
        (one,) = planned.consumers
        assert (one.position.ack_floor.stream, planned.last_seq) == (floor, last)
    with pytest.raises(WrongState, match="no consumers from before the end of this selection"):
        plan(workspace, RestoreSpec("a", consumers=("all",), selection=Selection.parse(to_time=times[3])))
    with pytest.raises(OperatorError, match="No consumer other of archive a was kept at .* There are app"):
        plan(workspace, RestoreSpec("a", consumers=("other",)))
    # The restored stream ends with the moment, and so does its consumer.
    spec = RestoreSpec("a", consumers=("app",), selection=Selection.parse(to_time=times[11]))
    restore(workspace, plan(workspace, spec))
    assert [seq for seq, _ in app(workspace).rest()] == [5, 6, 7, 8, 9, 10]


def test_nothing_is_delivered_before_the_proof_ends(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither pulled nor pushed; one that was paused stays so. A restore that fails leaves nothing."""
    filled(wire)
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    app(workspace).take(3, acked=[2])
    pushed = {"deliver_subject": "to.them", "deliver_group": "g", "ack_policy": "explicit", "durable_name": "pushed"}
    wire.api("CONSUMER.CREATE.EV.pushed", stream_name="EV", config={"name": "pushed", **pushed})
    until = "2199-01-01T00:00:00Z"
    app(workspace, "resting").make(ack_policy="explicit")
    wire.api("CONSUMER.PAUSE.EV.resting", pause_until=until)
    assert kept(workspace, wire, bucket)
    taken: dict[str, list[int]] = {}

    def look(step: str) -> None:
        if step in ("restore.sent", "restore.proven", "restore.named"):
            time.sleep(1.2)
            taken[step] = [
                *app(workspace, "pushed").pushed("to.them", "g", 0),
                *[seq for name in ("app", "resting") for seq, _ in app(workspace, name).rest()],
            ]

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "fault_point", look)
        restored(workspace, wire)
    assert taken == {"restore.sent": [], "restore.proven": [], "restore.named": []}
    assert sorted(app(workspace).rest(2)) == [(1, 2), (3, 2), *((seq, 1) for seq in range(4, 21))]
    assert app(workspace, "pushed").pushed("to.them", "g", 20) == [*range(1, 21)]
    assert wire.api("CONSUMER.INFO.EV.resting")["config"]["pause_until"] == until

    def meddle(step: str) -> None:
        if step == "restore.sent":
            wire.api("CONSUMER.PAUSE.EV.app")
            app(workspace).take(5, acked=[5])

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "fault_point", meddle)
        with pytest.raises(SourceError, match="Consumer app of stream EV has .* and not"):
            restored(workspace, wire)
    assert wire.api("STREAM.NAMES")["streams"] is None


def test_a_process_that_dies_after_the_proof_lets_the_consumers_go_on(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream is whole then, and its consumers deliver by themselves a minute later."""
    filled(wire)
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    app(workspace).take(3, acked=[1, 2])
    assert kept(workspace, wire, bucket)
    monkeypatch.setattr(run_module, "_AT_LAST_S", 3)

    def die(step: str) -> None:
        if step == "restore.named":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "fault_point", die)
        patch.setattr(run_module, "_remove", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            restored(workspace, wire)
    assert wire.api("STREAM.INFO.EV")["config"]["subjects"] == ["ev.>"]
    assert app(workspace).rest() == []
    time.sleep(3)
    assert sorted(app(workspace).rest(2)) == [(3, 2), *((seq, 1) for seq in range(4, 21))]


def test_streams_whose_consumers_remove_messages(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Of a work queue nothing is kept: a position says nothing where all comes back. An interest stream comes back as
    one of limits, with its consumers; the archive's own durable is none of them."""
    wire.create_stream("Q", "q.>", retention="workqueue")
    wire.create_stream("EV", "ev.>", retention="interest")
    app(workspace, "app", "Q").make(ack_policy="explicit", filter_subject="q.other")
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    for stream, name in (("Q", "q"), ("EV", "a")):
        subjects = ("q.a",) if stream == "Q" else ()
        make(workspace, bucket, name=name, stream=stream, subjects=subjects)
    wire.publish([("q.a", b"", b"x")] + [("ev.a", b"", b"%d" % n) for n in range(1, 11)])
    app(workspace).take(6, acked=[1, 2, 4])
    for name in ("q", "a"):
        assert run(workspace, workspace.catalog.archives.get(name)).messages
    assert record_consumers(workspace, workspace.catalog.archives.get("q")) is None
    assert record_consumers(workspace, workspace.catalog.archives.get("a"))
    own = workspace.catalog.archives.get("a").spec.own_durable
    assert {one.name for one in durables_of(workspace.link, "EV").consumers} == {"app", own}
    wire.api("CONSUMER.DELETE.EV.app")
    # Where nothing waits, a list is enough, and has it too.
    assert [one.name for one in durables_of(workspace.link, "EV").consumers] == [own]
    assert durables_of(workspace.link, "EV", [own]).consumers == ()
    wire.api("STREAM.DELETE.EV")
    wire.api("STREAM.DELETE.Q")
    with pytest.raises(WrongState, match="has no consumers of this stream"):
        plan(workspace, RestoreSpec("q", consumers=("all",)))
    # It is compared all the same: a server lets no consumer that only reads into a queue.
    queue = restore(workspace, plan(workspace, RestoreSpec("q", over_gaps=True)))
    assert (queue.messages, queue.proof and queue.proof.equal) == (1, 1)
    assert (wire.api("STREAM.INFO.Q")["config"]["retention"], wire.state("Q")["messages"]) == ("workqueue", 1)
    done = restore(workspace, plan(workspace, RestoreSpec("a", consumers=("all",))))
    assert done.messages == 10
    assert [one["name"] for one in wire.api("CONSUMER.LIST.EV")["consumers"]] == ["app"]
    assert sorted(app(workspace).rest(2)) == [(3, 2), (5, 2), (6, 2), (7, 1), (8, 1), (9, 1), (10, 1)]


def test_the_command(workspace: Workspace, wire: Wire, bucket: str, nats3: Command) -> None:
    """The plan says of each consumer where it begins and what comes again."""
    filled(wire)
    app(workspace).make(ack_policy="explicit", num_replicas=1, inactive_threshold=3600)
    app(workspace, "other").make(ack_policy="explicit")
    app(workspace).take(5, acked=[1, 3])
    assert kept(workspace, wire, bucket)
    wire.api("STREAM.DELETE.EV")
    planned = nats3.ok("stream", "restore", "a", "--consumers", "app", "--dry-run", "-o", "json").json
    (one,) = planned["consumers"]
    assert one.pop("kept_at").startswith("20")
    assert one == {
        "name": "app",
        "exact": True,
        "delivered_seq": 5,
        "ack_floor_seq": 1,
        "again": 3,
        "left_out": ["inactive_threshold"],
    }
    shown = nats3.ok("stream", "restore", "a", "--consumers", "all", "--dry-run").out
    line = r"app: after 5, as of 20\d\d-\S+ \S+, 3 messages come again, without inactive_threshold"
    assert re.search(line, " ".join(shown.split()))
    refused = nats3.refused("stream", "restore", "a", "--consumers", "no")
    assert refused.startswith("2 Error: No consumer no of archive a was kept at ")
    done = nats3.ok("stream", "restore", "a", "--consumers", "other", "--consumers", "app", "-o", "json").json
    assert [one["name"] for one in done["consumers"]] == ["app", "other"]
    assert {one["name"] for one in wire.api("CONSUMER.LIST.EV")["consumers"]} == {"app", "other"}


def test_messages_that_the_server_does_not_keep(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A message whose life has ended, or that a limit removes, does not wait for anything; the others do."""
    wire.create_stream("EV", "ev.>", allow_msg_ttl=True)
    lives = [(b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n" if n in (2, 5, 9) else b"") for n in range(1, 11)]
    wire.publish([("ev.a", headers, b"x") for headers in lives])
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    app(workspace).take(6, acked=[1, 3])
    assert kept(workspace, wire, bucket)
    time.sleep(1.1)
    done = restored(workspace, wire)
    assert done.proof
    assert done.proof.ended == 3
    assert sorted(seq for seq, _ in app(workspace).rest(2)) == [4, 6, 7, 8, 10]


def test_a_stream_with_its_limits(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """What the archive has and the limit removes does not come; what the application missed of the rest does."""
    filled(wire)
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    app(workspace).take(12, acked=[1, 3, 11])
    assert kept(workspace, wire, bucket)
    wire.api("STREAM.UPDATE.EV", **(wire.api("STREAM.INFO.EV")["config"] | {"max_msgs": 12}))
    wire.publish([("ev.a", b"", b"new")])
    assert kept(workspace, wire, bucket)
    restored(workspace, wire, limits=True, over_gaps=True)
    assert wire.state("EV")["first_seq"] == 10
    assert sorted(seq for seq, _ in app(workspace).rest(2)) == [10, *range(12, 22)]


def test_it_stands_there_after_a_restart_of_the_server(
    settings: Settings, bucket: str, nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose messages are answered in the order of flow control."""
    server = nats_factory()
    monkeypatch.setenv("NATS3_NATS_URL", server.url)
    with Wire(server.url) as wire, Workspace(Settings.load()) as workspace:
        filled(wire)
        app(workspace).make(ack_policy="explicit", ack_wait=1)
        app(workspace).take(12, acked=[1, 2, 3, 5, 6, 9, 11])
        flow = {
            "deliver_subject": "to.flow",
            "flow_control": True,
            "idle_heartbeat": 10**10,
            "ack_policy": "flow_control",
        }
        config = {"name": "flow", "durable_name": "flow", "max_ack_pending": 100, **flow}
        wire.api("CONSUMER.CREATE.EV.flow", stream_name="EV", config=config)
        assert kept(workspace, wire, bucket)
        restored(workspace, wire)
        one = wire.api("CONSUMER.INFO.EV.flow")
        assert (one["delivered"]["stream_seq"], one["config"]["ack_policy"]) == (0, "flow_control")
    server.stop()
    server.start()
    with Workspace(Settings.load()) as workspace:
        assert sorted(seq for seq, _ in app(workspace).rest(2)) == [4, 7, 8, 10, *range(12, 21)]
