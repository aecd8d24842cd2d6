"""`nats3 store` of a stream that keeps 30 messages: created with a buffer, run on Spark, replayed, deleted."""

import time

import pytest

from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

BUFFER = "NATS3-BUFFER-orders"


@pytest.mark.steady_hour(60)
@pytest.mark.needs_nats("2.10")
def test_a_stream_of_30_messages_is_archived_and_replayed(
    nats3: Command, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("ORDERS", "orders.>", max_msgs=30, storage="memory")
    create = ("store", "create", "--name", "orders", "--stream", "ORDERS", "--bucket", bucket)
    made = nats3.ok(*create, "--buffer", "24h", "--buffer-bytes", "1GiB", "-o", "json").json
    assert (made["buffer_s"], made["buffer_bytes"], made["warning"]) == (86_400, 1 << 30, None)
    config = wire.api(f"STREAM.INFO.{BUFFER}")["config"]
    assert (config["mirror"], config["max_age"], config["max_bytes"]) == ({"name": "ORDERS"}, 86_400 * 10**9, 1 << 30)
    sent = [("orders.a", b"NATS/1.0\r\nN: %d\r\n\r\n" % n, b"%d" % n) for n in range(10_000)]
    for at in range(0, len(sent), 25):
        wire.publish(sent[at : at + 25])
        until = time.monotonic() + 30
        while wire.state(BUFFER)["last_seq"] < at + 25:  # at a pace that the mirror follows
            assert time.monotonic() < until
    assert wire.state("ORDERS")["messages"] == 30
    assert nats3.ok("store", "get", "orders", "-o", "json").json["lag"] == 10_000
    (ran,) = nats3.ok("store", "run", "orders", "-o", "json").json
    assert (ran["messages"], ran["lost"]) == (10_000, 0)
    view = nats3.ok("store", "get", "orders", "-o", "json").json
    assert (view["stream"], view["lag"], view["messages"], view["losses"]) == ("ORDERS", 0, 10_000, {})
    (covered,) = view["coverage"]
    assert (covered["first_seq"], covered["last_seq"]) == (1, 10_000)
    replay = ("load", "create", "--archive", "orders", "--write-subject", "back.>", "--create-stream", "BACK")
    nats3.ok(*replay)
    assert [m.data for m in wire.messages("BACK")] == [data for _, _, data in sent]
    deleted = nats3.ok("store", "delete", "orders", "--yes", "-o", "json").json
    assert deleted["buffer_deleted"] == BUFFER
    assert wire.api("STREAM.NAMES")["streams"] == ["BACK", "ORDERS"]
