"""Streams that are not of the connection's own JetStream: a leaf node's domain, and an API that another account
exports. Captured and replayed through the hub, or through the account that imports.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from nats3_dagster.archive.health import nats_health
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.take.driver import run_rounds
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import free_port
from nats3_dagster.errors import OperatorError, SourceError
from nats3_dagster.hours import hour_of
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.jetstream.streams import stream_names
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.replays import archived, driven, replayed
from nats3_dagster_tests.support.taking import perform
from nats3_dagster_tests.support.wire import Wire

MESSAGES = [(f"ev.{n % 7}", b"NATS/1.0\r\nn: %d\r\n\r\n" % n if n % 2 else b"", b"%d" % n) for n in range(2000)]
API = "JS.acme.API"
TO_BACK = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)))


@pytest.fixture
def leaf(nats_factory: NatsFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NatsServer:
    """A leaf node with the domain `leaf`. Our settings name its hub, which has the domain `hub`."""
    return leaf_of(nats_factory, tmp_path, monkeypatch)


def leaf_of(
    nats_factory: NatsFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, remote: str = "", hub: str = ""
) -> NatsServer:
    """`remote`: more settings of the leaf node's connection; `hub`: JetStream of the hub."""
    port = free_port()
    stores = [f'jetstream: {{store_dir: "{tmp_path / name}", domain: {name}}}' for name in ("hub", "leaf")]
    nodes = f'leafnodes {{host: "127.0.0.1", port: {port}}}'
    first = nats_factory(f"{hub or stores[0]}\n{nodes}", name="hub", monitor=True)
    remotes = f'leafnodes {{remotes: [{{url: "nats://127.0.0.1:{port}", {remote}}}]}}'
    leaf = nats_factory(f"{stores[1]}\n{remotes}", name="leaf", monitor=True)
    monkeypatch.setenv("NATS3_NATS_URL", first.url)
    monkeypatch.setenv("NATS3_NATS_DOMAIN", "leaf")
    return leaf


@pytest.fixture
def hub_url(leaf: NatsServer) -> str:
    return Settings.load().nats.servers[0]


@pytest.fixture
def there(settings: Settings, leaf: NatsServer) -> Iterator[Wire]:
    """A client of the leaf node, whose stream EV has the messages."""
    with Wire(leaf.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES)
        yield wire


def opened() -> Workspace:
    return Workspace(Settings.load())


def returned(wire: Wire, stream: str = "BACK") -> list[bytes]:
    return [message.data for message in wire.messages(stream)]


@pytest.mark.parametrize("created", [True, False])
def test_a_leafs_stream_is_archived_and_replayed_through_the_hub(there: Wire, bucket: str, created: bool) -> None:
    if not created:
        there.create_stream("BACK", "back.>")
    with opened() as workspace:
        archived(workspace, there, "EV", bucket)
        replay = replayed(workspace, replace(TO_BACK, create_stream="BACK" if created else None))
        assert replay.state == "succeeded"
        assert returned(there) == [data for _, _, data in MESSAGES]
        # And once more, which asks the target what it has.
        again, _ = begin(workspace, TO_BACK)
        attempt.start(workspace, again.id)  # and no more: as if killed
        assert driven(workspace, again.id).state == "succeeded"
    assert returned(there) == [data for _, _, data in MESSAGES] * 2


@pytest.mark.parametrize("created", [True, False])
@pytest.mark.parametrize(
    ("subject", "refusal"),
    [
        ("back.>", r"back\.> is captured by OTHER of the connection's own JetStream too"),
        ("back.x.>", r"back\.> is captured by OTHER of the connection's own JetStream too"),
    ],
)
def test_a_target_that_the_hub_has_too_is_refused(
    there: Wire, hub_url: str, bucket: str, subject: str, refusal: str, created: bool
) -> None:
    with Wire(hub_url) as wire, opened() as workspace:
        wire.create_stream("OTHER", subject)
        if not created:
            there.create_stream("BACK", "back.>")
        archived(workspace, there, "EV", bucket)
        with pytest.raises(OperatorError, match=refusal):
            begin(workspace, replace(TO_BACK, create_stream="BACK" if created else None))
        assert list(workspace.catalog.replays.select()) == []
        assert wire.state("OTHER")["messages"] == 0


