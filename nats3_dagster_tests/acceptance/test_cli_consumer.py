"""`nats3 store` of an archive that takes messages: created, run on Spark, replayed, deleted."""

import pytest

from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire


@pytest.mark.steady_hour(60)
def test_a_work_queue_is_archived_and_replayed(nats3: Command, settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    create = ("store", "create", "--name", "jobs", "--stream", "JOBS", "--bucket", bucket)
    assert "Let the archive take them through a consumer of its own: --mode consumer" in nats3.refused(*create)
    made = nats3.ok(*create, "--mode", "consumer", "-o", "json").json
    assert (made["mode"], made["consumer"]) == ("consumer", "nats3-jobs")
    sent = [("jobs.a", b"NATS/1.0\r\nN: %d\r\n\r\n" % n, b"%d" % n) for n in range(3000)]
    wire.publish(sent)
    assert nats3.ok("store", "get", "jobs", "-o", "json").json["lag"] == 3000
    (ran,) = nats3.ok("store", "run", "jobs", "-o", "json").json
    assert ran["messages"] == 3000
    assert wire.state("JOBS")["messages"] == 0
    view = nats3.ok("store", "get", "jobs", "-o", "json").json
    assert (view["lag"], view["messages"], view["losses"]) == (0, 3000, {})
    assert nats3.ok("store", "run", "jobs", "-o", "json").json == []
    replay = ("load", "create", "--archive", "jobs", "--write-subject", "back.>", "--create-stream", "BACK")
    nats3.ok(*replay)
    assert [m.data for m in wire.messages("BACK")] == [data for _, _, data in sent]
    deleted = nats3.ok("store", "delete", "jobs", "--yes", "-o", "json").json
    assert deleted["consumer_deleted"] == "nats3-jobs"
    assert wire.state("JOBS")["consumer_count"] == 0
