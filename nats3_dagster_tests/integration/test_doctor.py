"""`nats3 doctor`: it finds what is broken, says what to do, and leaves nothing behind."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health import catalog_health
from nats3_dagster.catalog.session.health import forgets_on_failover
from nats3_dagster.catalog.session.schema import VERSION
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres, programs
from nats3_dagster.dev.process import free_port
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.objects import StoreOptions, create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.captures import capture
from nats3_dagster_tests.support.commands import Command, Ran
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.nats, pytest.mark.s3]

BUCKET = "archive"


@pytest.fixture
def nats3(
    capfd: pytest.CaptureFixture[str], settings: Settings, file_store: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command line with a store in a folder, which is faster; `on_s3` makes it the S3 endpoint."""
    monkeypatch.setenv("NATS3_STORE_URL", file_store.url)
    return Command(capfd)


@pytest.fixture
def on_s3(nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_STORE_URL", "s3://")


def findings(ran: Ran, area: str, status: str | None = None) -> list[tuple[str, str | None]]:
    """What was found in an area, with what to do."""
    return [(f["what"], f["do"]) for f in ran.json if f["area"] == area and status in (None, f["status"])]


def archive_of(nats3: Command, nats: NatsServer, bucket: str = BUCKET, messages: int = 10, **config: Any) -> None:
    """An archive `ev` of a stream EV with this configuration; nothing is captured."""
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>", **config)
        wire.publish([("ev.a", b"", b"x" * 100)] * messages)
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)


def copy_cluster(primary: Postgres, folder: Path) -> None:
    """Make a standby of the primary in `folder`."""
    folder.mkdir()
    shutil.copy(primary.folder / "password", folder)
    copy = [programs() / "pg_basebackup", "-D", folder / "data", "-R", "-c", "fast", "--no-sync", "-d", primary.url()]
    subprocess.run(copy, check=True)
    if os.geteuid() == 0:  # Postgres runs as nobody
        for path in (folder / "data").rglob("*"):
            shutil.chown(path, "nobody")
        shutil.chown(folder / "data", "nobody")


def test_all_is_well(nats3: Command, on_s3: None, nats: NatsServer, bucket: str, s3_client: Any) -> None:
    archive_of(nats3, nats, bucket)
    ran = nats3("doctor", "-o", "json")
    assert ran.status == 0
    assert {f["status"] for f in ran.json} <= {"ok", "warn"}
    said = " ".join(f["what"] for f in ran.json)
    assert f"nats-server {'.'.join(map(str, nats.version))}" in said
    assert "10 sequences are not captured; the stream has no limit that deletes them" in said
    assert "of 8 concurrent create-only PUTs one wins, 8 times of 8" in said
    assert "Java " in said
    assert "pyspark 4." in said
    # The session's Postgres runs without fsync, and that is what it has to say.
    assert findings(ran, "postgres", "warn") == [
        (
            "fsync or synchronous_commit is off: a crash of Postgres may forget committed chunks",
            "Set both to on; what was acknowledged to NATS by then is gone there",
        )
    ]
    assert "1 archives own their folders" in said
    owner, settings = s3_client.list_objects_v2(Bucket=bucket)["Contents"]
    assert owner["Key"].endswith("/_owner.json")
    assert "/_settings-" in settings["Key"]
    table = nats3.ok("doctor").out
    assert table.splitlines()[0].split() == ["AREA", "FOUND,", "AND", "WHAT", "TO", "DO"]
    assert "-> Set both to on" in table


@pytest.mark.parametrize(
    ("config", "messages", "status", "said"),
    [
        ({"max_msgs": 100}, 95, "fail", "95 sequences are not captured, which is 95% of its max_msgs"),
        ({"max_msgs": 100}, 60, "warn", "60 sequences are not captured, which is 60% of its max_msgs"),
        ({"max_msgs": 100}, 40, "ok", "40 sequences are not captured, which is 40% of its max_msgs"),
        ({"max_msgs": 100, "discard": "new"}, 95, "ok", "the stream has no limit that deletes them"),
        ({"max_bytes": 10_000}, 70, "fail", "of its max_bytes"),
        ({"max_age": 3600 * 10**9}, 10, "ok", "which is 0% of its max_age"),
    ],
)
def test_the_time_to_loss(
    nats3: Command, nats: NatsServer, config: dict[str, Any], messages: int, status: str, said: str
) -> None:
    archive_of(nats3, nats, BUCKET, messages, **config)
    ran = nats3("doctor", "-o", "json")
    (found,) = [f for f in ran.json if "not captured" in f["what"]]
    assert (found["status"], said in found["what"]) == (status, True), found
    assert bool(found["do"]) == (status != "ok")
    assert ran.status == (1 if status == "fail" else 0)


