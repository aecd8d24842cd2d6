"""An account of a cluster comes back into it: streams of three replicas, a mirror, sources, and leaders that change
afterwards."""

from contextlib import suppress
from pathlib import Path

import pytest

from nats3_dagster.archive.account_restore.plan import plan
from nats3_dagster.archive.account_restore.run import run
from nats3_dagster.archive.account_restore.spec import AccountRestoreSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.accounts import capture_all, fields, make_rule
from nats3_dagster_tests.support.servers.cluster import three_servers
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def test_three_replicas(workspace: Workspace, bucket: str, tmp_path: Path) -> None:
    with three_servers(tmp_path) as servers:
        eventually(lambda: _answers(servers[0].url), "the cluster has a leader")
        url = ",".join(server.url for server in servers)
        with Workspace(workspace.settings.model_copy(update={"nats_url": url})) as there, Wire(servers[0].url) as wire:
            for name in ("EV", "OTHER"):
                wire.create_stream(name, f"{name.lower()}.>", num_replicas=3)
                wire.await_stream(f"{name.lower()}.1")
            wire.api("STREAM.CREATE.MIRROR", name="MIRROR", mirror={"name": "EV"}, num_replicas=3)
            sources = [{"name": "EV"}, {"name": "OTHER"}]
            wire.api("STREAM.CREATE.SUM", name="SUM", sources=sources, num_replicas=3)
            wire.publish([("ev.1", b"", b"%d" % n) for n in range(500)] + [("other.1", b"", b"x")] * 100)
            eventually(lambda: wire.state("SUM")["messages"] == 600, "the sources arrived")
            eventually(lambda: wire.state("MIRROR")["messages"] == 500, "the mirror arrived")
            make_rule(there, bucket, take_mirrors=True)
            capture_all(there, wire)
            before = {name: fields(wire, name) for name in ("EV", "OTHER", "MIRROR", "SUM")}
            for name in before:
                wire.api(f"STREAM.DELETE.{name}")
            done = run(there, plan(there, AccountRestoreSpec("all")))
            assert [one.error for one in done] == [None] * 4
            assert {name: fields(wire, name) for name in before} == before
            assert wire.api("STREAM.INFO.SUM")["config"]["num_replicas"] == 3
            # Another leader looks for the place of the sources again.
            wire.api("STREAM.LEADER.STEPDOWN.SUM")
            eventually(lambda: wire.api("STREAM.INFO.SUM")["cluster"].get("leader"), "it has a leader")
            wire.await_stream("ev.1")
            wire.publish([("ev.2", b"", b"next"), ("other.2", b"", b"next")])
            eventually(lambda: wire.state("SUM")["messages"] == 602, "the sources go on")
            eventually(lambda: wire.state("MIRROR")["last_seq"] == 501, "the mirror goes on")
            assert wire.quiet("SUM", 2.0) == 602
            wire.api("STREAM.LEADER.STEPDOWN.SUM")
            eventually(lambda: wire.api("STREAM.INFO.SUM")["cluster"].get("leader"), "it has a leader")
            assert wire.quiet("SUM", 4.0) == 602


def _answers(url: str) -> bool:
    with suppress(OSError), Wire(url) as wire:
        return "error" not in wire.try_api("INFO")
    return False
