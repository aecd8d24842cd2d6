"""Secrets appear nowhere: not in a process list, a file, a log, an answer, Dagster's storage or Spark's event log."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import psycopg
import pytest
from psycopg import sql

from nats3_dagster.api.tokens import new_token
from nats3_dagster.defs.instance.instance import instance_file
from nats3_dagster.dev.process import wait_for
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.pipeline.java import conf_dir
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.planting import forms
from nats3_dagster_tests.support.servers.roles import PASSWORD, ROLE, role
from nats3_dagster_tests.support.servers.serving import serving
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

NATS = "planted-nats-password-7Zq"
TOKEN, HASH = new_token()
# A Dagster run that captures, a replay from the command line, seals and the doctor: all that uses Spark, in one JVM.
SCRIPT = """
import sys
from dagster import DagsterInstance
from nats3_dagster.cli.main import main
from nats3_dagster.defs.project.project import load
from nats3_dagster.pipeline import session, tasks
bucket, hour = sys.argv[1:]
with DagsterInstance.get() as instance:
    job = load().resolve_job_def("ev_capture")
    assert job.execute_in_process(instance=instance, tags={"dagster/partition": hour}).success
spark = session.start()
print("environment:", *spark.sparkContext.getConf().getAll(), spark.sparkContext.environment, sep="\\n")
statuses = [main(words.split()) for words in (
    f"load create --bucket {bucket} --read-stream EV --read-subject ev.> --write-subject back.> --debug",
    "store seal ev", "chunk verify ev --debug", "doctor", "config show", "store list -o json",
)]
print("statuses:", statuses)
"""


class Watch:
    """Looks again and again, while it runs, for secrets in command lines of the processes that were started with this
    folder in their environment, and in its files. Another test of the machine may have the same secret of the store."""

    def __init__(self, folder: Path, secrets: list[str]) -> None:
        self._folder, self._secrets = folder, [form.encode() for secret in secrets for form in forms(secret)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.places = set[str]()
        self.files = set[str]()

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self._look()

    def _look(self) -> None:
        # Spark removes folders meanwhile: os.walk goes on then.
        files = [Path(folder, name) for folder, _, names in os.walk(self._folder) for name in names]
        for path in [*Path("/proc").glob("[0-9]*/cmdline"), *files]:
            with suppress(OSError):
                if path.name == "cmdline" or path.is_file():
                    content = path.read_bytes()
                    self.files.add(path.name)
                    if any(secret in content for secret in self._secrets) and self._is_ours(path):
                        self.places.add(f"{path}: {content[:200]!r}" if path.name == "cmdline" else str(path))

    def _is_ours(self, path: Path) -> bool:
        is_process = path.name == "cmdline"
        return not is_process or str(self._folder).encode() in path.with_name("environ").read_bytes()


@pytest.fixture
def planted(
    nats_factory: NatsFactory,
    postgres_url: str,
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
    nats3: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Wire]:
    """Servers with logins, and settings that have them; the role of Postgres may not change the schema."""
    # Who gives no login is `wire`: the client of the test needs none.
    users = f"{{user: planted, password: {NATS}}}, {{user: wire, password: wire}}"
    server = nats_factory(f"authorization {{users: [{users}]}}\nno_auth_user: wire")
    monkeypatch.setenv("NATS3_POSTGRES_URL", postgres_url)
    with role(postgres_url) as url, Wire(server.url) as wire:
        nats3.ok("migrate", "--grant", ROLE)
        environment = {
            "NATS3_POSTGRES_URL": url,
            "NATS3_NATS_URL": server.url,
            "NATS3_NATS_USER": "planted",
            "NATS3_NATS_PASSWORD": NATS,
            "AWS_ENDPOINT_URL_S3": s3_server.endpoint,
            "AWS_REGION": s3_server.region,
            "AWS_ACCESS_KEY_ID": s3_server.access_key,
            "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
            "NATS3_API_TOKENS": HASH,
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield wire


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything writes: temporary files, Spark's local folders and event log, and Dagster's."""
    folder = tmp_path / "work"
    for name in ("tmp", "local", "events", "conf", "dagster"):
        (folder / name).mkdir(parents=True)
    for path in conf_dir().glob("*.*"):
        (folder / "conf" / path.name).write_text(path.read_text())
    with (folder / "conf" / "spark-defaults.conf").open("a") as defaults:
        defaults.write(f"spark.eventLog.enabled true\nspark.eventLog.dir file://{folder}/events\n")
        # Every function that a task runs becomes a file, as otherwise one of 1 MiB does.
        defaults.write("spark.eventLog.compress false\nspark.broadcast.UDFCompressionThreshold 1\n")
    (folder / "dagster" / "dagster.yaml").write_text(instance_file().read_text())
    environment = {
        "TMPDIR": "tmp",
        "SPARK_LOCAL_DIRS": "local",
        "SPARK_CONF_DIR": "conf",
        "DAGSTER_HOME": "dagster",
        "NATS3_HOME": "home",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, str(folder / value))
    return folder