def test_what_expired_before_it_was_captured(nats3: Command, nats: NatsServer) -> None:
    archive_of(nats3, nats, BUCKET, 10, max_msgs=10)
    with Wire(nats.url) as wire:
        wire.publish([("ev.a", b"", b"y")] * 5)
    ran = nats3("doctor", "-o", "json")
    assert ran.status == 1
    assert "the stream has deleted messages that were not captured" in str(findings(ran, "nats", "fail"))


def test_a_paused_archive_is_a_warning(nats3: Command, nats: NatsServer) -> None:
    archive_of(nats3, nats)
    nats3.ok("store", "pause", "ev")
    ((what, do),) = [f for f in findings(nats3("doctor", "-o", "json"), "nats", "warn") if "paused" in f[0]]
    behind = "10 sequences are not captured; the stream has no limit that deletes them"
    assert what == f"Archive ev, stream EV: {behind}; the archive is paused"
    assert do == "Resume archive ev: nats3 store resume ev"
    nats3.ok("store", "resume", "ev")
    assert "paused" not in str(findings(nats3("doctor", "-o", "json"), "nats", "warn"))


def test_a_stream_made_again_or_gone(nats3: Command, nats: NatsServer) -> None:
    archive_of(nats3, nats)
    with Wire(nats.url) as wire:
        wire.api("STREAM.DELETE.EV")
        ran = nats3("doctor", "-o", "json")
        ((what, do),) = findings(ran, "nats", "fail")
        assert what.startswith("Archive ev: There is no stream EV at NATS ")
        assert what.endswith(". The account has no streams at all")
        assert str(do).endswith("if it is gone for good, delete archive ev: nats3 store delete ev")
        wire.create_stream("EV", "ev.>")
    assert findings(nats3("doctor", "-o", "json"), "nats", "fail") == [
        (
            "Archive ev, stream EV: it was deleted and made again",
            "Let archive ev adopt it as well: nats3 store run ev --adopt",
        )
    ]


def capture_all(name: str, url: str) -> None:
    """Without Spark: a JVM that starts here would keep this test's store for the tests that come after it."""
    with Workspace(Settings.load()) as workspace, Wire(url) as wire:
        capture(workspace, workspace.catalog.archives.get(name), wire)


def test_a_removed_stream_may_have_had_more_than_was_seen(nats3: Command, nats: NatsServer) -> None:
    """100 messages are captured, 50 more are never seen, and the stream is made again."""
    archive_of(nats3, nats)
    capture_all("ev", nats.url)
    last = nats3.ok("store", "get", "ev", "-o", "json").json["coverage"][0]["last_seq"]
    with Wire(nats.url) as wire:
        wire.publish([("ev.a", b"", b"x")] * 50)
        wire.api("STREAM.DELETE.EV")
        wire.create_stream("EV", "ev.>")
    with Workspace(Settings.load()) as workspace:
        open_source(workspace, workspace.catalog.archives.get("ev"), adopt=True)
    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert [c["unknown_after_seq"] for c in got["coverage"]] == [last, None]
    assert f"had after sequence {last}" in " ".join(nats3.ok("store", "get", "ev").out.split())
    ((what, _),) = [f for f in findings(nats3("doctor", "-o", "json"), "nats", "warn") if "was removed" in f[0]]
    assert what.endswith(f"was removed; what it had after sequence {last} is lost, in unknown number")


