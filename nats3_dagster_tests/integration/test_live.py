"""A live replay: what the target's clients see is what those of the source saw."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import nats as nats_py
import pytest
from nats.js.api import KeyValueConfig
from nats.js.errors import NoKeysError

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import OperatorError, TargetError
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, driven, dry_run, live, pending, published, replayed
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire


def client(nats: NatsServer, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """What `work` makes of a JetStream context of nats-py."""

    async def run() -> Any:
        connection = await nats_py.connect(nats.url)
        try:
            return await work(connection.jetstream())
        finally:
            await connection.close()

    return asyncio.run(run())


async def revisions(js: Any, bucket: str) -> tuple[list[str], dict[str, list[tuple[str | None, bytes | None]]]]:
    """The keys of a bucket, and the history of every key that it ever had."""
    kv = await js.key_value(bucket)
    seen: dict[str, list[tuple[str | None, bytes | None]]] = {}
    for key in ("a", "b", "c", "d"):
        try:
            seen[key] = [(entry.operation, entry.value) for entry in await kv.history(key)]
        except NoKeysError:
            seen[key] = []
    return sorted(await kv.keys()), seen


@pytest.mark.parametrize("batched", [False, True])
def test_a_key_value_bucket(workspace: Workspace, nats: NatsServer, wire: Wire, bucket: str, batched: bool) -> None:
    async def fill(js: Any) -> None:
        kv = await js.create_key_value(KeyValueConfig("old", history=3))
        for n in range(5):
            await kv.put("a", b"%d" % n)
        await kv.put("b", b"1")
        await kv.put("c", b"1")
        await kv.put("d", b"1")

    async def change(js: Any) -> None:
        kv = await js.key_value("old")
        await kv.delete("b")
        await kv.put("c", b"2")
        await kv.purge("c")
        await kv.purge("d")
        await kv.put("d", b"9")
        await js.create_key_value(KeyValueConfig("new", history=3))

    client(nats, fill)
    archived(workspace, wire, "KV_old", bucket)
    client(nats, change)
    archived(workspace, wire, "KV_old", bucket)
    if batched:
        config = wire.api("STREAM.INFO.KV_new")["config"]
        if "allow_batched" not in wire.api("STREAM.UPDATE.KV_new", **config | {"allow_batched": True})["config"]:
            pytest.skip("needs batches")
    done = replayed(workspace, live("$KV.old.>", "$KV.new.>"))
    assert (done.state, done.published, done.expired) == ("succeeded", 10, 0)
    assert client(nats, lambda js: revisions(js, "new")) == client(nats, lambda js: revisions(js, "old"))


def counters(wire: Wire, stream: str) -> dict[str, bytes]:
    """The newest payload of each subject's last token."""
    return {m.subject.rpartition(".")[2]: m.data for m in wire.messages(stream)}


@pytest.mark.needs_nats("2.12")
@pytest.mark.parametrize("batched", [False, True])
def test_a_counter(workspace: Workspace, nats: NatsServer, wire: Wire, bucket: str, batched: bool) -> None:
    config = {"allow_msg_counter": True, "allow_direct": True} | ({"allow_batched": True} if batched else {})
    wire.create_stream("OLD", "old.>", **config)
    wire.create_stream("NEW", "new.>", **config)

    def add(key: str, increment: str) -> None:
        wire.publish([(f"old.{key}", b"NATS/1.0\r\nNats-Incr: %b\r\n\r\n" % increment.encode(), b"")])

    for key, increment in [("a", "+7"), ("b", "100"), ("a", "-3"), ("b", "+1"), ("a", "+1")]:
        add(key, increment)
    # What came before is in no archive, and its total counts all the same.
    wire.api("STREAM.PURGE.OLD", seq=3)
    archived(workspace, wire, "OLD", bucket)
    # A total that begins anew.
    wire.api("STREAM.PURGE.OLD", filter="old.b")
    add("b", "+5")
    archived(workspace, wire, "OLD", bucket)
    assert counters(wire, "OLD") == {"a": b'{"val":"5"}', "b": b'{"val":"5"}'}
    done = replayed(workspace, live("old.>", "new.>"))
    assert (done.state, done.published) == ("succeeded", 4)
    assert counters(wire, "NEW") == counters(wire, "OLD")


