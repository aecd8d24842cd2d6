"""NATS by WebSocket (nats.py#906): captures, replays and takes through ws:// and wss://, and through a proxy."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from nats3_dagster.addresses import nats_fault
from nats3_dagster.dev.process import free_port
from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.streams import stream_names
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support import taking
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.servers.logins import Authority, tls_config
from nats3_dagster_tests.support.servers.web_proxy import WebProxy
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.nats


@pytest.mark.parametrize("scheme", ["ws", "wss", "proxy"])
def test_an_archive_and_its_replay(
    settings: Settings,
    nats_factory: NatsFactory,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
) -> None:
    port, authority = free_port(), Authority(tmp_path)
    tls = tls_config(authority) if scheme == "wss" else "no_tls: true"
    server = nats_factory(config=f"websocket {{host: 127.0.0.1, port: {port}, {tls}}}")
    proxy = WebProxy(f"ws://127.0.0.1:{port}") if scheme == "proxy" else None
    monkeypatch.setenv("NATS3_NATS_URL", proxy.url if proxy else f"{scheme}://127.0.0.1:{port}")
    if scheme == "wss":
        monkeypatch.setenv("NATS3_NATS_TLS_CA", authority.file)
    with proxy or nullcontext(), Wire(server.url) as wire, Workspace(Settings.load()) as workspace:
        wire.create_stream("EV", "ev.>")
        wire.create_stream("BACK", "back.>", **({"allow_batched": True} if server.version >= (2, 14) else {}))
        wire.create_stream("JOBS", "jobs.>", retention="workqueue")
        # Of all sizes, and more than one pull request.
        payloads = [b"%d " % n + b"x" * (n * 7 % 3000) for n in range(9000)]
        wire.publish([("ev.a", b"", data) for data in payloads])
        wire.publish([("jobs.a", b"", data) for data in payloads[:500]])
        archived(workspace, wire, "EV", bucket)
        done = replayed(workspace, ReplaySpec("a", "back.>", Selection(subjects=("ev.>",))))
        assert (done.state, done.published) == ("succeeded", len(payloads))
        assert [m.data for m in wire.messages("BACK")] == payloads
        archive = taking.make(workspace, bucket)
        taking.run(workspace, archive)
        assert [data for _, data in taking.content(workspace, archive)] == payloads[:500]
    assert proxy is None or proxy.passed > 3


def test_what_is_no_websocket_says_so(nats_factory: NatsFactory) -> None:
    server = nats_factory()
    with pytest.raises(SourceError, match="127.0.0.1"):
        Link(NatsOptions(servers=(f"ws://127.0.0.1:{server.port}",), connect_timeout_s=1.0)).__enter__()
    with pytest.raises(SourceError, match="Nothing listens"):
        Link(NatsOptions(servers=(f"ws://127.0.0.1:{free_port()}",), connect_timeout_s=1.0)).__enter__()


def test_a_link_outlives_a_restart(nats_factory: NatsFactory) -> None:
    port = free_port()
    server = nats_factory(config=f"websocket {{host: 127.0.0.1, port: {port}, no_tls: true}}")
    with Link(NatsOptions(servers=(f"ws://127.0.0.1:{port}",))) as link:
        server.kill()
        server.start()
        assert stream_names(link) == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("ws://h", True),
        ("wss://h:443/nats/ws", True),
        ("ws://a,ws://b", True),
        ("ws://a,nats://b", False),
        ("ws://u:p/w@h", False),
        ("wss://h/x?token=y", False),
        ("http://h", False),
    ],
)
def test_addresses(text: str, is_one: bool) -> None:
    assert (nats_fault(text) is None) == is_one
