"""The demo: this host's log lines into an archive and back into another stream, compared message by message.

It does what a user does: the capture and the replay are Dagster jobs, run by `dagster job execute` in processes of
their own, as from a shell or from CI.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.windows import hours_to_capture
from nats3_dagster.archive.status import holdings
from nats3_dagster.defs.jobs.run_times import run_times
from nats3_dagster.dev.compare import compare
from nats3_dagster.dev.demo_names import Names, free_names
from nats3_dagster.dev.demo_report import DemoResult
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.dev.loglines import as_messages, read_lines
from nats3_dagster.dev.publish import publish_live
from nats3_dagster.dev.stack import Stack
from nats3_dagster.errors import EngineError
from nats3_dagster.hours import HOUR_NS, SECOND_NS
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.streams import create_stream, stream_state
from nats3_dagster.model import ArchiveSpec, ArchiveTotals
from nats3_dagster.pipeline.java import find_java
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace

BUCKET = "nats3-demo"
HOURS = 48
# Tag of a run: the step of a demo that it is.
_TAG = "nats3/demo"
OnStep = Callable[[str, int, int], None]
P = ParamSpec("P")
T = TypeVar("T")


def run_demo(messages: int = 60_000, *, on_step: OnStep = lambda *_: None) -> DemoResult:
    """Run the demo on the stack under `.nats3/`, which it starts and leaves running. Raises Nats3Error.

    DAGSTER_HOME names the instance that has the runs. `on_step` is called with (step, done, total) while a step runs;
    total 0: not known."""
    find_java()  # before anything is made: the runs need it
    stack = Stack().start(lambda step: on_step(step, 0, 0))
    os.environ.update(stack.endpoints.environment)
    settings = Settings.load()
    lines = read_lines(messages)
    with Workspace(settings) as workspace:
        names = free_names(workspace)
        _, publish_s = _timed(_publish, workspace, names, lines, messages, on_step)
        create(workspace, ArchiveSpec(name=names.archive, stream=names.stream, bucket=BUCKET), create_bucket=True)
        capture_run, capture_s = _timed(_capture, workspace, names, on_step)
        replay_run, replay_s = _timed(_replay, workspace, names, on_step)
        totals, hours = _totals(workspace, names), holdings(workspace, names.archive).hours
        server = ".".join(map(str, server_info(workspace.link).version))
        replayed = stream_state(workspace.link, names.target)
    on_step("compare", 0, 0)
    transform = Transform(names.read, names.write)
    comparison, compare_s = _timed(compare, settings.nats, names.stream, names.target, transform)
    return DemoResult(
        names=names,
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
        capture_times=run_times(_TAG, capture_run),
        replay_times=run_times(_TAG, replay_run),
        replay_messages_s=round((replayed.last_ns - replayed.first_ns) / SECOND_NS, 3),
    )


def _publish(workspace: Workspace, names: Names, lines: list[tuple[str, bytes]], total: int, on_step: OnStep) -> None:
    """Fill the stream: over the last HOURS hours where the server can restore a past, else now."""

    def on_count(count: int) -> None:
        on_step("publish", count, total)

    if server_info(workspace.link).restores_streams:
        until_ns = time.time_ns() // HOUR_NS * HOUR_NS
        messages = _counted(as_messages(lines, total, until_ns, HOURS, names.archive), total, on_count)
        restore_stream(workspace.link, names.stream, [names.read], messages)
        return
    create_stream(workspace.link, {"name": names.stream, "subjects": [names.read], "storage": "file"})
    publish_live(workspace.settings.nats, as_messages(lines, total, time.time_ns(), 1, names.archive), on_count)


def _capture(workspace: Workspace, names: Names, on_step: OnStep) -> str:
    """Capture the whole stream in one run; the value of its tag."""
    state = stream_state(workspace.link, names.stream)
    hours = hours_to_capture(workspace, workspace.catalog.archives.get(names.archive), state)
    run = secrets.token_hex(8)
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[-1], _TAG: run}
    for _ in _dagster_job(f"{names.archive}_capture", "--tags", json.dumps(tags)):
        on_step("capture", _totals(workspace, names).messages, state.messages)
    return run


def _replay(workspace: Workspace, names: Names, on_step: OnStep) -> str:
    """Replay the whole archive into a new stream, by fast-ingest batches where the server has them; the value of the
    run's tag."""
    target = {"name": names.target, "subjects": [names.write], "storage": "file", "allow_batched": True}
    create_stream(workspace.link, target)
    total = _totals(workspace, names).messages
    config = {"archive": names.archive, "read_subject": names.read, "write_subject": names.write}
    run = secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "replay.yaml")
        file.write_text(json.dumps({"ops": {"replay_window": {"config": config}}}))  # JSON is YAML
        for _ in _dagster_job("replay", "-c", str(file), "--tags", json.dumps({_TAG: run})):
            on_step("replay", stream_state(workspace.link, names.target).messages, total)
    return run


def _totals(workspace: Workspace, names: Names) -> ArchiveTotals:
    """The sums over the archive's chunks."""
    return next(totals for totals in workspace.catalog.archives.totals() if totals.archive.name == names.archive)


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
