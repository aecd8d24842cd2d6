"""Logins that end after seconds, with a creds file that is written again: everything goes on."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import SourceError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_names, stream_state
from nats3_dagster.jetstream.take import acknowledge as acknowledging
from nats3_dagster.jetstream.take import turns
from nats3_dagster.model import Pace, ReplaySpec, Selection, SeqRange
from nats3_dagster.replay.messages import republish
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support import taking
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.servers.logins import Operator
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.nats
# A server ends a connection at the full second that its JWT names.
LIVES_S = 2.2


class Renewed:
    """A creds file whose user is replaced by another one long before its JWT ends, until `end`."""

    def __init__(self, operator: Operator, file: Path) -> None:
        self._operator, self.file = operator, file
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._write()

    def _write(self) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(self._operator.creds(LIVES_S))
        fresh.chmod(0o600)
        fresh.replace(self.file)

    def _run(self) -> None:
        while not self._over.wait(0.5):
            self._write()

    def __enter__(self) -> "Renewed":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def operator() -> Operator:
    return Operator()


@pytest.fixture
def server(nats_factory: NatsFactory, operator: Operator) -> NatsServer:
    return nats_factory(config=operator.config)


@pytest.fixture
def renewed(operator: Operator, tmp_path: Path) -> Iterator[Renewed]:
    with Renewed(operator, tmp_path / "user.creds") as file:
        yield file


@pytest.fixture
def options(server: NatsServer, renewed: Renewed) -> NatsOptions:
    return NatsOptions(servers=(server.url,), creds=str(renewed.file))


@pytest.fixture
def work(
    settings: Settings, server: NatsServer, renewed: Renewed, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    monkeypatch.setenv("NATS3_NATS_URL", server.url)
    monkeypatch.setenv("NATS3_NATS_CREDS", str(renewed.file))
    with Workspace(Settings.load()) as opened:
        yield opened


@pytest.fixture
def lasting(server: NatsServer, operator: Operator) -> Iterator[Wire]:
    """A client whose login does not end."""
    with Wire(server.url, jwt=operator.bearer()) as client:
        yield client


def test_a_link_goes_on(options: NatsOptions) -> None:
    with Link(options) as link:
        until = time.monotonic() + 2 * LIVES_S
        while time.monotonic() < until:
            assert stream_names(link) == []
            time.sleep(0.02)


def test_a_login_that_is_not_renewed_says_so(server: NatsServer, operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(operator.creds(-3600))
    file.chmod(0o600)
    began = time.monotonic()
    with pytest.raises(SourceError, match="refused the login: it has expired") as error:
        Link(NatsOptions(servers=(server.url,), creds=str(file))).__enter__()
    assert "renew" in str(error.value.hint)
    assert time.monotonic() - began < 5


def test_a_caller_who_waits_for_less_than_the_renewal_is_told_of_the_login(
    server: NatsServer, operator: Operator, tmp_path: Path
) -> None:
    file = tmp_path / "user.creds"
    file.write_text(operator.creds(-1))
    file.chmod(0o600)
    with pytest.raises(SourceError, match="refused the login: it has expired"):
        Link(NatsOptions(servers=(server.url,), creds=str(file)), patience_s=1.5).__enter__()


def test_one_that_is_renewed_too_late_is_waited_for(server: NatsServer, operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(operator.creds(-1))
    file.chmod(0o600)
    threading.Timer(1.0, file.write_text, [operator.creds()]).start()
    with Link(NatsOptions(servers=(server.url,), creds=str(file))) as link:
        assert stream_names(link) == []


@pytest.mark.parametrize("is_server_up", [True, False])
def test_a_link_that_is_not_made_again_tells_what_ended_it(
    server: NatsServer, operator: Operator, tmp_path: Path, is_server_up: bool
) -> None:
    """The login, or the server, also where the login has expired since."""
    file = tmp_path / "user.creds"
    file.write_text(operator.creds(LIVES_S))
    file.chmod(0o600)
    expired = time.time() + LIVES_S
    with Link(NatsOptions(servers=(server.url,), creds=str(file)), reconnect=False) as link:
        if not is_server_up:
            server.kill()
        while not link.is_closed or time.time() < expired:
            time.sleep(0.02)
        for ask in (stream_names, lambda link: link.call(Connection.flush)):
            with pytest.raises(SourceError) as error:
                ask(link)
            assert ("refused the login: it has expired" in error.value.what) == is_server_up
            assert ("renew" in str(error.value.hint)) == is_server_up


def test_a_replay_goes_on(work: Workspace, lasting: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slowly: each login lives for few messages, and no chunk is done in the time of one."""
    lasting.create_stream("EV", "ev.>")
    lasting.create_stream("BACK", "back.>")
    lasting.publish([("ev.a", b"", b"%d" % n) for n in range(24)])
    monkeypatch.setattr(republish, "RECONNECTS", 2)
    archived(work, lasting, "EV", bucket)
    spec = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)), pace=Pace(rate=4))
    done = replayed(work, spec)
    assert (done.state, done.published + done.found) == ("succeeded", 24)
    assert [int(m.data) for m in lasting.messages("BACK")] == list(range(24))