def test_a_target_that_two_domains_have_is_refused(
    there: Wire, hub_url: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a third domain, whose JetStream the connection cannot ask."""
    monkeypatch.setattr("nats3_dagster.replay.planning.reach.own_listening_streams", lambda link, pattern: [])
    with Wire(hub_url) as wire, opened() as workspace:
        wire.create_stream("BACK", "back.>")
        archived(workspace, there, "EV", bucket)
        with pytest.raises(OperatorError, match=r"reaches BACK before the replay has created its stream"):
            begin(workspace, replace(TO_BACK, create_stream="BACK"))
        there.create_stream("BACK", "back.>")
        with pytest.raises(OperatorError, match=r"back\._ reaches BACK, BACK, and not only stream BACK"):
            begin(workspace, TO_BACK)
        assert (wire.state("BACK")["messages"], there.state("BACK")["messages"]) == (0, 0)


def test_a_target_that_the_leaf_node_keeps_from_us_is_refused(
    settings: Settings, nats_factory: NatsFactory, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nats3_dagster.replay.planning.reach.SPREAD_S", 0.5)
    leaf = leaf_of(nats_factory, tmp_path, monkeypatch, remote='deny_imports: ["back.>"]')
    with Wire(leaf.url) as wire, opened() as workspace:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES[:10])
        wire.create_stream("BACK", "back.>")
        archived(workspace, wire, "EV", bucket)
        with pytest.raises(OperatorError, match=r"on back\._ does not reach stream BACK from NATS"):
            begin(workspace, TO_BACK)


def test_several_filters_in_a_domain(there: Wire, bucket: str) -> None:
    with opened() as workspace:
        archived(workspace, there, "EV", bucket, subjects=("ev.1", "ev.2"))
        there.create_stream("BACK", "back.>")
        replayed(workspace, TO_BACK)
    assert returned(there) == [data for subject, _, data in MESSAGES if subject in ("ev.1", "ev.2")]


def test_a_work_queue_of_a_domain_is_taken(settings: Settings, leaf: NatsServer, bucket: str) -> None:
    with Wire(leaf.url) as wire, opened() as workspace:
        wire.create_stream("EV", "ev.>", retention="workqueue")
        archive = create(workspace, ArchiveSpec("a", "EV", bucket, mode="consumer"))
        wire.publish(MESSAGES)
        while wire.api("CONSUMER.INFO.EV.nats3-a")["num_pending"] != len(MESSAGES):
            pass
        assert run_rounds(workspace, archive, hour_of(1), perform).messages == len(MESSAGES)
        assert wire.state("EV")["messages"] == 0


def test_a_consumer_that_the_hub_has_too_is_refused(
    settings: Settings, leaf: NatsServer, hub_url: str, bucket: str
) -> None:
    """The subject of an acknowledgement names stream and consumer, and no domain: it counts for both."""
    spec = ArchiveSpec("a", "EV", bucket, mode="consumer")
    with Wire(leaf.url) as wire, Wire(hub_url) as other, opened() as workspace:
        for one, subject in ((wire, "ev.>"), (other, "hub.>")):
            one.create_stream("EV", subject, retention="workqueue")
        other.api(
            "CONSUMER.CREATE.EV.nats3-a",
            stream_name="EV",
            config={
                "durable_name": "nats3-a",
                "ack_policy": "explicit",
            },
        )
        refusal = r"own JetStream has a consumer nats3-a of a stream EV too, beside the one at \$JS\.leaf\.API"
        with pytest.raises(OperatorError, match=refusal):
            create(workspace, spec)
        other.api("CONSUMER.DELETE.EV.nats3-a")
        archive = create(workspace, spec)
        other.api(
            "CONSUMER.CREATE.EV.nats3-a",
            stream_name="EV",
            config={
                "durable_name": "nats3-a",
                "ack_policy": "explicit",
            },
        )
        with pytest.raises(OperatorError, match=refusal):
            run_rounds(workspace, archive, hour_of(1), perform)


@pytest.mark.parametrize("hub", ["", "jetstream: disabled"], ids=["also in the hub", "only in the leaf"])
def test_doctor_looks_at_the_domain(
    settings: Settings,
    nats_factory: NatsFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bucket: str,
    hub: str,
) -> None:
    leaf = leaf_of(nats_factory, tmp_path, monkeypatch, hub=hub)
    assert leaf.monitor_url
    with Wire(leaf.url) as wire, opened() as workspace:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES[:10])
        archived(workspace, wire, "EV", bucket)

    def synced() -> str:
        with opened() as workspace:
            whats = [finding.what for finding in nats_health.check(workspace)]
        assert "JetStream answers at $JS.leaf.API" in whats
        assert "Archive a, stream EV: everything is captured" in whats
        return next(what for what in whats if "sync_interval" in what)

    assert "sync_interval is unknown" in synced()  # the hub's would be no answer
    monkeypatch.setenv("NATS3_NATS_MONITOR_URL", leaf.monitor_url)
    assert "sync_interval is 120 s" in synced()
    monkeypatch.setenv("NATS3_NATS_DOMAIN", "nowhere")
    with opened() as workspace, pytest.raises(SourceError, match="No JetStream answers"):
        list(nats_health.check(workspace))


def test_a_domain_that_is_not_there(settings: Settings, leaf: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_NATS_DOMAIN", "nowhere")
    with Link(Settings.load().nats) as link, pytest.raises(SourceError) as caught:
        link.call(request, "STREAM.NAMES", None, 0.0)
    assert "No JetStream answers $JS.nowhere.API.STREAM.NAMES" in str(caught.value)
    assert "Check NATS3_NATS_DOMAIN" in str(caught.value.hint)


@pytest.fixture
def importing(
    settings: Settings, nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[NatsServer, Wire]]:
    """A server whose account B imports from the account A its JetStream API, the acknowledgements and `back.>`. Our
    settings are those of B's user; the client is one of A, whose stream EV has the messages."""
    services = [
        ('"$JS.API.>", response_type: stream', f', to: "{API}.>"'),
        ('"$JS.ACK.>"', ""),
        ('"back.>"', ""),
        ('"other.>"', ', to: "moved.>"'),
    ]
    exports = ", ".join(f"{{service: {subject}}}" for subject, _ in services)
    imports = ", ".join(f"{{service: {{account: A, subject: {s.split(',')[0]}}}{to}}}" for s, to in services)
    denied = f'{{user: c, password: p, permissions: {{publish: {{deny: "{API}.STREAM.NAMES"}}}}}}'
    server = nats_factory(
        f"accounts {{ A: {{ jetstream: enabled, users: [{{user: a, password: p}}], exports: [{exports}] }}\n"
        f"B: {{ users: [{{user: b, password: p}}, {denied}], imports: [{imports}] }} }}"
    )
    for name, value in (("URL", server.url), ("USER", "b"), ("PASSWORD", "p"), ("API_PREFIX", API)):
        monkeypatch.setenv(f"NATS3_NATS_{name}", value)
    with Wire(server.url, user="a", **{"pass": "p"}) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES)
        yield server, wire


