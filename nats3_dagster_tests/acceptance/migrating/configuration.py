"""Rows of configuration: of the command line, of the server, of the environment."""

from collections.abc import Callable
from typing import Any

import pytest

from nats3_dagster_tests.acceptance.migrating.shared import Checks, equal, peers_durable
from nats3_dagster_tests.acceptance.migrating.side import Side

CLI_FILE: Checks = {
    "server_url": lambda side: side.setting("server_url", "http://localhost:8080"),
    "output_format": lambda side: [side.setting("output_format", value) for value in ("table", "json", "yaml")],
}


def _config_file(side: Side) -> None:
    """The file with settings that the variable names, and none other."""
    (side.folder / "else.toml").write_text('server_url = "http://else:1"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NATS3_CONFIG", str(side.folder / "else.toml"))
        assert side.nats3.ok("config", "get", "server-url").out == "http://else:1\n"


def _in_file(field: str, wanted: Any, **job: Any) -> Callable[[Side], None]:
    """A store job of a configuration file is an archive with this value."""
    return lambda side: equal(side.applied(**job)[field], wanted)


def _file_consumer(side: Side) -> None:
    path = side.folder / "consumer.yaml"
    job = f"{{name: a, stream: jobs, bucket: {side.bucket}, subject: subject.1, consumer: not-there}}"
    path.write_text(f"store:\n- {job}\n")
    ran = side.nats3("store", "apply", "-f", str(path), "--yes")
    assert (ran.status, "has no consumer not-there" in ran.err) == (2, True)
    peers_durable(side.wire, "jobs", "theirs", "subject.1")
    assert side.applied(consumer="theirs", **{"batch.max_count": 1000})["consumer"] == "theirs"


def _file_subject(side: Side) -> None:
    assert side.applied(subject="subject.1")["subjects"] == ["subject.1"]
    path = side.folder / "number.yaml"
    path.write_text(f"store:\n- {{name: a, stream: jobs, bucket: {side.bucket}, subject: 1}}\n")
    assert "subject is 1, and must be text" in side.nats3.refused("store", "apply", "-f", str(path))


def _file_bucket(side: Side) -> None:
    assert side.applied()["bucket"] == side.bucket
    path = side.folder / "bucket.yaml"
    path.write_text(f"store:\n- {{name: a, stream: jobs, bucket: none-{side.bucket}, subject: subject.1}}\n")
    ran = side.nats3("store", "apply", "-f", str(path), "--yes")
    assert (ran.status, "does not exist" in ran.err) == (2, True)


def _file_codec(side: Side) -> None:
    notes = side.applied(**{"encoding.codec": "json"})["notes"]
    assert "left out encoding: every archive is of Parquet objects" in notes


def _environment(variable: str, key: str, value: str) -> Callable[[Side], None]:
    return lambda side: side.setting(key, value, variable=variable)


POSTGRES = "postgresql://u:secret@h/d"
SERVER: Checks = {
    "--config FILE": _config_file,
    "log": lambda side: [side.setting("log_level", level) for level in ("debug", "info", "warning", "error")],
    "server.addr": lambda side: side.setting("api_listen", "0.0.0.0:8080"),
    "nats.url": lambda side: side.setting("nats_url", "localhost:4222"),
    "s3.region": lambda side: side.setting("s3_region", "eu-west-1"),
    "s3.endpoint": lambda side: side.setting("s3_endpoint", "http://localhost:9000"),
    "s3.access": lambda side: side.setting("s3_access_key_id", "test-user"),
    "s3.secret": lambda side: side.setting("s3_secret_access_key", "test-password"),
    "postgres.url": lambda side: side.setting("postgres_url", POSTGRES),
    "postgres.migrate": lambda side: side.nats3.ok("migrate"),
    "store.name": lambda side: equal(side.applied(name="their-name")["archive"], "their_name"),
    "store.stream": _in_file("stream", "jobs", stream="jobs"),
    "store.subject": _file_subject,
    "store.consumer": _file_consumer,
    "store.bucket": _file_bucket,
    "store.prefix": _in_file("prefix", "foo", prefix="foo"),
    "store.batch.max_count": _in_file("max_messages", 500, **{"batch.max_count": 500}),
    "store.batch.max_bytes": _in_file("max_bytes", 5000, **{"batch.max_bytes": 5000}),
    "store.encoding.codec": _file_codec,
    "NATS3_LOG": lambda side: side.renamed("NATS3_LOG", "NATS3_LOG_LEVEL"),
    "NATS3_SERVER_ADDR": lambda side: side.renamed("NATS3_SERVER_ADDR", "NATS3_API_LISTEN"),
    "NATS3_NATS_URL": _environment("NATS3_NATS_URL", "nats_url", "localhost:4222"),
    "NATS3_S3_REGION": _environment("NATS3_S3_REGION", "s3_region", "eu-west-1"),
    "NATS3_S3_ENDPOINT": _environment("NATS3_S3_ENDPOINT", "s3_endpoint", "http://localhost:9000"),
    "NATS3_S3_ACCESS": lambda side: side.renamed("NATS3_S3_ACCESS", "NATS3_S3_ACCESS_KEY_ID"),
    "NATS3_S3_SECRET": lambda side: side.renamed("NATS3_S3_SECRET", "NATS3_S3_SECRET_ACCESS_KEY"),
    "NATS3_POSTGRES_URL": _environment("NATS3_POSTGRES_URL", "postgres_url", POSTGRES),
    "NATS3_POSTGRES_MIGRATE": lambda side: side.renamed("NATS3_POSTGRES_MIGRATE", None),
    "RUST_LOG": _environment("NATS3_LOG_LEVEL", "log_level", "debug"),
}