def test_subjects_that_no_filter_matches_any_more(nats3: Command, nats: NatsServer) -> None:
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish([("ev.a", b"", b"x")] * 3)
        nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", BUCKET, "--subject", "ev.a")
        capture_all("ev", nats.url)
        assert "matches" not in nats3.ok("store", "get", "ev").out
        wire.api("STREAM.UPDATE.EV", name="EV", subjects=["other.>"], storage="file")
    assert "no subject of the stream matches ev.a any more" in " ".join(nats3.ok("store", "get", "ev").out.split())
    ((what, do),) = [f for f in findings(nats3("doctor", "-o", "json"), "nats", "warn") if "matches" in f[0]]
    assert what == (
        "Archive ev, stream EV: no subject of the stream (other.>) matches ev.a: nothing more of it is captured"
    )
    assert do == "If its subjects moved, change the filter of archive ev: nats3 store set ev --subject"


def test_the_sync_interval_that_the_server_tells(
    nats3: Command, nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "sync_interval" in str(findings(nats3("doctor", "-o", "json"), "nats", "warn"))
    port = free_port()
    server = nats_factory(config=f'http: "127.0.0.1:{port}"')
    monkeypatch.setenv("NATS3_NATS_URL", server.url)
    monkeypatch.setenv("NATS3_NATS_MONITOR_URL", f"http://127.0.0.1:{port}/")
    assert "sync_interval is 120 s" in str(findings(nats3("doctor", "-o", "json"), "nats", "warn"))
    # Another server's monitoring port proves nothing, though that server has the same name.
    monkeypatch.setenv("NATS3_NATS_URL", nats_factory().url)
    if server.version >= (2, 10, 0):
        assert "sync_interval is unknown" in str(findings(nats3("doctor", "-o", "json"), "nats", "warn"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NATS3_NATS_MONITOR_URL", "http://u:{}@h:8222"),
        ("NATS3_NATS_MONITOR_URL", "http://u:12/{}@h"),
        ("NATS3_DAGSTER_URL", "http://u:x/{}@h"),
        ("NATS3_NATS_URL", "nats://to/{}@h"),
        ("NATS3_NATS_NKEY", "data:,{}"),
        ("AWS_ENDPOINT_URL_S3", "http://{}@h"),
        ("NATS3_POSTGRES_URL", "postgresql://u:a/{}@h/d"),
    ],
)
def test_a_setting_that_is_wrong_is_one_finding_and_the_others_are_examined(
    nats3: Command, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    secret = "planted-7Zq"
    monkeypatch.setenv(name, value.format(secret))
    ran = nats3("doctor", "-o", "json", "--debug")
    assert ran.status == 1
    ((what, do),) = findings(ran, "settings", "fail")
    assert f"({'environment variable ' + name}): " in what
    assert do == "Correct it where it is set"
    assert {"nats", "postgres", "store"} <= {finding["area"] for finding in ran.json}
    assert secret not in ran.out + ran.err
    # What reports no findings stops there.
    assert nats3.refused("store", "list").startswith("2 Error: A setting is wrong: ")


def test_only_the_embedded_server_may_sync_every_two_minutes(
    nats3: Command, nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = nats_factory(monitor=True)
    stack = {"nats_url": server.url, "nats_monitor_url": server.monitor_url}
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    (tmp_path / "stack.json").write_text(json.dumps(stack))
    monkeypatch.delenv("NATS3_NATS_URL")
    said = "The embedded server syncs every 120 s, for trying things out: after a power cut"
    assert any(what.startswith(said) for what, _ in findings(nats3("doctor", "-o", "json"), "nats", "ok"))
    # The very same server, but not as the embedded one.
    (tmp_path / "stack.json").write_text(json.dumps(stack | {"nats_url": "nats://127.0.0.1:1"}))
    monkeypatch.setenv("NATS3_NATS_URL", server.url)
    assert "sync_interval is 120 s" in str(findings(nats3("doctor", "-o", "json"), "nats", "warn"))


@pytest.mark.needs_nats("2.10")
def test_a_server_that_syncs_always(nats3: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    store = f'jetstream {{store_dir: "{tmp_path / "js"}", sync_interval: always}}'
    with NatsServer(tmp_path / "nats", config=f'http: "127.0.0.1:{port}"\n{store}') as server:
        monkeypatch.setenv("NATS3_NATS_URL", server.url)
        monkeypatch.setenv("NATS3_NATS_MONITOR_URL", f"http://127.0.0.1:{port}")
        assert "sync_interval is always" in str(findings(nats3("doctor", "-o", "json"), "nats", "ok"))


def test_servers_that_are_down_are_all_told_at_once(
    nats3: Command, on_s3: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NATS3_NATS_URL", f"nats://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NATS3_POSTGRES_URL", f"postgresql://u:Pl4nted@127.0.0.1:{free_port()}/x")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    # A sensor that an earlier test called here leaves a Dagster instance in the session's folder.
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    began = time.monotonic()
    ran = nats3("doctor", "-o", "json")
    assert time.monotonic() - began < 60
    assert ran.status == 1
    failed = [f for f in ran.json if f["status"] == "fail"]
    assert [f["area"] for f in failed] == ["nats", "postgres", "store", "java"]
    assert all(f["do"] for f in failed)
    assert ran.error == "Error: 4 of 8 checks fail. Do what stands beside them, then run it again"
    assert "Pl4nted" not in ran.out + ran.err


def test_a_server_without_jetstream(nats3: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NatsServer(tmp_path / "nats", config="jetstream: disabled") as server:
        monkeypatch.setenv("NATS3_NATS_URL", server.url)
        assert findings(nats3("doctor", "-o", "json"), "nats", "fail") == [
            ("The server has no JetStream", "Enable it there (nats-server -js), or use another server")
        ]


def test_a_database_before_and_behind(
    nats3: Command, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
    ran = nats3("doctor", "-o", "json")
    assert findings(ran, "postgres", "fail") == [
        (
            "Extension btree_gist is there and not installed",
            "Migrate the catalog's schema, which installs it: nats3 migrate",
        ),
        (f"The catalog has no schema, this release needs {VERSION}", "Migrate the catalog's schema: nats3 migrate"),
    ]
    nats3.ok("migrate")
    assert findings(nats3("doctor", "-o", "json"), "postgres", "fail") == []
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("UPDATE nats3.alembic_version SET version_num = '0010'")
    ((problem, step),) = findings(nats3("doctor", "-o", "json"), "postgres", "fail")
    assert problem.endswith(" has schema 0010, which a development version made")
    assert step
    assert step.endswith("Name an empty database in NATS3_POSTGRES_URL, and make a catalog in it: nats3 migrate")


@pytest.mark.parametrize(
    ("commit", "names", "states", "forgets"),
    [
        ("on", "", [], False),
        ("on", "", ["async"], True),
        ("on", "", ["async", "async"], True),
        ("on", "one", ["sync", "async"], False),
        ("on", "ANY 1 (one, two)", ["quorum", "quorum"], False),
        ("on", "one", ["async"], False),  # a commit waits for one that is not there now
        ("local", "one", ["sync"], True),
        ("local", "one", [], False),
    ],
)
def test_which_standbys_may_lack_what_is_committed(commit: str, names: str, states: list[str], forgets: bool) -> None:
    assert forgets_on_failover(commit, names, states) is forgets


def test_a_standby_that_no_commit_waits_for(
    nats3: Command, tmp_path: Path, server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicating = {"wal_level": "replica", "max_wal_senders": "4"}
    warning = [
        (
            "Its standbys replicate asynchronously: a failover may forget committed chunks",
            "Set synchronous_standby_names, so that a commit waits for a standby, and synchronous_commit to on",
        )
    ]

    def found() -> list[tuple[str, str | None]]:
        return [f for f in findings(nats3("doctor", "-o", "json"), "postgres", "warn") if "standbys" in f[0]]

    folder = Path(tempfile.mkdtemp(dir=server_folder))
    with Postgres(folder / "primary", fast=True, settings=replicating) as primary:
        monkeypatch.setenv("NATS3_POSTGRES_URL", primary.url())
        assert found() == []
        copy_cluster(primary, folder / "standby")
        standby = Postgres(folder / "standby", fast=True, settings=replicating)
        with standby, psycopg.connect(primary.url(), autocommit=True) as admin:
            while not admin.execute("SELECT FROM pg_stat_replication WHERE state = 'streaming'").fetchall():
                assert standby.process
                assert standby.process.running
            admin.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
            assert found() == warning
            # Who may not see the standbys' states hears nothing of them.
            plain = f"postgresql://plain:plain@127.0.0.1:{primary.port}/postgres"
            monkeypatch.setenv("NATS3_POSTGRES_URL", plain)
            assert found() == []
            monkeypatch.setenv("NATS3_POSTGRES_URL", primary.url())
            admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            admin.execute("SELECT pg_reload_conf()")
            while not admin.execute("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'").fetchall():
                pass
            assert found() == []


def test_a_postgres_that_only_reads(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a failover behind a pooler (psycopg#904), or where a provider's disk is nearly full."""
    monkeypatch.setenv("NATS3_POSTGRES_URL", f"{settings.postgres}?options=-cdefault_transaction_read_only%3Don")
    failures = [finding.what for finding in catalog_health.check(Settings.load()) if finding.status == "fail"]
    assert failures == ["It takes no writes: default_transaction_read_only is on"]


def test_a_bucket_that_is_gone(nats3: Command, on_s3: None, nats: NatsServer, bucket: str, s3_client: Any) -> None:
    archive_of(nats3, nats, bucket)
    for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]:
        s3_client.delete_object(Bucket=bucket, Key=item["Key"])
    s3_client.delete_bucket(Bucket=bucket)
    ran = nats3("doctor", "-o", "json")
    assert f"The bucket '{bucket}' does not exist" in findings(ran, "store", "fail")[0][0]


def test_a_store_whose_create_only_put_is_no_lock(
    nats3: Command, on_s3: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Server(tmp_path / "s3", create_lock=False) as racy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", racy.endpoint)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", racy.secret_key)
        create_bucket(Settings.load().store, "racy")
        ran = nats3("doctor", "--bucket", "racy", "-o", "json")
    ((what, do),) = findings(ran, "store", "warn")
    assert "won: If-None-Match is no lock here. Postgres still holds the promise" in what
    assert do
    assert ran.status == 0


def test_a_store_in_a_folder(nats3: Command, file_store: StoreOptions) -> None:
    ran = nats3("doctor", "--bucket", BUCKET, "-o", "json")
    assert len(findings(ran, "store", "ok")) == 2
    assert file_store.folder is not None
    assert [f for f in (file_store.folder / BUCKET).rglob("*") if f.is_file()] == []


def test_a_spark_session_on_request(nats3: Command, spark: Any) -> None:
    ran = nats3("doctor", "--spark", "-o", "json")
    assert f"A session of Spark {spark.version} runs; its worker is Python 3." in str(findings(ran, "spark", "ok"))


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "fail"),
        ('java version "1.8.0_292"', "fail"),
        ('openjdk version "21" 2023-09-19', "ok"),
        ("Segmentation fault", "fail"),
    ],
)
def test_the_java_that_spark_would_start(
    nats3: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ((what, do),) = findings(nats3("doctor", "-o", "json"), "java", status)
    assert str(java) in what
    assert bool(do) == (status == "fail")


def test_settings_without_effect_and_a_secret_that_all_may_read(
    nats3: Command, on_s3: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "etc.toml"
    path.write_text('nats_password = "s3cr"\n')
    path.chmod(0o644)
    monkeypatch.setenv("NATS3_CONFIG", str(path))
    monkeypatch.setenv("NATS3_POSTGRESQL_URL", "postgresql://u:s3cr@h/d")
    monkeypatch.setenv("NATS3_ELSEWHERE", "1")
    ran = nats3("doctor", "-o", "json")
    assert findings(ran, "settings", "ok") == [(f"Settings come from: {path}, the environment", None)]
    assert findings(ran, "settings", "warn") == [
        ("NATS3_ELSEWHERE is not a setting", "Unset it"),
        ("NATS3_POSTGRESQL_URL is not a setting", "Did you mean NATS3_POSTGRES_URL?"),
        (f"Every user of this machine can read {path}, which holds a secret", "Take the permission away: chmod 600"),
    ]
    whats = [what for what, _ in findings(ran, "store", "ok")]
    assert whats[0].startswith("S3 identity: static keys, access key ")
    assert "s3cr" not in ran.out + ran.err
    path.chmod(0o600)
    assert len(findings(nats3("doctor", "-o", "json"), "settings", "warn")) == 2
