"""What a capture leaves in Dagster's database: few events, and small ones."""

from typing import Any

from dagster import DagsterInstance

from nats3_dagster.hours import hour_of, parse_time
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.dagster.event_log import kept_of_run
from nats3_dagster_tests.support.dagster.runs import run
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.wire import Wire

# Of docs/operate.md, without what the daemon writes, and without lines of the log: a slow capture has more of them.
MOST_EVENTS, MOST_BYTES = 13, 17 * 1024


def test_a_capture_leaves_little(
    spark: Any, settings: Settings, wire: Wire, bucket: str, kept: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    for number in range(3):
        wire.publish([("ev.a", b"", b"%d" % n) for n in range(30)])
        hour = hour_of(parse_time(wire.state("EV")["last_ts"]))
        done = run(kept, "events_capture", tags={"dagster/partition": hour})
        assert {e.check_name: e.passed for e in done.get_asset_check_evaluations()} == {
            "no_gaps": True,
            "capture_keeps_up": True,
        }
        left = kept_of_run(settings.postgres, done.run_id)
        # The first one reports the state of the stream as well.
        first = number == 0
        assert left.count <= MOST_EVENTS + first, left
        assert left.bytes <= MOST_BYTES + 1024 * first, left
