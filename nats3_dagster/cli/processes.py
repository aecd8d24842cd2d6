"""The process in which the work of a command runs: on Spark in this one, or in one of its own that outlives the shell.

PySpark is imported here, and only when a command starts Spark: that takes half a second before Spark's own 3 to 5.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.cli.terminal.progress import note, progress_bar, step
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.errors import CatalogUnreachable, Nats3Error
from nats3_dagster.model import Archive, ExportResult, OnProgress
from nats3_dagster.replay.job import ReplayResult
from nats3_dagster.replay.launch import launched
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.keep.compaction import Compacted

T = TypeVar("T")
# Failed hours that are said while a command runs. Its last line counts them.
SAID = 20


def check_spark(settings: Settings) -> None:
    """Raises EngineError when Spark cannot be started here because there is no Java."""
    from nats3_dagster.pipeline.session import prepare

    prepare(settings.spark_master)


def capture_hours(
    settings: Settings, name: str, hours: Sequence[str], *, adopt: bool = False
) -> Iterator[CaptureResult]:
    """Capture hours of an archive, with a bar for each Spark job; what is given out is committed. An hour that fails
    does not stop the others. Raises Nats3Error at the end."""
    run = HourRun(hours)

    def with_bar(job: Sequence[str]) -> AbstractContextManager[OnProgress]:
        last = hours.index(job[-1]) + 1
        several = f"{job[0]} to {job[-1]}" if len(job) > 1 else job[0]
        return progress_bar(f"{name} {several} ({last:,} of {len(hours):,})", passing=last < len(hours))

    with _spark(settings) as spark:
        from nats3_dagster.pipeline.capture_run import run_captures

        for done in run_captures(spark, settings, name, run, _note_of(name, run), adopt=adopt, on_job=with_bar):
            yield from done
    run.raise_errors()


def export_hours(
    settings: Settings, archive: str, name: str, hours: Sequence[str], *, over_retired: bool = False
) -> Iterator[ExportResult]:
    """Export hours; what is given out is recorded. With `over_retired` chunks of the hours may have been deleted after
    a replay. Raises Nats3Error at the end."""
    with _spark(settings) as spark:
        from nats3_dagster.pipeline.export_run import export_hour

        def export(hour: str, on_progress: OnProgress) -> ExportResult:
            return export_hour(spark, settings, archive, name, hour, on_progress=on_progress, over_retired=over_retired)

        yield from _one_by_one(name, hours, export)


def _one_by_one(name: str, hours: Sequence[str], perform: Callable[[str, OnProgress], T]) -> Iterator[T]:
    """Do the hours one after the other, each with a bar. An hour that fails does not stop the others."""
    run, numbers = HourRun(hours), count(1)

    def with_bar(hour: str) -> T:
        number = next(numbers)
        with progress_bar(f"{name} {hour} ({number} of {len(hours)})", passing=number < len(hours)) as on_progress:
            return perform(hour, on_progress)

    for _, result in run.results(with_bar, _note_of(name, run)):
        yield result
    run.raise_errors()


def _note_of(name: str, run: HourRun) -> Callable[[str, Nats3Error], None]:
    """Returns the function that says that an hour failed, SAID of them at most; the error of a single one is the
    command's, and so is that of a catalog that is gone: the run ends with it."""

    def say(hour: str, error: Nats3Error) -> None:
        if isinstance(error, CatalogUnreachable):
            return
        if len(run.hours) > 1 and len(run.errors) <= SAID:
            note(f"{name} {hour} failed: {error.text_in(WORDS)}")
        elif len(run.errors) == SAID + 1:
            note(f"{name}: more hours fail")

    return say


def compact_hours(workspace: Workspace, archive: Archive, hours: Sequence[str]) -> "Iterator[Compacted]":
    """Compact hours of an archive, in Spark where they are many. An hour that fails does not stop the others. Raises
    Nats3Error at the end."""
    from nats3_dagster.pipeline.compact_run import run_compaction

    with ExitStack() as stack:
        yield from run_compaction(lambda: stack.enter_context(_spark(workspace.settings)), workspace, archive, hours)


def replay(settings: Settings, replay_id: str, launch: int | None = None) -> ReplayResult:
    """Publish what a recorded replay has not yet published, with a bar. `launch`: see launch.launched. Raises
    Nats3Error."""
    with launched(settings, replay_id, launch) as on_attempt, _spark(settings) as spark:
        from nats3_dagster.pipeline.replay_run import run_replay

        with progress_bar(f"replay {replay_id}") as on_progress:
            return run_replay(spark, settings, replay_id, on_progress=on_progress, on_attempt=on_attempt)


@contextmanager
def _spark(settings: Settings) -> Iterator[Any]:
    """The SparkSession of this process; it ends with the process. Raises EngineError."""
    with step("Starting Spark"):
        from nats3_dagster.pipeline.jvm import end
        from nats3_dagster.pipeline.session import start

        spark = start(settings.spark_master, settings.connect)
    try:
        yield spark
    except KeyboardInterrupt:
        end()
        raise
