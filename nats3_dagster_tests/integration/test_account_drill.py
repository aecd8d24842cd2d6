"""A drill says whether a restore would work and how long it takes; it changes no stream and no message."""

from typing import Any

import psycopg
import pytest

from nats3_dagster.hours import parse_time
from nats3_dagster.settings import Settings, home
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.accounts import capture_all, fields, make_rule
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.consumers import app
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


@pytest.fixture
def account(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Two streams with messages, one of them with holes and a consumer, and an empty one."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("Über=1+1", "ueber.>")
    wire.create_stream("EMPTY", "empty.>")
    wire.publish([("ev.1", b"", b"%d" % n) for n in range(20)] + [("ueber.x", b"", b"x")] * 5)
    wire.api("STREAM.MSG.DELETE.EV", seq=7)
    make_rule(workspace, bucket)
    app(workspace).make(ack_policy="explicit")
    app(workspace).take(5, acked=[1, 2])
    capture_all(workspace, wire)


def by_stream(view: dict[str, Any]) -> dict[str, tuple[int, int, bool]]:
    return {one["stream"]: (one["messages"], one["live"], one["error"] is None) for one in view["archives"]}


def test_all_is_as_it_should_be(nats3: Command, workspace: Workspace, wire: Wire, account: None) -> None:
    before = fields(wire, "EV")
    # Neither what came later nor what is gone matters.
    wire.publish([("ev.1", b"", b"later")])
    wire.api("STREAM.MSG.DELETE.EV", seq=3)
    done = nats3.ok("account", "drill", "all", "-o", "json").json
    assert by_stream(done) == {"EV": (19, 18, True), "EMPTY": (0, 0, True), "Über=1+1": (5, 5, True)}
    assert nats3.ok("account", "drill", "all", "--match", "EV", "--all", "-o", "json").json["messages"] == 19
    # Nothing of it is left, and nothing was changed.
    assert [one for one in before if one["seq"] != 3] == fields(wire, "EV")[:-1]
    assert len(wire.api("STREAM.NAMES")["streams"]) == 3
    assert list((home() / "drills").iterdir()) == []
    shown = nats3.ok("store", "get", "EV", "-o", "json").json["drill"]
    assert (shown["messages"], shown["live"], shown["error"]) == (19, 18, None)
    assert shown["proven_at"] == shown["at"]
    assert 0 < shown["rto_s"] < 60
    assert 0 <= shown["rpo_s"] < 600
    metrics = nats3.ok("metrics").out
    assert 'nats3_archive_drill_ok{archive="EV"} 1' in metrics
    assert 'nats3_archive_restore_seconds{archive="EV"}' in metrics
    assert 'nats3_archive_restore_seconds{archive="EMPTY"}' not in metrics


def test_what_is_not_as_it_should_be_is_found(
    nats3: Command, workspace: Workspace, wire: Wire, account: None, settings: Settings
) -> None:
    """An object that is gone, and a live stream with other messages; the other archives are drilled all the same."""
    assert nats3.ok("account", "drill", "all").err == ""
    (archive,) = (one for one in workspace.catalog.archives.all() if one.spec.stream == "Über=1+1")
    (chunk,) = workspace.catalog.chunks.select(archive)
    workspace.bucket(archive.spec.bucket).delete(chunk.meta.key)
    _claim_another_time(settings, wire)
    ran = nats3("account", "drill", "all", "-o", "json")
    assert ran.status == 1
    assert by_stream(ran.json)["EMPTY"] == (0, 0, True)
    assert by_stream(ran.json)["Über=1+1"][2] is False
    errors = {one["stream"]: one["error"] for one in ran.json["archives"]}
    assert "Stream EV has message" in errors["EV"]
    shown = nats3.ok("store", "get", "EV", "-o", "json").json["drill"]
    assert shown["error"]
    # When it was last in order stays known.
    assert shown["proven_at"] < shown["at"]
    assert 'nats3_archive_drill_ok{archive="EV"} 0' in nats3.ok("metrics").out
    assert nats3("account", "drill", "none").status == 2
    assert nats3("account", "drill", "all", "--match", "none").status == 2


def _claim_another_time(settings: Settings, wire: Wire) -> None:
    """The archive takes a stream for its own that has other messages."""
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.2", b"", b"other")] * 25)
    created = wire.api("STREAM.INFO.EV")["created"]
    with psycopg.connect(settings.postgres) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "update nats3.coverage c set restored_ns = %s from nats3.incarnation i "
            "where i.id = c.incarnation_id and i.stream = 'EV'",
            [parse_time(created)],
        )
