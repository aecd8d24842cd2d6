"""Runs on a server of Spark Connect: the same captures and replays, no JVM in the run, nothing left behind."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from nats3_dagster.dev.connect_server import ConnectServer
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import free_port
from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.hours import hour_of, parse_time
from nats3_dagster.pipeline.connect import address, connect
from nats3_dagster.settings import Settings
from nats3_dagster.version import __version__
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.planting import forms
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECRET = "planted-7Zq"


@dataclass(frozen=True, slots=True)
class Server:
    """`remote`: its address with its token. `ui`: that of its pages. `config`: its own settings, empty unless a test
    fills them."""

    remote: str
    ui: str
    own: ConnectServer
    config: Path

    @property
    def log(self) -> Path:
        return self.own.log

    @property
    def token(self) -> str:
        return self.remote.partition("token=")[2]

    def daemons(self) -> set[int]:
        """The Python processes that fork workers."""
        assert self.own.process
        found: dict[int, int] = {}
        for process in psutil.Process(self.own.process.pid).children(recursive=True):
            with suppress(psutil.Error):  # a worker that ends
                if "nats3_dagster.pipeline.worker_daemon" in process.cmdline():
                    found[process.pid] = process.ppid()
        return {pid for pid, parent in found.items() if parent not in found}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As `nats3 dev` starts it, but on free ports and with its pages, where a secret could show."""
    folder = tmp_path_factory.mktemp("connect")
    ui = free_port()
    config = folder / "nats3.toml"
    config.touch()
    own = ConnectServer(folder, port=free_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("NATS3_CONFIG", str(config))
        own.launch("spark.ui.enabled=true", f"spark.ui.port={ui}")
    try:
        own.start()
        assert own.remote
        yield Server(own.remote, f"http://127.0.0.1:{ui}", own, config)
    finally:
        own.stop()


@pytest.fixture(autouse=True)
def _classic_again() -> Iterator[None]:
    """PySpark takes a process that has had a session of Connect to want no other, and nothing takes that back."""
    yield
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def execute(job: str, remote: str, *more: str) -> subprocess.CompletedProcess[str]:
    """The job in a process that could not start a JVM."""
    dagster = str(Path(sys.executable).with_name("dagster"))
    command = [dagster, "job", "execute", "-m", "nats3_dagster.definitions", "-j", job, *more]
    environment = os.environ | {
        "NATS3_SPARK_REMOTE": remote,
        "JAVA_HOME": "/nowhere",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120)


@pytest.mark.s3
def test_a_capture_and_a_replay_share_the_servers_workers_and_show_no_secret(
    server: Server, settings: Settings, wire: Wire, bucket: str, tmp_path: Path
) -> None:
    wire.create_stream("EV", "ev.>")
    sent = [(f"ev.{n % 3}", b"", b"%d" % n) for n in range(500)]
    wire.publish(sent)
    archive(settings, bucket)
    for end in ("first_ts", "last_ts"):
        tags = json.dumps({"dagster/partition": hour_of(parse_time(wire.state("EV")[end]))})
        captured = execute("events_capture", server.remote, "--tags", tags)
        assert captured.returncode == 0, captured.stderr
    with psycopg.connect(settings.postgres) as connection:
        assert connection.execute("select sum(messages) from nats3.chunk").fetchone() == (500,)
    daemons = server.daemons()

    wire.create_stream("BACK", "back.>")
    chosen = {"archive": "events", "read_subject": "ev.>", "write_subject": "back.>"}
    config = tmp_path / "replay.json"
    config.write_text(json.dumps({"ops": {"replay_window": {"config": chosen}}}))
    replayed = execute("replay", server.remote, "-c", str(config))
    assert replayed.returncode == 0, replayed.stderr
    assert [(m.subject.replace("back.", "ev."), b"", m.data) for m in wire.messages("BACK")] == sent
    # A session of each run would leave one more with every run.
    assert server.daemons() == daemons
    assert len(daemons) == 1

    shown = "".join(pages(server.ui))
    assert "mapInArrow" in shown or "MapInArrow" in shown
    for secret in (settings.store.secret_access_key, settings.store.access_key_id, settings.postgres, server.token):
        assert secret
        assert str(secret) not in shown


def pages(ui: str) -> Iterator[str]:
    """What the server shows of itself: its configuration, what was asked of it, and what it ran."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def text(path: str) -> str:
        with opener.open(ui + path, timeout=10) as answer:
            return answer.read().decode()

    (application,) = json.loads(text("/api/v1/applications"))
    api = f"/api/v1/applications/{application['id']}"
    yield from (text(path) for path in ("/connect/", "/environment/", "/SQL/", "/jobs/", f"{api}/environment"))
    executions = json.loads(text(f"{api}/sql?details=true&length=1000"))
    assert len(executions) >= 2
    yield json.dumps(executions)
    yield from (text(f"/SQL/execution/?id={one['id']}") for one in executions)


def by_name(remote: str) -> str:
    """The address for PySpark itself, which sends a token without TLS only to this name."""
    return remote.replace("127.0.0.1", "localhost")


# A client that has no Java, and no settings but those that it gives as options.
SOURCES = f"""
import sys
from pyspark.sql import SparkSession
remote, url, folder = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
login = {{"url": url, "user": "planted", "password": 'a"{SECRET}'}}
stream = {{"stream": "EV", "numPartitions": "2", **login}}

def finished(frame, format, **options):
    query = frame.writeStream.format(format).options(**options).trigger(availableNow=True).start()
    assert query.awaitTermination(60)

events = spark.read.format("jetstream").options(**stream).load()
print("read", events.count(), [row.seq for row in events.where("subject = 'ev.1'").limit(2).collect()])
copies = events.selectExpr("concat('to.', subject) AS subject", "data")
copies.write.format("jetstream").mode("append").options(stream="TO", **login).save()
streamed = spark.readStream.format("jetstream").options(**stream).load()
finished(streamed.select("seq"), "parquet", path=f"{{folder}}/out", checkpointLocation=f"{{folder}}/c1")
print("streamed", spark.read.parquet(f"{{folder}}/out").count())
again = streamed.selectExpr("concat('to.', subject) AS subject", "data")
finished(again, "jetstream", stream="TO", checkpointLocation=f"{{folder}}/c2", **login)
print("archive", spark.read.format("nats3").option("archive", "events").load().count())
try:
    spark.read.format("jetstream").options(startSeqq="1", **stream).load().count()
except Exception as error:
    print("refused", "Did you mean startSeq?" in str(error))
from nats3_dagster.pipeline.sources import register
register(spark)
print("by name", spark.read.format("jetstream").options(startSeq="91", **stream).load().count())
"""


@pytest.mark.timeout(300)
@pytest.mark.s3
def test_a_client_reads_and_writes_by_the_names_of_the_sources(
    server: Server, settings: Settings, wire: Wire, workspace: Workspace, bucket: str, tmp_path: Path
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("TO", "to.>")
    wire.publish([(f"ev.{n % 3}", b"", b"%d" % n) for n in range(100)])
    archived(workspace, wire, "EV", bucket, "events")
    store = settings.store
    given = {
        "nats_url": settings.nats_url,
        "postgres_url": settings.postgres,
        "s3_endpoint": store.endpoint,
        "s3_region": store.region,
        "s3_access_key_id": store.access_key_id,
        "s3_secret_access_key": store.secret_access_key,
    }
    server.config.write_text("".join(f'{key} = "{value}"\n' for key, value in given.items()))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NATS3_", "AWS_"))}
    try:
        ran = subprocess.run(
            [sys.executable, "-c", SOURCES, by_name(server.remote), settings.nats.servers[0], str(tmp_path)],
            cwd=ROOT,
            env=environment | {"JAVA_HOME": "/nowhere", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
    finally:
        server.config.write_text("")
    assert ran.stdout.splitlines() == [
        "read 100 [2, 5]",
        "streamed 100",
        "archive 100",
        "refused True",
        "by name 10",
    ], ran.stderr[-3000:]
    assert sorted(int(m.data) for m in wire.messages("TO")) == sorted([*range(100)] * 2)
    shown = "".join(pages(server.ui)) + ran.stdout + ran.stderr + server.log.read_text()
    assert "numPartitions" in shown  # options are among it
    for form in forms(SECRET):
        assert form not in shown


def test_an_interrupt_cancels_what_is_ours_and_not_what_others_run_in_the_session(
    server: Server, tmp_path: Path
) -> None:
    code = f"""
import os, signal, sys, threading, time
from pathlib import Path
from nats3_dagster.pipeline.session import start
from nats3_dagster.pipeline.tasks import run_tasks
spark = start(remote={server.remote!r})
folder = Path(sys.argv[1])
def slow(name):
    (folder / f"{{name}}.runs").touch()
    while not (folder / f"{{name}}.ends").exists():
        time.sleep(0.05)
    yield name
def runs(name):
    while not (folder / f"{{name}}.runs").exists():
        time.sleep(0.05)
def interrupt():
    runs("ours")
    os.kill(os.getpid(), signal.SIGINT)
other = []
thread = threading.Thread(target=lambda: other.append(run_tasks(spark, "other", slow, ["other"]).results))
thread.start()
runs("other")
threading.Thread(target=interrupt).start()
began = time.monotonic()
try:
    run_tasks(spark, "ours", slow, ["ours"])
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 60, flush=True)
(folder / "other.ends").touch()
thread.join()
print(other)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert ran.stdout.splitlines() == ["interrupted True", "[('other',)]"], ran.stderr


