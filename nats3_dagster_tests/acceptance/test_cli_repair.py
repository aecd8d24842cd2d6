"""`nats3 chunk repair`: what a bad object held is captured again, as long as the stream has it."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

MESSAGES = [(f"ev.{n % 3}", b"", b"%d" % n) for n in range(100)]


@pytest.fixture
def keys(spark: SparkSession, nats3: Command, settings: Settings, wire: Wire, bucket: str) -> list[str]:
    """An archive `events` of 100 messages; the objects of its chunks, in order."""
    wire.create_stream("EV", "ev.>")
    nats3.ok("store", "create", "--name", "events", "--stream", "EV", "--bucket", bucket)
    for part in (MESSAGES[:50], MESSAGES[50:]):
        wire.publish(part)
        nats3.ok("store", "run", "events")
    return [chunk["key"] for chunk in chunks(nats3)]


def chunks(nats3: Command) -> list[dict[str, Any]]:
    return nats3.ok("chunk", "list", "events", "-o", "json").json


def damage(s3_client: Any, bucket: str, key: str) -> None:
    data = bytearray(s3_client.get_object(Bucket=bucket, Key=key)["Body"].read())
    data[len(data) // 2] ^= 1
    s3_client.put_object(Bucket=bucket, Key=key, Body=bytes(data))


def test_what_is_missing_or_damaged_is_captured_again(
    nats3: Command, keys: list[str], wire: Wire, s3_client: Any, bucket: str
) -> None:
    assert nats3.ok("chunk", "repair", "events", "-o", "json").json["repaired"] == 0
    s3_client.delete_object(Bucket=bucket, Key=keys[0])
    damage(s3_client, bucket, keys[-1])
    before = chunks(nats3)
    assert nats3("chunk", "verify", "events").error.endswith("nats3 chunk repair events")
    ran = nats3.ok("chunk", "repair", "events", "-o", "json")
    assert [line.split(",")[0] for line in ran.err.splitlines() if line.startswith("Bad chunk")] == [
        f"Bad chunk {before[0]['id']}",
        f"Bad chunk {before[-1]['id']}",
    ]
    held = before[0]["messages"] + before[-1]["messages"]
    assert ran.json == {
        "archive": "events",
        "chunks": len(before),
        "bad": 2,
        "repaired": 2,
        "manifests_repaired": 0,
        "messages": held,
        "lost": 0,
    }
    assert nats3.ok("chunk", "verify", "events", "-o", "json").json["messages"] == 100
    nats3.ok("load", "create", "--archive", "events", "--write-subject", "back.>", "--create-stream", "BACK")
    assert [(m.subject, m.data) for m in wire.messages("BACK")] == [(f"back.{s}", d) for s, _, d in MESSAGES]


def test_what_the_stream_no_longer_has_is_left_alone(
    nats3: Command, keys: list[str], wire: Wire, s3_client: Any, bucket: str
) -> None:
    damage(s3_client, bucket, keys[0])
    wire.api("STREAM.PURGE.EV", seq=2)
    before = chunks(nats3)
    ran = nats3("chunk", "repair", "events", "-o", "json")
    assert ran.status == 1
    assert (ran.json["bad"], ran.json["repaired"]) == (1, 0)
    assert ran.error == (
        "Error: 1 bad chunks of archive events were left as they are: the stream no longer has 1 of their messages. "
        "Restore their objects from a copy of the bucket; or give those messages up for good: "
        "nats3 chunk repair events --accept-loss"
    )
    assert chunks(nats3) == before
    assert s3_client.head_object(Bucket=bucket, Key=keys[0])


def test_a_store_that_has_nothing_is_the_wrong_one(
    nats3: Command, keys: list[str], s3_client: Any, bucket: str
) -> None:
    for key in keys:
        s3_client.delete_object(Bucket=bucket, Key=key)
    before = chunks(nats3)
    said = nats3.refused("chunk", "repair", "events")
    assert said.startswith(f"2 Error: None of the {len(keys)} objects of archive events is in http://127.0.0.1:")
    assert chunks(nats3) == before
    hours = [word for hour in sorted({chunk["hour"] for chunk in before}) for word in ("--hour", hour)]
    assert nats3.ok("chunk", "repair", "events", *hours, "-o", "json").json["messages"] == 100


def test_what_was_deleted_in_the_stream_since_is_given_up_only_when_asked(
    nats3: Command, keys: list[str], wire: Wire, s3_client: Any, bucket: str
) -> None:
    damage(s3_client, bucket, keys[0])
    wire.api("STREAM.MSG.DELETE.EV", seq=3)
    ran = nats3("chunk", "repair", "events", "-o", "json")
    assert (ran.status, ran.json["repaired"], ran.json["lost"]) == (1, 0, 0)
    assert "still has" in ran.err
    ran = nats3("chunk", "repair", "events", "--accept-loss", "-o", "json")
    assert ran.status == 1
    assert (ran.json["repaired"], ran.json["lost"]) == (1, 1)
    assert ran.error.startswith("Error: 1 messages of the bad chunks are lost: stream EV no longer has them")
    assert nats3.ok("chunk", "verify", "events", "-o", "json").json["messages"] == 99
