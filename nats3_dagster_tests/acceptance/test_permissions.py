"""The permissions that docs/nats.md names are enough to archive a stream, to replay, and to resume a replay."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

DOCS = Path(__file__).parents[2] / "docs" / "nats.md"


def documented() -> str:
    """The block of a server's configuration that the page shows."""
    block = re.search(r"```\n(permissions \{.*?)\n```", DOCS.read_text(), re.DOTALL)
    assert block
    return block[1]


def test_the_page_shows_what_the_command_prints(settings: Settings, wire: Wire, bucket: str, nats3: Command) -> None:
    wire.create_stream("ORDERS", "orders.>")
    nats3.ok("store", "create", "--name", "orders", "--stream", "ORDERS", "--bucket", bucket)
    asked = ("permissions", "orders", "--write-subject", "replay.>", "--into", "REPLAYED", "--create-stream")
    assert nats3.ok(*asked).out == documented() + "\n"
    listed = nats3.ok("permissions", "orders", "-o", "json").json
    assert listed["subscribe"] == ["_INBOX.>", "_NATS3.>"]
    assert "replay.>" not in listed["publish"]
    assert nats3.refused("permissions", "orders", "--into", "REPLAYED").startswith("2 Error: A replay has subjects")
    assert nats3.refused("permissions", "orders", "--only-replay").startswith("2 Error: Nothing says where")


@pytest.fixture
def guarded(
    settings: Settings, nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> NatsServer:
    """A server of a JetStream domain, with a user `nats3` that has the documented permissions, and one that may do
    all."""
    users = f"{{user: admin, password: all}}, {{user: nats3, password: some, {documented()}}}"
    domain = f"jetstream: {{ store_dir: {json.dumps(str(tmp_path / 'js'))}, domain: HUB }}"
    server = nats_factory(config=f"{domain}\naccounts {{ A: {{ jetstream: enabled, users: [{users}] }} }}")
    monkeypatch.setenv("NATS3_NATS_URL", server.url)
    monkeypatch.setenv("NATS3_NATS_USER", "nats3")
    monkeypatch.setenv("NATS3_NATS_PASSWORD", "some")
    return server


def test_the_documented_permissions_are_enough(guarded: NatsServer, bucket: str, nats3: Command, spark: Any) -> None:
    with Wire(guarded.url, user="admin", **{"pass": "all"}) as wire:
        wire.create_stream("ORDERS", "orders.>")
        wire.publish([("orders.eu.1", b"", b"%d" % n) for n in range(100)])
        # With a filter the request to make a consumer names it in its subject.
        for name, more in (("orders", ()), ("some", ("--subject", "orders.eu.>"))):
            nats3.ok("store", "create", "--name", name, "--stream", "ORDERS", "--bucket", bucket, *more)
            nats3.ok("store", "run", name)
        assert [a["messages"] for a in nats3.ok("store", "list", "-o", "json").json] == [100, 100]
        replay = ("load", "create", "--archive", "orders", "--read-subject", "orders.>", "--write-subject", "replay.>")
        assert nats3.ok(*replay, "--create-stream", "REPLAYED", "-o", "json").json["published"] == 100
        spec = ReplaySpec("orders", "replay.>", Selection(subjects=("orders.>",)))
        with Workspace(Settings.load()) as workspace:
            again, _ = begin(workspace, spec)
            attempt.start(workspace, again.id)  # and no more: as if killed
        wire.publish([("replay.other", b"", b"")])  # what came since is looked through
        assert nats3.ok("load", "resume", again.id, "-o", "json").json["published"] == 100
        assert wire.state("REPLAYED")["messages"] == 201
    log = (guarded.folder / "server.log").read_text()
    assert [line for line in log.splitlines() if "Violation" in line] == []