@pytest.mark.needs_nats("2.14")
def test_atomic_batches_go_through_an_import(importing: tuple[NatsServer, Wire]) -> None:
    """Two answers to each, and the server keeps nothing for a message that asks for none."""
    _, wire = importing
    wire.create_stream("BACK", "back.>", allow_atomic=True)
    rows = [b"%d" % n for n in range(2500)]
    with Publisher(Settings.load().nats, mode="atomic", streams=["BACK"]) as publisher:
        publisher.publish(pa.array(["back.a"] * len(rows)), None, pa.array(rows))
        publisher.flush()
        assert publisher.published == len(rows)
    assert [message.data for message in wire.messages("BACK")] == rows


@pytest.mark.parametrize("created", [True, False])
def test_another_accounts_stream_is_archived_and_replayed(
    importing: tuple[NatsServer, Wire], bucket: str, created: bool
) -> None:
    _, wire = importing
    if not created:
        wire.create_stream("BACK", "back.>")
    with opened() as workspace:
        archived(workspace, wire, "EV", bucket)
        replay = replayed(workspace, replace(TO_BACK, create_stream="BACK" if created else None))
        assert replay.state == "succeeded"
        assert returned(wire) == [data for _, _, data in MESSAGES]
        again, _ = begin(workspace, TO_BACK)
        attempt.start(workspace, again.id)
        assert driven(workspace, again.id).state == "succeeded"
    assert returned(wire) == [data for _, _, data in MESSAGES] * 2


def test_another_accounts_stream_is_taken(importing: tuple[NatsServer, Wire], bucket: str) -> None:
    _, wire = importing
    wire.create_stream("Q", "q.>", retention="workqueue")
    with opened() as workspace:
        archive = create(workspace, ArchiveSpec("a", "Q", bucket, mode="consumer"))
        wire.publish([("q.1", b"", b"%d" % n) for n in range(500)])
        while wire.api("CONSUMER.INFO.Q.nats3-a")["num_pending"] != 500:
            pass
        assert run_rounds(workspace, archive, hour_of(1), perform).messages == 500
    assert wire.state("Q")["messages"] == 0


@pytest.mark.parametrize(("subject", "pattern"), [("far.>", "far.>"), ("other.>", "other.>")])
def test_a_target_that_is_not_imported_as_it_is_is_refused(
    importing: tuple[NatsServer, Wire], bucket: str, subject: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nats3_dagster.replay.planning.reach.SPREAD_S", 0.5)
    _, wire = importing
    with opened() as workspace:
        wire.create_stream("FAR", subject)
        archived(workspace, wire, "EV", bucket)
        with pytest.raises(OperatorError, match="does not reach stream FAR"):
            begin(workspace, replace(TO_BACK, write_subject=pattern))


def test_a_refusal_names_the_real_subject(importing: tuple[NatsServer, Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_NATS_USER", "c")
    with Link(Settings.load().nats) as link, pytest.raises(Refused, match=r'"js\.acme\.api\.stream\.names"'):
        stream_names(link)
