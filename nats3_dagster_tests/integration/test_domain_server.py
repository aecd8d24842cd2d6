"""The domain's server: who may have the domain, several processes, what a server or an archive does meanwhile."""

import asyncio
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from nats.errors import Error

from nats3_dagster.api.app import create_app
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.served import several
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.nats import messages as answers
from nats3_dagster.nats.serve import DomainServer
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.domain_client import DomainClient
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

COUNT = 40


@pytest.fixture
def events(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    wire.create_stream("EV", "ev.>")
    wire.publish((f"ev.{n % 4}", b"", b"%d" % n) for n in range(1, COUNT + 1))
    archived(workspace, wire, "EV", bucket, "ev")
    return workspace.catalog.archives.get("ev")


def test_several_processes_share_the_requests_and_are_found_as_a_service(events: Archive, workspace: Workspace) -> None:
    url = workspace.settings.nats.servers[0]
    with DomainServer(workspace.settings), DomainServer(workspace.settings), DomainClient(url) as client:
        for seq in range(1, COUNT + 1):
            assert client.get(seq) == ("", b"%d" % seq)
        assert client.ask("$JS.archive.API.CONSUMER.CREATE.EV", {}).data
        stats = client.collect("$SRV.STATS.nats3-archive")
        counted = [one["endpoints"][0]["num_requests"] for one in stats]
        assert len(counted) == 2
        assert min(counted) > 0
        # Beside them: the question of the second one whether the domain is free.
        assert sum(counted) == COUNT + 2
        assert {one["type"] for one in stats} == {"io.nats.micro.v1.stats_response"}
        (pong,) = client.collect(f"$SRV.PING.nats3-archive.{stats[0]['id']}")
        assert (pong["name"], pong["metadata"]) == ("nats3-archive", {"domain": "archive"})
        (info, _) = client.collect("$SRV.INFO")
        assert info["endpoints"][0]["subject"] == "$JS.archive.API.>"


def test_a_domain_that_another_program_has_is_not_taken(events: Archive, workspace: Workspace) -> None:
    with DomainClient(workspace.settings.nats.servers[0]) as client:

        async def answer(message: Any) -> None:
            await message.respond(b'{"type":"io.nats.jetstream.api.v1.account_info_response"}')

        client.run(client.client.subscribe("$JS.archive.API.INFO", cb=answer))
        client.run(client.client.flush())
        ended = threading.Event()
        # Its answers come only while its loop runs.
        runs = threading.Thread(target=lambda: client.run(_until(ended)))
        runs.start()
        try:
            with pytest.raises(OperatorError, match="Another program or server answers for the domain archive"):
                DomainServer(workspace.settings).__enter__()
        finally:
            ended.set()
            runs.join()


async def _until(ended: threading.Event) -> None:
    while not ended.is_set():
        await asyncio.sleep(0.02)


def test_an_archive_that_changes_is_read_as_it_is_now(
    events: Archive, workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """Each answer is of a moment after its request."""
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        assert client.get(7) == ("", b"7")
        assert client.get(7) == ("", b"7")  # what is kept now
        chunk = workspace.catalog.chunks.select(events)[0]
        workspace.catalog.chunks.retire(events, [chunk.id])
        assert client.get(7)[0] == "404"
        assert client.get(COUNT)[0] == "404"  # the stream has it, and it was taken away
        wire.publish([("ev.9", b"", b"new")])
        assert client.get(COUNT + 1) == ("", b"new")
        delete(workspace, "ev")
        with pytest.raises(Exception, match="no responders"):
            client.get(7)


def test_several_archives_of_a_stream_have_their_own_names(
    events: Archive, workspace: Workspace, wire: Wire, bucket: str
) -> None:
    archived(workspace, wire, "EV", bucket, "odd", subjects=("ev.1", "ev.3"))
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        assert json.loads(client.ask("$JS.archive.API.STREAM.NAMES").data)["streams"] == ["ev", "odd"]
        assert client.get(2, "ev") == ("", b"2")
        assert client.get(2, "odd")[0] == "404"
        assert client.get(3, "odd") == ("", b"3")
        wire.publish([("ev.2", b"", b"even"), ("ev.1", b"", b"odd")])
        # The stream has both, and the archive will take one.
        assert client.get(COUNT + 1, "odd")[0] == "404"
        assert client.get(COUNT + 2, "odd") == ("", b"odd")
        newest = client.ask("$JS.archive.API.DIRECT.GET.odd", {"next_by_subj": ">", "seq": COUNT + 1})
        assert newest.data == b"odd"
        newest = client.ask("$JS.archive.API.DIRECT.GET.odd", {"last_by_subj": "ev.*"})
        assert newest.data == b"odd"


def test_a_message_that_no_reply_can_hold_is_an_error_and_the_connection_stays(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    largest = workspace.link.client.max_payload
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x" * (largest - 20)), ("ev.a", b"", b"small")])
    archived(workspace, wire, "EV", bucket, "ev")
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        assert client.get(1)[0] == "500"
        stored = json.loads(client.ask("$JS.archive.API.STREAM.MSG.GET.EV", {"seq": 1}).data)
        assert "max_payload" in stored["error"]["description"]
        assert client.get(2) == ("", b"small")


def test_a_subject_that_is_not_utf8_is_answered_in_its_bytes(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(b"ev.\xff", b"", b"odd"), (b"ev.\xfe", b"", b"other")])
    archived(workspace, wire, "EV", bucket, "ev")
    address = urlsplit(workspace.settings.nats.servers[0])
    request = b'PUB $JS.archive.API.DIRECT.GET.EV _B.1 9\r\n{"seq":1}\r\n'
    with DomainServer(workspace.settings), socket.create_connection((address.hostname, address.port), 10) as plain:
        plain.sendall(b'CONNECT {"headers":true,"verbose":false}\r\nSUB _B.1 1\r\n' + request)
        said = b""
        while not said.endswith(b"odd\r\n"):
            said += plain.recv(4096)
    assert b"Nats-Subject: ev.\xff\r\n" in said


def test_a_long_answer_comes_in_parts_and_goes_on_where_it_ended(
    events: Archive, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "BATCH_BYTES", 50)
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        seqs, after = list[int](), 0
        while True:
            *found, end = client.batch("EV", {"seq": after + 1, "batch": 1000})
            seqs += [int(m.headers["Nats-Sequence"]) for m in found]
            if end.headers["Status"] == "404" or end.headers["Nats-Num-Pending"] == "0":
                break
            assert int(end.headers["Nats-Num-Pending"]) == COUNT - seqs[-1]
            after = seqs[-1]
        assert seqs == [*range(1, COUNT + 1)]


def test_messages_that_come_after_a_batch_was_counted_leave_none_pending(
    events: Archive, workspace: Workspace, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch has them. Clients read the header as a number without a sign."""
    count = several.pending

    def counted_before_two_more(*asked: Any) -> int:
        pending = count(*asked)
        wire.publish([("ev.1", b"", b"new"), ("ev.2", b"", b"newer")])
        return pending

    monkeypatch.setattr(several, "pending", counted_before_two_more)
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        *found, end = client.batch("EV", {"seq": COUNT - 1, "batch": 10})
    assert [(int(m.headers["Nats-Sequence"]), m.headers["Nats-Num-Pending"]) for m in found] == [
        (COUNT - 1, "1"),
        (COUNT, "0"),
        (COUNT + 1, "0"),
        (COUNT + 2, "0"),
    ]
    assert (end.headers["Status"], end.headers["Nats-Num-Pending"]) == ("204", "0")


def test_a_server_that_restarts_is_served_again(events: Archive, workspace: Workspace, nats: Any) -> None:
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        assert client.get(7) == ("", b"7")
        nats.stop()
        nats.start()
        eventually(lambda: _answers(client), "it answers again", 30)


def test_an_archive_without_messages_is_no_stream(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    create(workspace, ArchiveSpec("ev", "EV", bucket))
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        assert json.loads(client.ask("$JS.archive.API.STREAM.NAMES").data)["streams"] == ["EV"]
        wire.publish([("ev.a", b"", b"1")])
        assert client.get(1) == ("", b"1")


def test_it_begins_when_nats_does(events: Archive, workspace: Workspace, nats: Any) -> None:
    nats.stop()
    with DomainServer(workspace.settings):
        nats.start()
        with DomainClient(workspace.settings.nats.servers[0]) as client:
            eventually(lambda: _answers(client), "it answers", 30)


def _answers(client: DomainClient) -> bool:
    """A request that is sent while the client connects again may be lost: the next one is not to wait long."""
    try:
        return client.ask("$JS.archive.API.DIRECT.GET.EV", {"seq": 7}, timeout=0.5).data == b"7"
    except Error:
        return False


def test_metrics_have_what_the_process_answered(events: Archive, workspace: Workspace) -> None:
    with DomainServer(workspace.settings) as server, DomainClient(workspace.settings.nats.servers[0]) as client:
        app = create_app(workspace.settings, domains=lambda: [server.counts])
        for seq in (1, 2, COUNT + 50):
            client.get(seq)
        with TestClient(app, base_url="http://localhost") as http:
            lines = http.get("/metrics").text.splitlines()
    counts = {line.partition("{")[0]: line for line in lines if line.startswith("nats3_domain_")}
    assert counts["nats3_domain_requests_total"].endswith(" 3.0")
    assert f'server="{server.counts.server}"' in counts["nats3_domain_errors_total"]
    assert float(counts["nats3_domain_seconds_total"].split()[-1]) > 0


def test_what_the_stream_forgot_before_a_capture_is_told_as_lost(
    events: Archive, workspace: Workspace, wire: Wire
) -> None:
    wire.publish(("ev.1", b"", b"later") for _ in range(30))
    wire.api("STREAM.PURGE.EV", seq=COUNT + 11)
    with DomainServer(workspace.settings), DomainClient(workspace.settings.nats.servers[0]) as client:
        info = json.loads(client.ask("$JS.archive.API.STREAM.INFO.EV").data)
    assert info["config"]["metadata"]["nats3.lost"] == "10"
    assert info["config"]["metadata"]["nats3.archived_through"] == str(COUNT)
    state = info["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (COUNT + 20, 1, COUNT + 30)
    assert state["num_deleted"] == 10
