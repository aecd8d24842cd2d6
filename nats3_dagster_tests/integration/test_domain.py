"""The archive as a JetStream domain, request by request beside a server that has the same stream.

The truth is the server's own answer to the same request: status, headers and payload of every reply.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from nats.aio.client import Client

from nats3_dagster.archive.captures.commit import commit
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.nats.serve import DomainServer
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures
from nats3_dagster_tests.support.replays import archived as capture
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")
SUBJECTS = ["ev.a", "ev.b.c", "ev.b.d", "ev.é", "ev.x"]
GONE = (4, 11, 12)


def publish(wire: Wire, first: int, count: int) -> None:
    wire.publish(
        (
            SUBJECTS[n % len(SUBJECTS)],
            b"NATS/1.0\r\nN: %d\r\nN: again\r\n\r\n" % n if n % 3 == 0 else b"",
            b"payload %d" % n if n % 7 else b"",
        )
        for n in range(first, first + count)
    )


@pytest.fixture
def archived(workspace: Workspace, wire: Wire, bucket: str) -> Iterator[Any]:
    """A stream of 30 messages, three of them deleted, of which an archive has the first 20."""
    wire.create_stream("EV", "ev.>", allow_direct=True)
    publish(wire, 1, 20)
    for seq in GONE:
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    archive = create(workspace, ArchiveSpec("ev", "EV", bucket))
    captures.capture(workspace, archive, wire)
    publish(wire, 21, 10)
    with DomainServer(workspace.settings):
        yield archive


class Asked:
    """Both answers to requests: the server's and the domain's."""

    def __init__(self, url: str) -> None:
        self._url = url

    def both(self, requests: list[tuple[str, Any]]) -> list[tuple[list[Any], list[Any]]]:
        return asyncio.run(self._both(requests))

    async def _both(self, requests: list[tuple[str, Any]]) -> list[tuple[list[Any], list[Any]]]:
        client = Client()
        await client.connect(self._url)
        try:
            return [
                (await _ask(client, f"$JS.API.{what}", body), await _ask(client, f"$JS.archive.API.{what}", body))
                for what, body in requests
            ]
        finally:
            await client.close()


async def _ask(client: Client, subject: str, body: Any) -> list[Any]:
    """The replies, until one that ends them: of a batch its 204, of anything else the first."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    await client.publish(subject, payload, reply=inbox)
    found: list[Any] = []
    is_batch = ".DIRECT." in subject and isinstance(body, dict) and ("batch" in body or "multi_last" in body)
    while True:
        message = await subscription.next_msg(timeout=5)
        headers = dict(message.headers or {})
        found.append((headers, message.data))
        if not is_batch or "Status" in headers:
            await subscription.unsubscribe()
            return found


def times(wire: Wire, *seqs: int) -> list[str]:
    return [wire.api("STREAM.MSG.GET.EV", seq=seq)["message"]["time"] for seq in seqs]


def test_every_form_of_direct_get_is_answered_as_the_server_does(archived: Any, nats: NatsServer, wire: Wire) -> None:
    at = times(wire, 1, 7, 20, 25, 30)
    bodies: list[Any] = [
        *({"seq": seq} for seq in (1, 4, 5, 19, 20, 21, 30, 31, 10**12)),
        *({"last_by_subj": subject} for subject in (*SUBJECTS, "ev.none", "ev.b.*", "other")),
        *({"seq": seq, "next_by_subj": s} for seq in (1, 11, 20, 21, 29, 31) for s in ("ev.a", "ev.b.*", ">", "none")),
        *({"next_by_subj": s} for s in ("ev.a", "ev.>")),
        *({"start_time": time} for time in at),
        *({"start_time": time, "next_by_subj": "ev.x"} for time in at),
        *({"seq": seq, "batch": batch} for seq in (1, 4, 18, 21, 30, 31) for batch in (1, 2, 5, 100)),
        *({"seq": seq, "batch": batch, "next_by_subj": "ev.b.>"} for seq in (1, 12, 21) for batch in (1, 3, 100)),
        *({"start_time": time, "batch": 3} for time in at),
        {"seq": 1, "batch": 100, "max_bytes": 60},
        {"seq": 2, "no_hdr": True},
        *({"multi_last": filters} for filters in (["ev.a"], ["ev.b.*"], [">"], ["ev.a", "ev.>"], ["none"])),
        *({"multi_last": ["ev.>"], "up_to_seq": seq} for seq in (1, 3, 5, 13, 20, 22, 30)),
        *({"multi_last": ["ev.>"], "up_to_time": time} for time in at),
        {"multi_last": ["ev.>"], "batch": 2},
        {"multi_last": ["ev.>"], "seq": 28},
        {"multi_last": ["ev.>"], "max_bytes": 10},
        b"",
        b"{}",
        b"[1]",
        b"{",
        {"seq": "x"},
        {"seq": 1, "last_by_subj": "ev.a"},
        {"last_by_subj": "ev.a", "batch": 2},
        {"next_by_subj": "ev.a", "multi_last": ["ev.a"]},
        {"seq": 1, "start_time": at[0]},
        {"up_to_seq": 5, "up_to_time": at[0], "multi_last": ["ev.a"]},
    ]
    requests = [("DIRECT.GET.EV", body) for body in bodies]
    requests += [(f"DIRECT.GET.EV.{subject}", b"") for subject in ("ev.a", "ev.b.c", "ev.none")]
    requests += [("DIRECT.GET.EV.ev.a", {"seq": 3})]
    answers = zip(requests, Asked(nats.url).both(requests), strict=True)
    assert [(asked, ours, theirs) for asked, (theirs, ours) in answers if ours != theirs] == []


