"""`nats3 chunk fetch`: a proven object, or no file."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow


@pytest.fixture
def nats3(
    spark: SparkSession,
    capfd: pytest.CaptureFixture[str],
    settings: Settings,
    wire: Wire,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    """The command line in an empty folder, with an archive `ev` of 100 messages."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n}", b"", b"%d" % n) for n in range(100)])
    command = Command(capfd)
    command.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    command.ok("store", "run", "ev")
    monkeypatch.chdir(tmp_path)
    return command


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_chunk_is_fetched_once_and_nothing_is_overwritten(nats3: Command, tmp_path: Path, bucket: str) -> None:
    chunk = nats3.ok("chunk", "list", "ev", "-o", "json").json[-1]
    base = chunk["key"].rpartition("/")[2]
    done = nats3.ok("chunk", "fetch", "ev", str(chunk["id"]), "-o", "json").json
    assert (done["file"], files(tmp_path)) == (str(tmp_path / base), [base])
    data = (tmp_path / base).read_bytes()
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (chunk["sha256"], chunk["stored_bytes"])
    said = nats3.refused("chunk", "fetch", "ev", str(chunk["id"]))
    assert said == f"2 Error: {base} exists already. Choose another file, or remove it first"

    (tmp_path / "folder").mkdir()
    nats3.ok("chunk", "fetch", "ev", chunk["key"], "--to", "folder")
    said = nats3.ok("chunk", "fetch", "ev", chunk["key"], "--to", "a.parquet").err
    # What it advises is here, and works.
    line = said.partition("To read it: ")[2].strip()
    read = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    row = duckdb.execute("SELECT subject FROM 'a.parquet' LIMIT 1").fetchone()
    assert row is not None
    assert row[0] in read
    assert files(tmp_path) == sorted([base, "a.parquet", f"folder/{base}"])
    assert "There is no folder nowhere" in nats3.refused("chunk", "fetch", "ev", chunk["key"], "--to", "nowhere/a")


def test_to_stdout_it_is_the_object_and_nothing_else(nats3: Command, tmp_path: Path) -> None:
    chunk = nats3.ok("chunk", "list", "ev", "-o", "json").json[-1]
    command = [sys.executable, "-m", "nats3_dagster.cli", "chunk", "fetch", "ev", str(chunk["id"]), "--to", "-"]
    ran = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert hashlib.sha256(ran.stdout).hexdigest() == chunk["sha256"]
    assert files(tmp_path) == []


@pytest.mark.parametrize("defect", ["missing", "truncated", "flipped", "another"])
def test_what_is_not_proven_is_no_file(
    nats3: Command, tmp_path: Path, s3_client: Any, bucket: str, defect: str
) -> None:
    chunk = nats3.ok("chunk", "list", "ev", "-o", "json").json[-1]
    data = bytearray(s3_client.get_object(Bucket=bucket, Key=chunk["key"])["Body"].read())
    if defect == "missing":
        s3_client.delete_object(Bucket=bucket, Key=chunk["key"])
    else:
        data[len(data) // 2] ^= 1
        bad = {"truncated": bytes(data[:-100]), "flipped": bytes(data), "another": b"x" * len(data)}[defect]
        s3_client.put_object(Bucket=bucket, Key=chunk["key"], Body=bad)
    for to in (".", "-"):
        said = nats3.refused("chunk", "fetch", "ev", str(chunk["id"]), "--to", to)
        assert said.startswith("1 Error: ")
        assert chunk["key"] in said
    assert files(tmp_path) == []