@pytest.mark.needs_nats("2.12")
def test_a_counter_of_counters_is_named_before_it_is_replayed(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A server carries on the map of a subject's first message (nats-server#6988): with its sources attached again, the
    target would add them up twice."""
    wire.create_stream("EU", "eu.>", allow_msg_counter=True)
    aggregate = {"allow_msg_counter": True, "allow_direct": True}
    sources = [{"name": "EU", "subject_transforms": [{"src": "eu.>", "dest": "all.>"}]}]
    wire.create_stream("ALL", **aggregate, sources=sources)
    for total in range(1, 4):
        wire.publish([("eu.a", b"NATS/1.0\r\nNats-Incr: 1\r\n\r\n", b"")])
        eventually(lambda total=total: counters(wire, "ALL") == {"a": b'{"val":"%d"}' % total}, "the sum")
    archived(workspace, wire, "ALL", bucket)
    wire.create_stream("NEW", "new.>", **aggregate)
    spec = live("all.>", "new.>")
    (note,) = [note for note in dry_run(workspace, spec)["notes"] if "Nats-Counter-Sources" in note]
    assert "attach no sources" in note
    # A plain replay changes no counter, and one of increments alone needs no word.
    wire.create_stream("PLAIN", "plain.>")
    assert "Sources" not in str(dry_run(workspace, ReplaySpec("a", "plain.>", Selection(subjects=("all.>",)))))
    wire.create_stream("ON", "on.>", **aggregate, sources=[{"name": "EU", "filter_subject": "none"}])
    with pytest.raises(TargetError, match="Stream ON has sources.*Nats-Counter-Sources"):
        dry_run(workspace, live("all.>", "on.>"))
    archived(workspace, wire, "EU", bucket, "b")
    one = replace(live("eu.>", "on.>"), archive="b")
    assert "Nats-Counter-Sources" not in str(dry_run(workspace, one)["notes"])


@pytest.mark.parametrize("batched", [False, True])
def test_an_object_store(workspace: Workspace, nats: NatsServer, wire: Wire, bucket: str, batched: bool) -> None:
    large = bytes(range(256)) * 1500

    async def fill(js: Any) -> None:
        store = await js.create_object_store("old")
        await store.put("a", b"first")
        await store.put("a", large)
        await store.put("b", b"x")
        await store.delete("b")
        await js.create_object_store("new")

    async def content(js: Any, name: str) -> dict[str, bytes]:
        store = await js.object_store(name)
        return {info.name: (await store.get(info.name)).data for info in await store.list() if not info.deleted}

    client(nats, fill)
    archived(workspace, wire, "OBJ_old", bucket)
    if batched:
        config = wire.api("STREAM.INFO.OBJ_new")["config"]
        if "allow_batched" not in wire.api("STREAM.UPDATE.OBJ_new", **config | {"allow_batched": True})["config"]:
            pytest.skip("needs batches")
    done = replayed(workspace, live("$O.old.>", "$O.new.>"))
    assert done.state == "succeeded"
    assert client(nats, lambda js: content(js, "new")) == {"a": large}
    assert client(nats, lambda js: content(js, "old")) == {"a": large}


@pytest.mark.needs_nats("2.11")
def test_what_has_ended_is_left_out(workspace: Workspace, wire: Wire, bucket: str) -> None:
    def put(subject: str, ttl: str | None, data: bytes) -> None:
        wire.publish([(subject, b"NATS/1.0\r\nNats-TTL: %b\r\n\r\n" % ttl.encode() if ttl else b"", data)])

    for name in ("old", "new"):
        wire.create_stream(name, f"{name}.>", allow_msg_ttl=True, max_msgs_per_subject=1)
    put("old.alone", "5s", b"1")
    put("old.kept", "1h", b"2")
    put("old.displaced", None, b"3")
    put("old.forever", "never", b"4")
    archived(workspace, wire, "old", bucket)
    put("old.displaced", "1s", b"5")
    archived(workspace, wire, "old", bucket)
    eventually(lambda: wire.state("old")["messages"] == 2, "messages of old")
    done = replayed(workspace, live("old.>", "new.>"))
    # The one that displaced another does so again, and ends after a second.
    assert (done.selected, done.published, done.expired) == (5, 4, 1)
    eventually(lambda: wire.state("new")["messages"] == 2, "messages of new")
    assert {m.subject: m.data for m in wire.messages("new")} == {"new.kept": b"2", "new.forever": b"4"}


@pytest.mark.parametrize("marks", [True, False])
def test_it_goes_on_after_a_break_if_it_can_be_known(
    workspace: Workspace, wire: Wire, bucket: str, marks: bool
) -> None:
    config = {"max_msgs_per_subject": 5, "allow_rollup_hdrs": True}
    wire.create_stream("old", "old.>", **config)
    wire.create_stream("new", "new.>", duplicate_window=100_000_000, **config)
    wire.publish([("old.a", b"", b"%d" % n) for n in range(4)])
    archived(workspace, wire, "old", bucket)
    wire.publish([("old.a", b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n", b"4"), ("old.b", b"", b"5")])
    archived(workspace, wire, "old", bucket)
    replay, _ = begin(workspace, live("old.>", "new.>", marks=marks))
    # An attempt that was killed before its first message leaves nothing to be known.
    attempt.start(workspace, replay.id)
    started = attempt.start(workspace, replay.id)
    assert sum(result.published for result in published(started.job, pending(workspace, replay.id))) == 6
    if marks:
        done = driven(workspace, replay.id)
        assert (done.published, done.found) == (0, 6)
    else:
        with pytest.raises(TargetError, match="has taken messages since this replay began, which has no marks"):
            driven(workspace, replay.id)
    assert [m.data for m in wire.messages("new")] == [b"4", b"5"]


def test_a_live_replay_has_one_order_and_may_be_without_marks() -> None:
    with pytest.raises(OperatorError, match="cannot have the order subject"):
        ReplaySpec("a", live=True, order="subject")
    with pytest.raises(OperatorError, match="Only a live replay may leave out"):
        ReplaySpec("a", marks=False)
