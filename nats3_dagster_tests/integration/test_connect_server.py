"""How `nats3 connect-server` starts Spark: what it says, what it keeps to itself, and what it refuses."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from nats3_dagster.errors import EngineError
from nats3_dagster.pipeline import connect_server
from nats3_dagster.settings import Settings
from nats3_dagster.version import __version__

TOKEN = "tk-planted-81Xz"
FORKED = "spark.python.daemon.module=nats3_dagster.pipeline.worker_daemon"


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark whose spark-submit prints what it is given."""
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text('#!/bin/sh\nprintf "%s\\n" "${SPARK_CONNECT_AUTHENTICATE_TOKEN-}" "$@"\n')
    submit.chmod(0o755)
    jar = tmp_path / "spark" / "jars" / "spark-connect_2.13-4.3.0.jar"
    jar.parent.mkdir()
    jar.touch()
    return tmp_path / "spark"


def run(spark_home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "NATS3_"))}
    environment |= {"SPARK_HOME": str(spark_home), "NATS3_HOME": str(spark_home), **variables}
    command = [sys.executable, "-m", "nats3_dagster.cli", "connect-server", *words]
    return subprocess.run(command, env=environment, cwd=spark_home, capture_output=True, text=True, timeout=150)


def test_it_gives_spark_its_token_by_the_environment_and_says_its_release(spark_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    words = ["--host", "0.0.0.0", "--port", "1234", "--conf", "spark.ui.enabled=true"]
    ran = run(spark_home, *words, NATS3_SPARK_TOKEN_FILE=str(file))
    assert (ran.returncode, ran.stderr) == (0, "")
    token, *arguments = ran.stdout.splitlines()
    assert token == TOKEN
    assert TOKEN not in " ".join(arguments)
    settings = {word for before, word in pairwise(arguments) if before == "--conf"}
    assert settings == {
        "spark.connect.grpc.binding.address=0.0.0.0",
        "spark.connect.grpc.binding.port=1234",
        "spark.driver.memory=1g",
        "spark.ui.enabled=true",
        f"spark.nats3.release={__version__}",
        FORKED,
    }
    # Our own settings, and the archive of Spark's classes.
    assert {"--properties-file", "--driver-java-options"} <= {*arguments}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_without_a_token_it_listens_on_loopback_only(spark_home: Path, host: str) -> None:
    ran = run(spark_home, "--host", host)
    assert ran.returncode == 0
    assert "No token is set (NATS3_SPARK_TOKEN)" in ran.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "spark.example.com"])
def test_without_a_token_it_does_not_listen_elsewhere(spark_home: Path, host: str) -> None:
    ran = run(spark_home, "--host", host)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"would run the code of everybody who reaches {host}: no token is set" in ran.stderr


@pytest.mark.parametrize(
    ("variables", "ours", "forked"),
    [
        ({}, True, True),
        ({"NATS3_SPARK_MASTER": "local[4]"}, True, True),
        ({"NATS3_SPARK_MASTER": "spark://host:7077"}, True, False),
        ({"SPARK_CONF_DIR": "/etc/spark"}, False, False),
        ({"SPARK_CONF_DIR": "/etc/spark", "NATS3_SPARK_MASTER": "local[4]"}, False, True),
    ],
)
def test_a_configuration_and_a_master_of_the_users_count(
    spark_home: Path, variables: dict[str, str], ours: bool, forked: bool
) -> None:
    """Workers are forked with their imports done on this machine only: elsewhere a task brings this package."""
    arguments = run(spark_home, **variables).stdout.splitlines()
    assert ("--properties-file" in arguments) == ours
    assert (FORKED in arguments) == forked
    master = variables.get("NATS3_SPARK_MASTER")
    assert [word for word in arguments if word.startswith("spark.master=")] == (
        [f"spark.master={master}"] if master else []
    )


def test_a_spark_without_the_server_is_named(spark_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (jar,) = spark_home.glob("jars/*.jar")
    jar.unlink()
    monkeypatch.setenv("SPARK_HOME", str(spark_home))
    with pytest.raises(EngineError, match="has no server of Spark Connect"):
        connect_server.command(Settings(), "127.0.0.1", 15002)


def test_a_token_that_no_header_takes_is_refused_and_not_repeated(spark_home: Path) -> None:
    ran = run(spark_home, NATS3_SPARK_TOKEN="planted 7Zq\u00e9")
    assert ran.returncode == 2
    assert "spark_token (environment variable NATS3_SPARK_TOKEN): not a token" in ran.stderr
    assert "planted" not in ran.stderr
