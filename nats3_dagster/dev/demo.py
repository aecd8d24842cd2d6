"""The demo: this host's log lines through the whole path and back, compared message by message.

The rule kept here: it goes the way a user goes. The capture and the replay are Dagster jobs, run by `dagster job
execute` in processes of their own, as from a shell or from CI.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from nats3_dagster.archive.create import create
from nats3_dagster.archive.windows import hours_to_capture
from nats3_dagster.catalog import Catalog, migrate
from nats3_dagster.dev.compare import compare
from nats3_dagster.dev.history import NEEDS, Past, restore_stream
from nats3_dagster.dev.loglines import as_messages, read_lines
from nats3_dagster.dev.publish import publish_live
from nats3_dagster.dev.stack import Stack
from nats3_dagster.errors import EngineError
from nats3_dagster.hours import HOUR_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import create_stream, delete_stream, server_info, stream_names, stream_state
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.objects import bucket_exists, create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace

STREAM, TARGET, ARCHIVE, BUCKET = "LOGS", "LOGS_REPLAY", "logs", "nats3-demo"
READ, WRITE = "logs.>", "replay.logs.>"
HOURS = 48
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo saw. `seconds` are wall times of whole steps, process starts included."""

    server: str
    messages: int
    distinct_lines: int
    hours: int
    chunks: int
    payload_bytes: int
    stored_bytes: int
    replayed: int
    mismatches: int
    publish_s: float
    capture_s: float
    replay_s: float
    compare_s: float

    @property
    def ok(self) -> bool:
        return self.mismatches == 0 and self.messages == self.replayed > 0


def run_demo(messages: int = 60_000, *, log: Path | None = None, told: Told = lambda *_: None) -> DemoResult:
    """Run the demo on the stack under `.nats3/`, which it starts and leaves running. Raises Nats3Error.

    `told(step, done, total)` hears how far each long step is; `total` 0 means that it is not known."""
    stack = Stack().start(lambda name: told(f"start {name}", 0, 0))
    os.environ.update(stack.endpoints.environment)
    settings = Settings.load()
    migrate(settings.postgres)
    lines = read_lines(messages, *(((), (log,)) if log else ()))
    with Workspace(settings) as workspace:
        link, catalog = workspace.link, workspace.catalog
        version = server_info(link).version
        _clean(link, catalog, settings)
        with _timed() as publish:
            _publish(settings, link, lines, messages, version, told)
        spec = ArchiveSpec(name=ARCHIVE, stream=STREAM, bucket=BUCKET)
        archive = create(workspace, spec)
        state = stream_state(link, STREAM)
        wanted = hours_to_capture(workspace, archive, state)

        tags = {"dagster/asset_partition_range_start": wanted[0], "dagster/asset_partition_range_end": wanted[-1]}
        with _timed() as capture:
            job = _dagster_job(f"{ARCHIVE}_capture", "--tags", json.dumps(tags))
            for _ in job:
                told("capture", sum(c.meta.messages for c in catalog.chunks.select(archive)), state.messages)
        chunks = catalog.chunks.select(archive)

        selection = {"archive": ARCHIVE, "read_subject": READ, "write_subject": WRITE}
        config = {"ops": {"replay_window": {"config": selection}}}
        target = {"name": TARGET, "subjects": [WRITE], "storage": "file"}
        create_stream(link, target | ({"allow_batched": True} if version >= (2, 14) else {}))
        with _timed() as replay, tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "replay.yaml")
            file.write_text(json.dumps(config))  # JSON is YAML
            for _ in _dagster_job("replay", "-c", str(file)):
                told("replay", stream_state(link, TARGET).messages, state.messages)
    told("compare", 0, 0)
    with _timed() as comparing:
        compared = compare(settings.nats, STREAM, TARGET, Transform(READ, WRITE))
    return DemoResult(
        server=".".join(map(str, version)),
        messages=compared.source,
        distinct_lines=len({line for _, line in lines}),
        hours=len({c.meta.hour for c in chunks}),
        chunks=len(chunks),
        payload_bytes=sum(c.meta.payload_bytes for c in chunks),
        stored_bytes=sum(c.meta.stored_bytes for c in chunks),
        replayed=compared.target,
        mismatches=compared.mismatches,
        publish_s=publish[0],
        capture_s=capture[0],
        replay_s=replay[0],
        compare_s=comparing[0],
    )


def _clean(link: Link, catalog: Catalog, settings: Settings) -> None:
    """Remove what an earlier demo left, and nothing else."""
    for name in set(stream_names(link)) & {STREAM, TARGET}:
        delete_stream(link, name)
    for archive in catalog.archives.all():
        if archive.name == ARCHIVE:
            catalog.archives.delete(ARCHIVE)
    if not bucket_exists(settings.store, BUCKET):
        create_bucket(settings.store, BUCKET)


def _publish(
    settings: Settings, link: Link, lines: list[tuple[str, bytes]], count: int, version: tuple[int, ...], told: Told
) -> None:
    """Fill the stream: over the last HOURS hours where the server can restore a past, else now."""
    config = {"allow_direct": True} if version >= (2, 10) else {}
    if version >= NEEDS:
        until = time.time_ns() // HOUR_NS * HOUR_NS
        messages = _counted(as_messages(lines, count, until, HOURS), count, lambda n: told("publish", n, count))
        restore_stream(link, STREAM, [READ], messages, **config)
        return
    create_stream(link, {"name": STREAM, "subjects": [READ], "storage": "file", **config})
    publish_live(settings.nats, as_messages(lines, count, time.time_ns(), 1), lambda n: told("publish", n, count))


def _dagster_job(name: str, *arguments: str) -> Iterator[None]:
    """Run a job as a shell would, and yield until it ends. Raises EngineError with the end of its output."""
    command = [
        sys.executable,
        "-m",
        "dagster",
        "job",
        "execute",
        "-m",
        "nats3_dagster.definitions",
        "-j",
        name,
        *arguments,
    ]
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


def _counted(messages: Iterator[Past], every: int, tell: Callable[[int], None]) -> Iterator[Past]:
    for count, message in enumerate(messages, 1):
        yield message
        if count % 5000 == 0 or count == every:
            tell(count)


@contextmanager
def _timed() -> Iterator[list[float]]:
    """A list that holds the seconds of the block when it has ended."""
    took: list[float] = []
    began = time.monotonic()
    yield took
    took.append(round(time.monotonic() - began, 2))


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
