"""Jobs from a plain shell: the exit status, the last lines a person reads, and what is left in Dagster's storage."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.hours import hour_of, parse_time
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def execute(
    job: str, tags: dict[str, str], cwd: Path, *more: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("dagster")), "job", "execute", "-m", "nats3_dagster.definitions"]
    return subprocess.run(
        [*command, "-j", job, "--tags", json.dumps(tags), *more],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=170,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **environment},
    )


@pytest.mark.s3
def test_a_capture_in_the_checkout_is_kept_in_postgres(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x" * 100)] * 300)
    archive(settings, bucket)
    hour = hour_of(parse_time(wire.state("EV")["last_ts"]))
    ran = execute("events_capture", {"dagster/partition": hour}, ROOT)
    assert ran.returncode == 0, ran.stderr
    assert f"events {hour}: " in ran.stderr
    assert "messages in 1 chunk, " in ran.stderr
    with psycopg.connect(settings.postgres) as connection:
        runs = connection.execute("select status, partition from public.runs").fetchall()
        chunks = connection.execute("select dagster_run_id from nats3.chunk").fetchall()
        assert runs == [("SUCCESS", hour)]
        # By this the UI lists the run with its job: it is what the daemon and the UI give to theirs.
        label = connection.execute("select value from public.run_tags where key = '.dagster/repository'").fetchall()
        assert label == [(PROJECT.repository,)]
        assert chunks == connection.execute("select run_id from public.runs").fetchall()
        stored = connection.execute("select string_agg(event, '') from public.event_logs").fetchone()
        assert stored is not None
        for secret in (settings.store.secret_access_key, settings.postgres):
            assert str(secret) not in stored[0] + ran.stdout + ran.stderr


def launch(*words: str) -> subprocess.CompletedProcess[str]:
    """`dg launch`, which knows this project by its pyproject.toml."""
    command = [str(Path(sys.executable).with_name("dg")), "launch", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=170,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )


def test_the_same_by_dg_launch(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", b"x" * 100)] * 300)
    archive(settings, bucket)
    hour = hour_of(parse_time(wire.state("EV")["last_ts"]))
    ran = launch("--job", "events_capture", "--partition", hour)
    assert ran.returncode == 0, ran.stderr
    how = json.dumps({"ops": {"events__replay": {"config": {"write_subject": "back.>"}}}})
    ran = launch("--assets", "key:events/replay", "--partition", hour, "--config-json", how)
    assert ran.returncode == 0, ran.stderr
    assert wire.state("BACK")["messages"] == wire.state("EV")["messages"] == 300
    ran = launch("--job", "events_capture", "--partition", "2001-01-01-00:00")
    assert ran.returncode != 0
    assert "2001-01-01-00:00" in ran.stderr


def test_a_failure_ends_with_its_sentences_and_status_1(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    ran = execute("events_capture", {"dagster/partition": "2001-01-01-00:00"}, ROOT)
    assert ran.returncode == 1
    *_, said, last = ran.stderr.rstrip().splitlines()
    assert said.startswith("Archive events has no hour '2001-01-01-00:00'. It has ")
    assert last.startswith("Error: Run ")
    assert "Traceback" not in ran.stderr
    assert "Stack Trace" not in ran.stderr


def test_without_an_instance_a_run_is_forgotten_and_its_failure_is_not(
    settings: Settings, wire: Wire, bucket: str, tmp_path: Path
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    hour = hour_of(time.time_ns())
    # In a folder without dagster.yaml Dagster keeps the run in a temporary folder, and logs everything.
    ran = execute("events_capture", {"dagster/partition": hour}, tmp_path, NATS3_NATS_URL="nats://127.0.0.1:1")
    assert ran.returncode == 1
    assert "\nNothing listens for NATS at 127.0.0.1:1. Start the server, or check NATS3_NATS_URL\n" in ran.stderr
    assert "Stack Trace" not in ran.stderr
    assert list(tmp_path.iterdir()) == []
    with psycopg.connect(settings.postgres) as connection:
        assert connection.execute("select to_regclass('public.runs')").fetchone() == (None,)


def test_what_a_run_prints_goes_to_s3_as_the_instance_file_offers(
    settings: Settings, wire: Wire, bucket: str, s3_client: Any, tmp_path: Path
) -> None:
    """The block of dagster.yaml that is commented out, with its comment signs taken away."""
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    head, _, offered = (ROOT / "dagster.yaml").read_text().partition("#compute_logs:")
    block = "".join(line.removeprefix("#") for line in f"#compute_logs:{offered}".splitlines(keepends=True))
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(head + block)
    # A JVM says something in any case; what says nothing leaves no object.
    tags = {"dagster/partition": hour_of(time.time_ns())}
    ran = execute("events_capture", tags, tmp_path, DAGSTER_HOME=str(home), NATS3_COMPUTE_LOGS_BUCKET=bucket)
    assert ran.returncode == 0, ran.stderr
    with psycopg.connect(settings.postgres) as connection:
        (run,) = connection.execute("select run_id from public.runs").fetchone() or ("",)
    objects = [item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket).get("Contents", [])]
    assert any(key.startswith("compute-logs/storage/") and run in key for key in objects), objects
