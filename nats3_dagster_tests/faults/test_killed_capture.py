"""A capture killed with -9 at each step of its way, then run again: complete, and nothing doubled."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.model import SeqRange
from nats3_dagster.objects import Bucket
from nats3_dagster.settings import Settings
from nats3_dagster_tests.acceptance.stories import archive_events, hours_of
from nats3_dagster_tests.faults.killable import STEPS
from nats3_dagster_tests.wire import Wire

MESSAGES = 9000


def run(hour: str, step: str) -> int:
    """Capture the hour in a process of its own that kills itself at the step; its exit code."""
    command = [sys.executable, "-m", "nats3_dagster_tests.faults.killable", "events", hour, step]
    return subprocess.run(command, cwd=Path(__file__).parents[2], env=os.environ, timeout=60).returncode


@pytest.mark.parametrize("step", STEPS)
def test_a_capture_killed_at(step: str, settings: Settings, nats: NatsServer, bucket: str) -> None:
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish([("ev.a", b"", b"%d" % n) for n in range(MESSAGES)])
        hours = hours_of(wire, "EV")
        archive_events(settings, bucket)
        assert run(hours[-1], step) == -signal.SIGKILL
        assert [run(hour, "never") for hour in hours] == [0] * len(hours)
        state = wire.state("EV")
        consumers = state["consumer_count"]
    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.get("events")
        chunks = catalog.chunks.select(archive)
        incarnation = chunks[0].meta.incarnation
        assert catalog.coverage.missing(archive, incarnation, SeqRange(1, MESSAGES)) == ()
        assert sum(c.meta.messages for c in chunks) == MESSAGES
        assert catalog.gaps.select(archive) == ()
    # The same range and bytes give the same key: what the killed run had put is found again, not put beside.
    assert {key for key, _ in Bucket(settings.store, bucket).list()} == {c.meta.key for c in chunks}
    # A killed reader's consumer goes by its own inactivity; no other may stay.
    assert consumers <= 1
