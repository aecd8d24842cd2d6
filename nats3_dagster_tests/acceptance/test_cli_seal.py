"""`nats3 store seal` and the manifests that `nats3 chunk verify` looks at."""

import time
from typing import Any

import pytest

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]


def test_hours_are_sealed_once_and_a_damaged_manifest_is_found(
    spark: Any, settings: Settings, wire: Wire, bucket: str, s3_client: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    nats3 = Command(capfd)
    start = hour_start(hour_of(time.time_ns())) - 3 * HOUR_NS
    past = [Past(n + 1, start + n % 2 * 2 * HOUR_NS + n, "ev.a", b"", b"x") for n in (0, 2, 4, 1, 3)]
    past = [p._replace(seq=n) for n, p in enumerate(past, 1)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    nats3.ok("store", "create", "--name", "events", "--stream", "EV", "--bucket", bucket)
    view = nats3.ok("store", "seal", "events", "-o", "json").json
    assert (view["sealed_now"], view["sealed"], view["not_sealed"]) == (0, 0, 3)
    nats3.ok("store", "run", "events", "--all")
    view = nats3.ok("store", "seal", "events", "-o", "json").json
    assert (view["sealed_now"], view["sealed"], view["not_sealed"], view["messages"]) == (3, 3, 0, 5)
    assert view["last_sealed"] == hour_of(start + 2 * HOUR_NS)
    assert nats3.ok("store", "seal", "events", "-o", "json").json["sealed_now"] == 0
    got = nats3.ok("store", "get", "events", "-o", "json").json
    assert (got["hours"], got["hours_sealed"], got["hours_replayed"]) == (2, 3, 0)
    assert "2 with messages, 4 covered, 3 sealed, 0 replayed" in nats3.ok("store", "get", "events").out
    verified = nats3.ok("chunk", "verify", "events", "-o", "json").json
    assert (verified["chunks"], verified["manifests"], verified["bad"]) == (2, 3, [])

    keys = [item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]]
    first, second, _ = sorted(key for key in keys if "manifest-0001-" in key)
    s3_client.delete_object(Bucket=bucket, Key=first)
    s3_client.put_object(Bucket=bucket, Key=second, Body=b"other")
    ran = nats3("chunk", "verify", "events", "-o", "json")
    assert ran.status == 1
    assert [b["key"] for b in ran.json["bad"]] == [first, second]
    assert ran.error.startswith("Error: 2 of 5 objects of archive events are not what was written.")

    nats3.ok("store", "delete", "events", "--yes", "--purge")
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