@pytest.mark.parametrize("counted", [True, False])
def test_last_values_up_to_a_sequence_are_the_servers_in_an_archive_of_several_chunks(
    workspace: Workspace, nats: NatsServer, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    """A subject's last message lies in an earlier chunk, in the one that the sequence cuts, or only after it.
    `counted`: the catalog knows the subjects of each chunk."""
    monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", 256 if counted else 1)
    wire.create_stream("EV", "ev.>", allow_direct=True)
    chunks = [
        ["ev.old", "ev.b.c", "ev.b.d", "ev.b.c", "ev.x"],
        ["ev.b.c", "ev.é", "ev.x", "ev.b.c"],
        ["ev.x", "ev.b.d", "ev.new", "ev.b.c", "ev.new"],
    ]
    for subjects in chunks:
        wire.publish((subject, b"", subject.encode()) for subject in subjects)
        capture(workspace, wire, "EV", bucket, "ev")
    (archive,) = workspace.catalog.archives.all()
    assert len(workspace.catalog.chunks.select(archive)) >= len(chunks)
    wire.publish([("ev.b.c", b"", b"waits"), ("ev.later", b"", b"waits")])
    last = wire.state("EV")["last_seq"]
    filters = [["ev.>"], ["ev.b.*"], ["ev.*"], ["ev.old"], ["ev.new"], ["ev.b.c", "ev.later", "ev.old"], ["*.none"]]
    ends = [{"up_to_seq": seq} for seq in range(1, last + 1)]
    ends += [{"up_to_time": time} for time in times(wire, *range(1, last + 1))]
    requests: list[tuple[str, Any]] = [("DIRECT.GET.EV", {"multi_last": f, **end}) for f in filters for end in ends]
    with DomainServer(workspace.settings):
        answers = zip(requests, Asked(nats.url).both(requests), strict=True)
        assert [(asked, ours, theirs) for asked, (theirs, ours) in answers if ours != theirs] == []


def test_every_form_of_stored_get_is_answered_as_the_server_does(archived: Any, nats: NatsServer, wire: Wire) -> None:
    at = times(wire, 1, 25)
    bodies: list[Any] = [
        *({"seq": seq} for seq in (1, 3, 4, 7, 20, 21, 30, 31)),
        *({"last_by_subj": subject} for subject in (*SUBJECTS, "ev.none", "ev.b.*")),
        *({"seq": seq, "next_by_subj": "ev.b.*"} for seq in (1, 11, 21, 31)),
        *({"start_time": time} for time in at),
        {"seq": 3, "no_hdr": True},
        {"seq": 1, "batch": 2},
        {"seq": 1, "last_by_subj": "ev.a"},
        {},
        b"",
    ]
    requests = [("STREAM.MSG.GET.EV", body) for body in bodies]
    answers = zip(requests, Asked(nats.url).both(requests), strict=True)
    assert [(asked, ours, theirs) for asked, (theirs, ours) in answers if _plain(ours) != _plain(theirs)] == []


def test_streams_are_listed_as_the_server_lists_them(archived: Any, nats: NatsServer) -> None:
    requests: list[tuple[str, Any]] = [
        ("STREAM.NAMES", {}),
        ("STREAM.NAMES", {"subject": "ev.a"}),
        ("STREAM.NAMES", {"subject": "other"}),
        ("STREAM.NAMES", {"offset": 1}),
        ("STREAM.INFO.NONE", {}),
        ("STREAM.MSG.GET.NONE", {"seq": 1}),
    ]
    for (what, body), (theirs, ours) in zip(requests, Asked(nats.url).both(requests), strict=True):
        assert _plain(ours) == _plain(theirs), (what, body)
    (theirs, ours), (their_list, our_list) = Asked(nats.url).both(
        [("STREAM.INFO.EV", {"deleted_details": True}), ("STREAM.LIST", {})]
    )
    info, own = json.loads(theirs[0][1]), json.loads(ours[0][1])
    assert own["config"].items() >= {"name": "EV", "subjects": ["ev.>"], "allow_direct": True, "sealed": True}.items()
    assert own["config"]["metadata"]["nats3.lost"] == "0"
    same = ("messages", "first_seq", "first_ts", "last_seq", "last_ts", "num_deleted", "deleted")
    assert {name: own["state"][name] for name in same} == {name: info["state"][name] for name in same}
    assert own["created"] == info["created"]
    assert [s["config"]["name"] for s in json.loads(our_list[0][1])["streams"]] == ["EV"]
    assert json.loads(their_list[0][1])["total"] == json.loads(our_list[0][1])["total"] == 1


def _plain(replies: list[Any]) -> list[Any]:
    """Without what is empty: a server writes some of it, as lists do not."""
    return [{name: value for name, value in json.loads(data).items() if value} for _, data in replies]


def test_what_would_change_something_is_refused_with_what_to_use_instead(archived: Any, nats: NatsServer) -> None:
    asked = {
        "CONSUMER.CREATE.EV.c": "nats3 stream restore",
        "CONSUMER.DURABLE.CREATE.EV.c": "nats3 stream restore",
        "CONSUMER.MSG.NEXT.EV.c": "nats3 stream restore",
        "STREAM.CREATE.EV": "the account's own JetStream",
        "STREAM.UPDATE.EV": "nats3 store set",
        "STREAM.DELETE.EV": "nats3 store delete",
        "STREAM.PURGE.EV": "nats3 message erase",
        "STREAM.MSG.DELETE.EV": "nats3 message erase",
        "STREAM.SNAPSHOT.EV": "nats3 stream restore",
        "STREAM.RESTORE.EV": "nats3 import",
        "NOTHING.OF.THIS": "does not know",
    }

    async def ask() -> dict[str, Any]:
        client = Client()
        await client.connect(nats.url)
        try:
            return {what: json.loads((await _ask(client, f"$JS.archive.API.{what}", {}))[0][1]) for what in asked}
        finally:
            await client.close()

    for what, answer in asyncio.run(ask()).items():
        assert answer["error"]["code"] == 400, what
        assert asked[what] in answer["error"]["description"], what


def test_clients_of_nats_read_it_as_they_read_a_stream(
    workspace: Workspace, nats: NatsServer, wire: Wire, bucket: str
) -> None:
    """A key-value bucket whose stream forgets, and is deleted in the end."""

    async def read() -> None:
        client = Client()
        await client.connect(nats.url)
        own = client.jetstream()
        kv = await own.create_key_value(bucket="settings", history=1)
        await kv.put("color", b"red")
        await kv.put("color", b"green")
        await kv.put("size", b"9")
        await asyncio.to_thread(_capture_kv, workspace, bucket, wire)
        await kv.put("color", b"blue")
        with DomainServer(workspace.settings):
            old = await client.jetstream(domain="archive").key_value("settings")
            assert (await old.get("color")).value == b"blue"  # not archived yet
            assert (await old.get("size")).value == b"9"
            assert (await old.get("color", revision=2)).value == b"green"
            await own.delete_key_value("settings")
            assert (await old.get("color")).value == b"green"
            stream = client.jetstream(domain="archive")
            assert (await stream.stream_info("KV_settings")).state.last_seq == 3
            message = await stream.get_msg("KV_settings", seq=3)
            assert (message.subject, message.data) == ("$KV.settings.size", b"9")
            message = await stream.get_last_msg("KV_settings", "$KV.settings.color", direct=True)
            assert (message.seq, message.data) == (2, b"green")
        await client.close()

    asyncio.run(read())


def _capture_kv(workspace: Workspace, bucket: str, wire: Wire) -> None:
    archive = create(workspace, ArchiveSpec("kv", "KV_settings", bucket))
    planned = captures.plan_hours(workspace, archive, hours_of(wire, "KV_settings"))
    commit(workspace, planned, captures.read(workspace, planned))