def written(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@pytest.mark.steady_hour(90)
def test_secrets_are_nowhere(
    planted: Wire, folder: Path, s3_server: S3Server, bucket: str, nats3: Command, postgres_url: str
) -> None:
    secrets = [NATS, PASSWORD, s3_server.secret_key]
    planted.create_stream("EV", "ev.>")
    planted.create_stream("BACK", "back.>")
    planted.publish([("ev.a", b"", b"%d" % n) for n in range(200)])
    hour = planted.state("EV")["last_ts"][:13].replace("T", "-") + ":00"
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    with Watch(folder, secrets) as watch:
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT, bucket, hour],
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
            env=os.environ,
            cwd=folder,
        )
    assert "statuses: [0, 0, 0, 0, 0, 0]" in ran.stdout, ran.stdout + ran.stderr
    assert planted.state("BACK")["messages"] == 200
    # What is looked for was there to be seen: the JVM, the event log, and the files of broadcast functions.
    assert "spark.io.encryption.enabled" in ran.stdout
    # The JVM may write the log for a while after its driver has ended.
    assert wait_for(lambda: "SparkListenerJobStart" in written(folder / "events"), 20), [*folder.rglob("*")]
    assert watch.places == set()
    for form in (form for secret in secrets for form in forms(secret)):
        assert form not in ran.stdout + ran.stderr
        assert tables_with(postgres_url, form) == []


@pytest.mark.parametrize("words", [("doctor", "--debug"), ("store", "list", "--debug"), ("config", "show")])
def test_errors_and_reports_have_no_secret(
    planted: Wire, nats3: Command, words: tuple[str, ...], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = [NATS, PASSWORD, s3_server.secret_key, TOKEN]
    wrong = "planted-wrong-7Zq"
    url = os.environ["NATS3_POSTGRES_URL"]
    cases = {
        "NATS3_NATS_PASSWORD": wrong,
        "AWS_SECRET_ACCESS_KEY": wrong,
        "AWS_SESSION_TOKEN": wrong,
        "NATS3_POSTGRES_URL": url.replace(PASSWORD, wrong),
        "NATS3_NATS_URL": f"nats://planted:{wrong}@127.0.0.1:1",
        "NATS3_SPARK_REMOTE": f"sc://127.0.0.1:1/;token={wrong}",
        "NATS3_API_TOKENS": wrong,
        "NATS3_NATS_USER_SEED": wrong,
        "NATS3_NATS_TOKEN": wrong,
        "NATS3_API_TOKENS ": f"{HASH}:{wrong}",
    }
    for name, value in cases.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            ran = nats3(*words)
        for form in (form for secret in (*secrets, wrong) for form in forms(secret)):
            assert form not in ran.out + ran.err, (name, ran)


def test_the_api_shows_no_secret(planted: Wire, s3_server: S3Server, bucket: str) -> None:
    secrets = [NATS, PASSWORD, s3_server.secret_key, TOKEN, HASH]
    answers = list[str]()
    with serving("--port", "0", "--debug") as (process, url):
        with httpx.Client(base_url=url) as client:
            for headers in ({"Authorization": f"Bearer {TOKEN}"}, {"Authorization": f"Bearer {TOKEN}x"}, {}):
                for path in ("/ready", "/store/jobs", f"/store/jobs?token={TOKEN}", "/docs", "/nowhere"):
                    answer = client.get(path, headers=headers)
                    answers.append(json.dumps([answer.text, str(answer.headers)]))
                body = {"name": "job-1", "stream": "NONE", "subject": "x", "bucket": bucket}
                answer = client.post("/store/job", headers=headers, json=body)
                answers.append(answer.text)
        process.terminate()
        assert process.stderr
        log = process.stderr.read()
    for secret in secrets:
        assert secret not in "".join(answers)
        assert secret not in log


def tables_with(url: str, secret: str) -> list[str]:
    """The tables of which a row has the secret, in any column."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select table_schema, table_name from information_schema.tables "
            "where table_schema in ('public', 'nats3') and table_type = 'BASE TABLE'"
        ).fetchall()
        assert ("public", "event_logs") in tables
        found = sql.SQL("select 1 from {} t where position(%s in t::text) > 0 limit 1")
        return [
            table
            for schema, table in tables
            if connection.execute(found.format(sql.Identifier(schema, table)), [secret]).fetchone()
        ]
