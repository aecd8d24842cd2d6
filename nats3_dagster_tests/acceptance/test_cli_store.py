"""`nats3 store`: archives from the command line."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.settings import Settings
from nats3_dagster_tests.cli_case import Command
from nats3_dagster_tests.wire import Wire


@pytest.fixture
def nats3(capfd: pytest.CaptureFixture[str], settings: Settings) -> Command:
    return Command(capfd)


@pytest.fixture
def events(nats: NatsServer) -> None:
    """A stream EV with 100 messages."""
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish([(f"ev.{'a' if n % 2 else 'b'}", b"", b"%d" % n) for n in range(100)])


def test_an_archive_is_created_listed_paused_and_deleted(nats3: Command, events: None, bucket: str) -> None:
    made = nats3.ok(
        "store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket, "--subject", "ev.a",
        "--subject", "ev.b", "--prefix", "team/logs", "--max-messages", "5", "--max-bytes", "1.5MiB",
        "--max-age", "1h30m", "-o", "json",
    )  # fmt: skip
    assert made.json | {"created_at": ""} == {
        "name": "ev", "stream": "EV", "subjects": ["ev.a", "ev.b"], "bucket": bucket, "prefix": "team/logs",
        "mode": "stream", "durable": None, "max_messages": 5, "max_bytes": 1572864, "max_age_s": 5400, "zstd_level": 3,
        "paused": False, "created_at": "",
    }  # fmt: skip
    assert "nats3 store run ev" in made.err
    (listed,) = nats3.ok("store", "list", "-o", "json").json
    assert (listed["name"], listed["chunks"], listed["messages"], listed["last_time"]) == ("ev", 0, 0, None)
    table = nats3.ok("store", "list").out.splitlines()
    assert table[0].split()[:2] == ["NAME", "STREAM"]
    assert table[1].split()[:2] == ["ev", "EV"]
    assert nats3.ok("store", "pause", "ev", "-o", "json").json["paused"] is True
    assert nats3.ok("store", "resume", "ev", "-o", "json").json["paused"] is False
    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert (got["hours"], got["gaps"], got["coverage"][0]["first_seq"]) == (0, [], 1)
    assert "Say --yes" in nats3.refused("store", "delete", "ev")
    assert nats3.ok("store", "delete", "ev", "--yes", "-o", "json").json["deleted"] is True
    assert nats3.ok("store", "list", "-o", "json").json == []


def test_a_bucket_is_made_only_when_asked_for(nats3: Command, events: None, bucket: str) -> None:
    new = bucket + "-new"
    create = ("store", "create", "--name", "ev", "--stream", "EV", "--bucket", new)
    assert "--create-bucket" in nats3.refused(*create)
    nats3.ok(*create, "--create-bucket")


def test_a_capture_is_complete_and_a_second_one_adds_nothing(
    nats3: Command, spark: SparkSession, events: None, bucket: str, s3_client: Any
) -> None:
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    ran = nats3.ok("store", "run", "ev", "-o", "json")
    assert sum(hour["messages"] for hour in ran.json) == 100
    assert all(hour["gaps"] == [] and hour["lost"] == 0 for hour in ran.json)
    again = nats3.ok("store", "run", "ev", "-o", "json")
    assert again.json == []
    assert "complete" in again.err
    again = nats3.ok("store", "run", "ev", "--hour", ran.json[-1]["hour"], "-o", "json")
    assert [(hour["messages"], hour["chunks"]) for hour in again.json] == [(0, [])]

    chunks = nats3.ok("chunk", "list", "ev", "-o", "json").json
    assert [c["key"] for c in chunks] == [o["Key"] for o in s3_client.list_objects_v2(Bucket=bucket)["Contents"]]
    verified = nats3.ok("chunk", "verify", "ev", "-o", "json").json
    assert (verified["chunks"], verified["messages"], verified["bad"]) == (len(chunks), 100, [])
    by_id = nats3.ok("chunk", "get", "ev", str(chunks[0]["id"]), "-o", "json").json
    assert by_id == nats3.ok("chunk", "get", "ev", chunks[0]["key"], "-o", "json").json
    assert sum(by_id["subjects"].values()) == chunks[0]["messages"]
    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert (got["messages"], got["coverage"][0]["complete_to_seq"]) == (100, 100)
    for words in ("store list", "store get ev", "chunk list ev", f"chunk get ev {chunks[0]['id']}", "chunk verify ev"):
        assert nats3.ok(*words.split()).out

    # Deleted, the archive leaves its objects, until somebody asks for that as well.
    nats3.ok("store", "delete", "ev", "--yes")
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == len(chunks)
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    nats3.ok("store", "run", "ev", "--all")
    purged = nats3.ok("store", "delete", "ev", "--yes", "--purge", "-o", "json").json
    assert purged["objects_deleted"] == len(chunks)
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