def test_without_the_server_a_run_fails_with_one_line(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")])
    archive(settings, bucket)
    tags = json.dumps({"dagster/partition": hour_of(parse_time(wire.state("EV")["last_ts"]))})
    ran = execute("events_capture", "sc://127.0.0.1:1/;token=sesame", "--tags", tags)
    assert ran.returncode == 1
    assert "Nothing listens for Spark Connect at 127.0.0.1:1: it is waited for, up to 30 s" in ran.stderr
    assert "Nothing listens for Spark Connect at 127.0.0.1:1 (Connection refused). Start it" in ran.stderr
    assert "sesame" not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_doctor_asks_the_server_and_for_no_java(server: Server, settings: Settings) -> None:
    def doctor(remote: str) -> list[tuple[str, str]]:
        environment = os.environ | {"NATS3_SPARK_REMOTE": remote, "JAVA_HOME": "/nowhere", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "nats3_dagster.cli", "doctor", "--spark", "-o", "json"]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=90)
        return [(f["status"], f["what"]) for f in json.loads(ran.stdout) if f["area"] in ("java", "spark")]

    (_, _), (connect_ok, answers_), (worker_ok, worker) = doctor(server.remote)
    assert (connect_ok, worker_ok) == ("ok", "ok")
    assert answers_.startswith("Spark Connect 4.")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}." in worker
    assert doctor("sc://127.0.0.1:1")[1][0] == "fail"


