"""What acceptance tests tell again and again: messages that are hard to keep, an archive, its capture, the way back."""

import random
import re
from typing import Any

from pyspark.sql import SparkSession

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.hours import hour_of, parse_time
from nats3_dagster.model import ArchiveSpec, ReplaySpec
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.replay.begin import begin
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Message, Wire

Sent = tuple[str, bytes, bytes]
_ADDED = re.compile(
    rb"^NATS/1\.0\r\n(?:Nats-Batch-(?:Id|Sequence|Commit): [^\r]*\r\n)*Nats3-Replay: [^\r]*\r\n"
    rb"(?:(?:Nats3-(?:Stream|Incarnation|Sequence|Time)|Nats-(?:Expected-Last-)?Msg-Id): [^\r]*\r\n)*"
)


def strange_messages(count: int, seed: int = 7) -> list[Sent]:
    """(subject, header block, payload): repeated keys, `Status`, no UTF-8, empty values, large blocks."""
    rng = random.Random(seed)
    blocks = [
        b"",
        b"NATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n",
        b"NATS/1.0\r\nStatus: 404\r\n\r\n",
        b"NATS/1.0\r\nX:\r\n\r\n",
        b"NATS/1.0\r\nBytes: \xff\xfe\x80\r\n\r\n",
        b"NATS/1.0\r\nBig: " + b"x" * 60_000 + b"\r\n\r\n",
        b"NATS/1.0\r\nNoSpace:y\r\nTrailing: z  \r\n\r\n",
    ]
    weights = [90, 10, 5, 5, 5, 0.1, 5]
    subjects = ["ev.a", "ev.b.c", "ev.ü.x", "ev.b.d", "ev." + "long" * 20]
    return [
        (rng.choice(subjects), rng.choices(blocks, weights)[0], rng.randbytes(rng.choice([0, 1, 10, 100, 300, 5000])))
        for _ in range(count)
    ]


def archive_events(
    settings: Settings, bucket: str, name: str = "events", stream: str = "EV", **spec: Any
) -> ArchiveSpec:
    """Create an archive of the stream."""
    made = ArchiveSpec(name=name, stream=stream, bucket=bucket, **spec)
    with Workspace(settings) as workspace:
        create(workspace, made)
    return made


def hours_of(wire: Wire, stream: str) -> list[str]:
    """The hours in which the stream's first and last message lie: two, when a test crosses an hour."""
    state = wire.state(stream)
    return sorted({hour_of(parse_time(state[end])) for end in ("first_ts", "last_ts")})


def capture_all(
    spark: SparkSession, settings: Settings, wire: Wire, name: str = "events", stream: str = "EV"
) -> list[CaptureResult]:
    """Capture the hours of the stream."""
    return [run_capture(spark, settings, name, hour) for hour in hours_of(wire, stream)]


def begin_replay(settings: Settings, spec: ReplaySpec) -> str:
    """Record a replay; its id."""
    with Workspace(settings) as ws:
        return begin(ws, spec)[0].id


def came_back(message: Message, prefix: str = "back.", was: str = "ev.") -> Sent:
    """A replayed message without what the replay added, under its old subject. Fails when nothing was added."""
    headers, count = _ADDED.subn(b"NATS/1.0\r\n", message.headers)
    assert count == 1, message
    return was + message.subject.removeprefix(prefix), b"" if headers == b"NATS/1.0\r\n\r\n" else headers, message.data
