"""The demo: this host's log lines into an archive and back into another stream, compared message by message.

It does what a user does: the capture and the replay are Dagster jobs, run by `dagster job execute` in processes of
their own, as from a shell or from CI.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from nats3_dagster.archive.create import create
from nats3_dagster.archive.remove import delete
from nats3_dagster.archive.status import archives, find, find_or_none, holdings
from nats3_dagster.archive.windows import hours_to_capture
from nats3_dagster.dev.compare import compare
from nats3_dagster.dev.history import RESTORE_SINCE, Past, restore_stream
from nats3_dagster.dev.loglines import as_messages, read_lines
from nats3_dagster.dev.publish import publish_live
from nats3_dagster.dev.stack import Stack
from nats3_dagster.errors import EngineError
from nats3_dagster.hours import HOUR_NS
from nats3_dagster.jetstream.streams import create_stream, delete_stream, server_info, stream_names, stream_state
from nats3_dagster.model import ArchiveSpec, ArchiveTotals
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace

STREAM, TARGET, ARCHIVE, BUCKET = "LOGS", "LOGS_REPLAY", "logs", "nats3-demo"
READ, WRITE = "logs.>", "replay.logs.>"
HOURS = 48
OnStep = Callable[[str, int, int], None]
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo measured. The seconds are wall times of whole steps, process starts included."""

    # The version of nats-server.
    server: str
    # Messages published, and how many of their lines differ.
    messages: int
    distinct_lines: int
    # Of the archive: hours with messages, chunks, bytes of all messages and of all objects.
    hours: int
    chunks: int
    payload_bytes: int
    stored_bytes: int
    # Messages in the target stream.
    replayed: int
    # Messages that differ, or that only one of the streams has.
    mismatches: int
    publish_s: float
    capture_s: float
    replay_s: float
    compare_s: float

    @property
    def ok(self) -> bool:
        return self.mismatches == 0 and self.messages == self.replayed > 0


def run_demo(messages: int = 60_000, *, on_step: OnStep = lambda *_: None) -> DemoResult:
    """Run the demo on the stack under `.nats3/`, which it starts and leaves running. Raises Nats3Error.

    `on_step` is called with (step, done, total) while a step runs; total 0: not known."""
    stack = Stack().start(lambda name: on_step(f"start {name}", 0, 0))
    os.environ.update(stack.endpoints.environment)
    settings = Settings.load()
    lines = read_lines(messages)
    with Workspace(settings) as workspace:
        _clean(workspace)
        _, publish_s = _timed(_publish, workspace, lines, messages, on_step)
        create(workspace, ArchiveSpec(name=ARCHIVE, stream=STREAM, bucket=BUCKET), create_bucket=True)
        _, capture_s = _timed(_capture, workspace, on_step)
        _, replay_s = _timed(_replay, workspace, on_step)
        totals, hours = _totals(workspace), holdings(workspace, ARCHIVE).hours
        server = ".".join(map(str, server_info(workspace.link).version))
    on_step("compare", 0, 0)
    comparison, compare_s = _timed(compare, settings.nats, STREAM, TARGET, Transform(READ, WRITE))
    return DemoResult(
        server=server,
        messages=comparison.source,
        distinct_lines=len({line for _, line in lines}),
        hours=hours,
        chunks=totals.chunks,
        payload_bytes=totals.payload_bytes,
        stored_bytes=totals.stored_bytes,
        replayed=comparison.target,
        mismatches=comparison.mismatches,
        publish_s=publish_s,
        capture_s=capture_s,
        replay_s=replay_s,
        compare_s=compare_s,
    )


def _clean(workspace: Workspace) -> None:
    """Delete the streams and the archive of an earlier demo, and nothing else."""
    for name in {STREAM, TARGET}.intersection(stream_names(workspace.link)):
        delete_stream(workspace.link, name)
    if find_or_none(workspace, ARCHIVE):
        delete(workspace, ARCHIVE)


