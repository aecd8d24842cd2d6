"""`nats3 account restore`: what a person types, into the same account or another."""

import json
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.account_restore.plan import plan
from nats3_dagster.archive.account_restore.spec import AccountRestoreSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.accounts import capture_all, fields, make_rule
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


@pytest.fixture
def before(workspace: Workspace, wire: Wire, bucket: str) -> dict[str, Any]:
    """The messages of two streams that are archived by a rule, and there."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("Über=1+1", "ueber.>")
    wire.publish([("ev.1", b"", b"%d" % n) for n in range(10)] + [("ueber.x", b"", b"x")])
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    return {name: fields(wire, name) for name in ("EV", "Über=1+1")}


def destroy(wire: Wire) -> None:
    for name in ("EV", "Über=1+1"):
        wire.api(f"STREAM.DELETE.{name}")


def actions(view: dict[str, Any]) -> dict[str, str]:
    return {one["stream"]: one["action"] for one in view["streams"]}


def test_from_its_plan_to_its_end(nats3: Command, wire: Wire, before: dict[str, Any]) -> None:
    destroy(wire)
    shown = nats3.ok("account", "restore", "all", "--dry-run")
    assert "Über=1+1" in shown.out
    assert "A dry run: no stream was made" in shown.err
    view = nats3.ok("account", "restore", "all", "--dry-run", "-o", "json").json
    assert (actions(view), view["messages"]) == ({"EV": "restore", "Über=1+1": "restore"}, 11)
    assert wire.api("STREAM.NAMES")["streams"] is None
    done = nats3.ok("account", "restore", "all", "-o", "json")
    assert {one["stream"]: (one["state"], one["compared"]) for one in done.json["streams"]} == {
        "EV": ("whole", 10),
        "Über=1+1": ("whole", 1),
    }
    assert {name: fields(wire, name) for name in before} == before
    again = nats3.ok("account", "restore", "all", "-o", "json").json
    assert set(actions(again).values()) == {"done"}


def test_into_another_account(
    nats3: Command,
    workspace: Workspace,
    wire: Wire,
    before: dict[str, Any],
    nats_factory: NatsFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The context's address and login count, and nothing of the settings here; the streams here stay as they are."""
    server = nats_factory(config='authorization { user: "them", password: "theirs" }')
    contexts = tmp_path / "xdg/nats/context"
    contexts.mkdir(parents=True)
    (contexts / "standby.json").write_text(json.dumps({"url": server.url, "user": "them", "password": "theirs"}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    done = nats3.ok("account", "restore", "all", "--into", "standby", "-o", "json").json
    assert str(server.port) in done["server"]
    with Wire(server.url, user="them", **{"pass": "theirs"}) as there:
        assert {name: fields(there, name) for name in before} == before
    assert {name: fields(wire, name) for name in before} == before
    assert nats3("account", "restore", "all", "--into", "none").status == 2
    again = nats3.ok("account", "restore", "all", "--into", "standby")
    assert "2 streams were there from an earlier run, and were not compared again" in again.err
    assert "are as their archives have them" not in again.err
    # The archive has more by now.
    wire.publish([("ev.1", b"", b"later")])
    capture_all(workspace, wire)
    stale = nats3("account", "restore", "all", "--into", "standby")
    assert (stale.status, "ends with sequence 10, and its archive has it up to 11" in stale.error) == (2, True)


def test_what_is_refused_changes_nothing(nats3: Command, wire: Wire, before: dict[str, Any]) -> None:
    destroy(wire)
    wire.create_stream("OTHER", "ev.1")
    refused = nats3("account", "restore", "all")
    assert refused.status == 2
    assert "Stream EV cannot be restored" in refused.error
    assert "cannot be restored" in refused.out
    for words in (("none",), ("all", "--match", "none*"), ("all", "--at-once", "0"), ("all", "--replicas", "9")):
        assert nats3("account", "restore", *words).status == 2
    assert wire.api("STREAM.NAMES")["streams"] == ["OTHER"]


def test_an_account_without_room(workspace: Workspace, before: dict[str, Any], nats_factory: NatsFactory) -> None:
    """Its limits are looked at before the first stream is made."""
    account = "jetstream { max_streams: 1 }, users: [{user: a, password: a}]"
    small = nats_factory(config=f"accounts {{ A {{ {account} }} }}")
    address = f"nats://a:a@127.0.0.1:{small.port}"
    with Workspace(workspace.settings.model_copy(update={"nats_url": address})) as there:
        planned = plan(there, AccountRestoreSpec("all"))
        assert planned.refusal
        assert "has room for 1 streams, and the restore takes 2" in planned.refusal.what
        assert plan(there, AccountRestoreSpec("all", match=("EV",))).refusal is None
