"""Older nats-servers, built with Go where there is one: what they misread, and which are refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health import nats_health
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec, Incarnation, ReplaySpec, Selection
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.messages.headers import replay_headers
from nats3_dagster.replay.planning.plan import plan
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.nats
OldNats = Callable[..., NatsServer]
# Header lines that make a server do something, and would do harm or be refused.
ACTING = [
    "Nats-Rollup: all",
    "Nats-Expected-Stream: ANOTHER",
    "Nats-Expected-Last-Sequence: 99",
    "Nats-Expected-Last-Subject-Sequence: 99",
    "Nats-Expected-Last-Msg-Id: no",
    "Nats-Msg-Id: same",
    "Nats-Msg-Id: same",
    "Nats-TTL: 1s",
    "Nats3-Original-Nats-Rollup: all",
]


@pytest.fixture
def at(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[[NatsServer], Settings]:
    """Settings for another nats-server, and the test's catalog and store."""

    def use(server: NatsServer) -> Settings:
        monkeypatch.setenv("NATS3_NATS_URL", server.url)
        return Settings.load()

    return use


@pytest.mark.parametrize("version", ["2.9.6", "2.9.7", "2.10.29", "2.11.15"])
def test_renamed_headers_do_nothing_on_it(old_nats: OldNats, version: str) -> None:
    """nats-server#3645: up to 2.9.6 a header acts by the end of its name."""
    blocks = pa.array([f"NATS/1.0\r\n{line}\r\n\r\n".encode() for line in ACTING], pa.binary())
    numbers = pa.array(range(len(ACTING)), pa.int64())
    sent = replay_headers(blocks, "0" * 16, Incarnation("EV", 1), numbers, numbers, with_ids=False)
    with Wire(old_nats(version).url) as wire:
        wire.create_stream("BACK", "back.>", allow_rollup_hdrs=True)
        wire.publish([("back.old", b"", b"")] * 5)
        wire.publish([("back.a", block, b"") for block in sent.to_pylist()])
        assert len(list(wire.messages("BACK"))) == 5 + len(ACTING)


def test_one_before_2_9_7_is_refused_by_name(
    old_nats: OldNats, at: Callable[[NatsServer], Settings], bucket: str
) -> None:
    servers = {version: old_nats(version) for version in ("2.9.6", "2.9.7")}
    for server in servers.values():
        with Wire(server.url) as wire:
            wire.create_stream("EV", "ev.>")
            wire.create_stream("BACK", "back.>")
            wire.publish([("ev.a", b"", b"")] * 3)
    replay = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)))
    refused = "nats-server 2.9.6 at .* is older than 2.9.7"
    with Workspace(at(servers["2.9.7"])) as workspace, Wire(servers["2.9.7"].url) as wire:
        archived(workspace, wire, "EV", bucket)
        assert plan(workspace, replay).extent.messages == 3
        assert [f.status for f in nats_health.check(workspace)][:1] == ["ok"]
        archive = workspace.catalog.archives.get("a")
        begun = begin(workspace, replay)[0]
    with Workspace(at(servers["2.9.6"])) as workspace:
        asked: list[Callable[[], Any]] = [
            lambda: open_source(workspace, archive),
            lambda: plan(workspace, replace(replay, write_subject="other.>")),
            lambda: attempt.start(workspace, begun.id),
            lambda: create(workspace, replace(ArchiveSpec("b", "EV", bucket), prefix="b")),
        ]
        for ask in asked:
            with pytest.raises(OperatorError, match=refused) as error:
                ask()
            assert error.value.hint == "Update it"
        (finding, *_) = nats_health.check(workspace)
        assert finding.status == "fail"
        assert "2.9.6" in finding.what
