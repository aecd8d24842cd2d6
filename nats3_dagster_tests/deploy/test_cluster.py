"""deploy/kubernetes on a real cluster: captures and replays as pods, with executors as pods, each killed in the middle.

`make kubernetes`; without a cluster for tests each test says what is missing.
"""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster_tests.deploy import chart
from nats3_dagster_tests.deploy.cluster import ENVIRONMENT, Cluster, context
from nats3_dagster_tests.support.servers.tcp_proxy import TcpProxy
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COUNT = 400_000


@pytest.fixture(scope="module")
def name() -> str:
    return context()


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def nats(folder: Path) -> Iterator[NatsServer]:
    with NatsServer(folder / "nats", monitor=True) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(name: str, folder: Path, nats: NatsServer) -> Iterator[Cluster]:
    """An installation whose pods reach servers of this host."""
    with ExitStack() as started:
        postgres = started.enter_context(Postgres(folder / "postgres", fast=True))
        s3 = started.enter_context(S3Server(folder / "s3"))

        def outside(url: str) -> str:
            parts = urlsplit(url)
            assert parts.port
            host = ENVIRONMENT["NATS3_TEST_HOST"]
            proxy = started.enter_context(TcpProxy(parts.port, host))
            return url.replace(f"{parts.hostname}:{parts.port}", f"{host}:{proxy.port}")

        url = outside(postgres.url())
        settings = {
            "NATS3_NATS_URL": outside(nats.url),
            "AWS_ENDPOINT_URL_S3": outside(s3.endpoint),
            "AWS_REGION": "us-east-1",
            "NATS3_DAGSTER_URL": "http://dagster-dagster-webserver:3000",
        }
        keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
        cluster = Cluster(name, folder)
        started.callback(cluster.remove)
        cluster.install(settings, keys | {"NATS3_POSTGRES_URL": url}, url)
        yield cluster


def test_what_was_applied_is_what_the_chart_renders(cluster: Cluster) -> None:
    rendered, applied = json.loads(chart.FACTS.read_text()), cluster.facts()
    for pod, facts in rendered["pods"].items():
        found = applied["pods"][pod]
        assert {**found, "before": None} == {**facts, "before": None}, pod
    assert rendered["services"].items() <= applied["services"].items()
    assert rendered["instance"]["concurrency"] == applied["instance"]["concurrency"]


def test_doctor_says_what_is_true_of_the_daemon(cluster: Cluster) -> None:
    said = cluster.nats3("doctor")
    assert "Pool replay takes 1 at once" in said
    assert "has no limit" not in said


def test_a_capture_whose_executors_and_whose_pod_are_killed_archives_each_message_once(
    cluster: Cluster, nats: NatsServer, folder: Path
) -> None:
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish((f"ev.{n % 5}", b"", b"%d" % n) for n in range(COUNT))
        how = ("--bucket", "cluster", "--create-bucket", "--max-age", "5s")
        before = _delivered(nats)
        cluster.nats3("store", "create", "--name", "events", "--stream", "EV", *how)
        (pod,) = eventually(cluster.runs, "a run has a pod", 180)
        _as_asked(pod, folder)
        executors = eventually(cluster.executors, "it has executors", 120)
        for executor in executors:
            (owner,) = executor["metadata"]["ownerReferences"]
            assert owner["uid"] == pod["metadata"]["uid"]
            assert executor["spec"]["serviceAccountName"] == "nats3-executor"
        eventually(lambda: _delivered(nats) > before + COUNT // 10, "executors read the stream", 240)
        cluster.kill(*executors)
        assert _archived(cluster) < COUNT, "they were killed in the middle"
        cluster.kill(pod)
        eventually(lambda: _archived(cluster) == COUNT, "the run is retried, and all is archived", 600)
    assert "error" not in cluster.nats3("chunk", "verify", "events").lower()
    eventually(lambda: not cluster.runs(), "no run is left", 120)
    assert cluster.executors() == []


def _delivered(nats: NatsServer) -> int:
    """How many messages the server has sent to anybody."""
    with urllib.request.urlopen(f"{nats.monitor_url}/varz", timeout=10) as answer:
        return json.load(answer)["out_msgs"]


def _as_asked(pod: dict[str, Any], folder: Path) -> None:
    """A live run pod has what the Job of dagster-k8s by the chart's instance has."""
    asked = chart.pod_facts(chart.run_job(json.loads(chart.FACTS.read_text()), folder)["spec"]["template"]["spec"])
    found = chart.pod_facts(pod["spec"])
    for part in ("account", "links", "security"):
        assert found[part] == asked[part], part
    for part in ("pull", "resources", "security", "sources"):
        assert found["containers"][0][part] == asked["containers"][0][part], part


def _archived(cluster: Cluster) -> int:
    (job,) = json.loads(cluster.nats3("store", "list", "-o", "json"))
    return job["messages"]


def test_a_replay_whose_pod_is_killed_is_retried_and_doubles_nothing(cluster: Cluster, nats: NatsServer) -> None:
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>")
        config = {"archive": "events", "read_subject": "ev.>", "write_subject": "back.>", "rate": 20000.0}
        cluster.launch("replay", {"ops": {"replay_window": {"config": config}}})
        eventually(lambda: wire.state("BACK")["messages"] > COUNT // 10, "it publishes", 240)
        cluster.kill(*cluster.runs())
        assert wire.state("BACK")["messages"] < COUNT, "it was killed in its middle"
        eventually(lambda: wire.state("BACK")["messages"] == COUNT, "it is retried, and all is back", 600)
        assert sorted(int(m.data) for m in wire.messages("BACK")) == list(range(COUNT))


def test_executors_start_run_after_run(cluster: Cluster, nats: NatsServer) -> None:
    """The fourth run found the names of its executors taken."""
    for n in range(4):
        with Wire(nats.url) as wire:  # for as long as it takes: a server gives up whom it hears nothing of for minutes
            wire.publish([("ev.a", b"", b"%d" % n)])
        expected = COUNT + n + 1
        eventually(lambda expected=expected: _archived(cluster) == expected, "it is archived", 240)
        eventually(lambda: not cluster.executors("--field-selector", "status.phase=Running"), "they end", 60)
    assert cluster.executors() == []
