"""A replay killed with -9 and resumed after the target's duplicate window: nothing lost or doubled."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.runs import archive_events, capture_all
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
MESSAGES = 24_000


def republish(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "spark" / "republish.py"), *arguments],
        env=os.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("batched", [False, pytest.param(True, marks=pytest.mark.needs_nats("2.14"))])
def test_killed_in_the_middle_and_resumed_after_the_duplicate_window(
    batched: bool, spark: SparkSession, settings: Settings, nats: NatsServer, bucket: str
) -> None:
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish([(f"ev.{n % 7}", b"NATS/1.0\r\nN: %d\r\n\r\n" % n, b"x" * 200) for n in range(MESSAGES)])
        archive_events(settings, bucket)
        capture_all(spark, settings, wire)
        more = {"allow_batched": True} if batched else {}
        wire.create_stream("BACK", "back.>", duplicate_window=1_000_000_000, **more)
        with republish("events", "--read-subject", "ev.>", "--write-subject", "back.>", "--rate", "8000") as process:
            assert process.stdout is not None
            replay = json.loads(process.stdout.readline())["replay"]
            while wire.state("BACK")["messages"] < MESSAGES // 6:
                assert process.poll() is None
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
        had = wire.quiet("BACK", 1.5)
        assert MESSAGES // 6 <= had < MESSAGES
        with republish("--resume", replay) as process:
            output, _ = process.communicate(timeout=90)
        done = json.loads(output.splitlines()[-1])
        assert (done["attempt"], done["published"] + done["found"]) == (2, MESSAGES)
        # More may have arrived between our look and the fence, never less.
        assert had <= done["found"] < MESSAGES
        assert wire.state("BACK")["messages"] == MESSAGES
        numbers = [int(m.headers.split(b"\r\nN: ")[1].split(b"\r\n")[0]) for m in wire.messages("BACK")]
        assert numbers == list(range(MESSAGES))