def test_a_read_goes_on(options: NatsOptions, lasting: Wire) -> None:
    lasting.create_stream("EV", "ev.>")
    lasting.publish([("ev.a", b"", b"x" * 4000)] * 8_000)
    with Link(options) as link:
        incarnation = stream_state(link, "EV").incarnation
    seqs: list[int] = []
    for batch in read_batches(options, ReadSpec(incarnation, SeqRange(1, 8_000)), batch_bytes=2 << 20):
        seqs += batch.column("seq").to_pylist()
        time.sleep(0.15)
    assert seqs == list(range(1, 8_001))


def test_a_claim_goes_on(work: Workspace, lasting: Wire, bucket: str) -> None:
    """It waits for messages that another client holds, for longer than its login lives."""
    lasting.create_stream("JOBS", "jobs.>", retention="workqueue")
    lasting.publish([("jobs.0", b"", b"%d" % n) for n in range(400)])
    taking.durable(lasting, "d", ack_wait=5 * SECOND_NS)
    archive = taking.make(work, bucket, durable="d")
    lasting.try_api("CONSUMER.MSG.NEXT.JOBS.d", batch=1)
    result = taking.run(work, archive)
    assert sum(chunk.messages for chunk in result.chunks) == 400
    assert sorted(int(data) for _, data in taking.content(work, archive)) == list(range(400))
    assert lasting.state("JOBS")["messages"] == 0


def test_a_task_without_a_turn_says_that_its_login_ended(
    server: NatsServer, operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "user.creds"
    file.write_text(operator.creds(LIVES_S))
    file.chmod(0o600)
    monkeypatch.setattr(turns, "SILENCE_S", LIVES_S + 3)
    turn = turns.Turn(NatsOptions(servers=(server.url,), creds=str(file)), turns.new_subject(), 0)
    with pytest.raises(SourceError, match="refused the login: it has expired"):
        turn.__enter__()


def test_acknowledgements_go_on(options: NatsOptions, lasting: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection's login ends before it has sent any."""

    class Slow(Link):
        def __enter__(self) -> "Slow":
            super().__enter__()
            while not entered and not self.client.is_closed:
                time.sleep(0.02)
            entered.append(self)
            return self

    entered: list[Link] = []
    monkeypatch.setattr(acknowledging, "Link", Slow)
    lasting.create_stream("JOBS", "jobs.>", retention="workqueue")
    lasting.publish([("jobs.0", b"", b"")])
    taking.durable(lasting, "d")
    acknowledging.acknowledge(options, pa.array([lasting.next("JOBS", "d").encode()], pa.binary()))
    assert len(entered) == 2
    assert lasting.state("JOBS")["messages"] == 0