def _publish(workspace: Workspace, lines: list[tuple[str, bytes]], total: int, on_step: OnStep) -> None:
    """Fill the stream: over the last HOURS hours where the server can restore a past, else now."""

    def on_count(count: int) -> None:
        on_step("publish", count, total)

    if server_info(workspace.link).version >= RESTORE_SINCE:
        until_ns = time.time_ns() // HOUR_NS * HOUR_NS
        messages = _counted(as_messages(lines, total, until_ns, HOURS), total, on_count)
        restore_stream(workspace.link, STREAM, [READ], messages)
        return
    create_stream(workspace.link, {"name": STREAM, "subjects": [READ], "storage": "file"})
    publish_live(workspace.settings.nats, as_messages(lines, total, time.time_ns(), 1), on_count)


def _capture(workspace: Workspace, on_step: OnStep) -> None:
    """Capture the whole stream in one run."""
    state = stream_state(workspace.link, STREAM)
    hours = hours_to_capture(workspace, find(workspace, ARCHIVE), state)
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[-1]}
    for _ in _dagster_job(f"{ARCHIVE}_capture", "--tags", json.dumps(tags)):
        on_step("capture", _totals(workspace).messages, state.messages)


def _replay(workspace: Workspace, on_step: OnStep) -> None:
    """Replay the whole archive into a new stream, by fast-ingest batches where the server has them."""
    target = {"name": TARGET, "subjects": [WRITE], "storage": "file", "allow_batched": True}
    create_stream(workspace.link, target)
    total = _totals(workspace).messages
    config = {"archive": ARCHIVE, "read_subject": READ, "write_subject": WRITE}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "replay.yaml")
        file.write_text(json.dumps({"ops": {"replay_window": {"config": config}}}))  # JSON is YAML
        for _ in _dagster_job("replay", "-c", str(file)):
            on_step("replay", stream_state(workspace.link, TARGET).messages, total)


def _totals(workspace: Workspace) -> ArchiveTotals:
    """The sums over the archive's chunks."""
    return next(totals for totals in archives(workspace) if totals.archive.name == ARCHIVE)


def _dagster_job(name: str, *arguments: str) -> Iterator[None]:
    """Run a job as a shell would, and yield until it ends. Raises EngineError with the end of its output."""
    dagster = [sys.executable, "-m", "dagster"]
    command = [*dagster, "job", "execute", "-m", "nats3_dagster.definitions", "-j", name, *arguments]
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:
            try:
                while process.poll() is None:
                    time.sleep(0.2)
                    yield
            finally:
                if process.poll() is None:
                    process.terminate()
        if process.returncode:
            output.seek(0)
            tail = output.read().decode(errors="replace").splitlines()[-15:]
            raise EngineError(
                f"The Dagster job {name} failed:\n" + "\n".join(tail), "Look at the run in the Dagster UI"
            )


def _counted(messages: Iterator[Past], total: int, on_count: Callable[[int], None]) -> Iterator[Past]:
    """The same messages; `on_count` is called with their number now and then, and at the end."""
    for count, message in enumerate(messages, 1):
        yield message
        if count % 5000 == 0 or count == total:
            on_count(count)


def _timed(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, float]:
    """The result of a step and its seconds."""
    began = time.monotonic()
    result = step(*args, **kwargs)
    return result, round(time.monotonic() - began, 2)


def as_rows(result: DemoResult) -> list[tuple[str, str]]:
    """The table that the demo prints."""
    ratio = result.payload_bytes / max(result.stored_bytes, 1)
    return [
        ("nats-server", result.server),
        ("messages", f"{result.messages:,} ({result.distinct_lines:,} distinct log lines of this host)"),
        ("hours", str(result.hours)),
        ("chunks", str(result.chunks)),
        ("payload bytes", f"{result.payload_bytes:,}"),
        ("stored bytes", f"{result.stored_bytes:,} (ratio {ratio:.1f})"),
        ("publish", _rate(result.messages, result.publish_s)),
        ("capture", _rate(result.messages, result.capture_s) + ", process and JVM start included"),
        ("replay", _rate(result.replayed, result.replay_s) + ", process and JVM start included"),
        ("mismatches", str(result.mismatches)),
    ]


def _rate(messages: int, seconds: float) -> str:
    return f"{messages / max(seconds, 0.001):,.0f} msg/s in {seconds:.1f} s"


def as_json(result: DemoResult) -> dict[str, object]:
    """The same for a program."""
    return {**asdict(result), "ok": result.ok}