@pytest.mark.parametrize("remote", ["spark://127.0.0.1:7077", "127.0.0.1:15002", "sc://", "sc://host:port/;token=x"])
def test_an_address_that_is_none_is_refused_and_not_repeated(remote: str) -> None:
    with pytest.raises(OperatorError, match="is no address of Spark Connect") as error:
        address(remote)
    assert remote not in str(error.value).replace("sc://host:15002", "")


def test_a_server_that_speaks_something_else_is_no_server_of_spark_connect(nats: NatsServer) -> None:
    with pytest.raises(EngineError, match="does not answer"):
        connect(f"sc://127.0.0.1:{nats.port}")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", r"asks for a token, and none is set here\. Set NATS3_SPARK_TOKEN"),
        ("/;token=sesame", r"does not take the token that is set here\. Set NATS3_SPARK_TOKEN, or the token in"),
    ],
)
def test_a_client_without_the_servers_token_is_told_whose_fault_it_is(server: Server, token: str, message: str) -> None:
    with pytest.raises(OperatorError, match=message) as error:
        connect(server.own.address + token)
    assert "sesame" not in str(error.value)
    assert server.token not in str(error.value)


def test_the_token_is_a_setting_and_goes_to_any_name_of_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(server.token + "\n")
    monkeypatch.setenv("NATS3_SPARK_REMOTE", server.own.address)
    monkeypatch.setenv("NATS3_SPARK_TOKEN_FILE", str(file))
    settings = Settings.load()
    assert server.token not in str(settings)
    remote = settings.connect
    assert remote
    for name in ("127.0.0.1", "localhost"):
        session = connect(remote.replace("127.0.0.1", name), 0)
        assert session.range(3).count() == 3
        session.stop()


def test_no_command_line_shows_the_token(server: Server) -> None:
    assert server.own.process
    family = [psutil.Process(server.own.process.pid), *server.own.process.children]
    assert not any(server.token in word for process in family for word in process.cmdline())


def test_a_server_that_is_being_started_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    own = ConnectServer(tmp_path, port=free_port())
    try:
        # It says another release: the cheapest proof that the client has spoken to it.
        own.launch("spark.nats3.release=0.0.1")
        assert own.remote
        with pytest.raises(
            EngineError, match=rf"has workers of nats3-dagster 0\.0\.1, and this is {__version__}\. Start"
        ):
            connect(own.remote, 90)
        # The same port and the same token, and no release.
        port, remote = own.port, own.remote
        own.stop()
        own.start("spark.nats3.release=")
        assert (own.port, own.remote) == (port, remote)
        with pytest.raises(EngineError, match=r"does not say the release of its workers"):
            connect(own.remote)
    finally:
        own.stop()
