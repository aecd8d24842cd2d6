"""Captures of hours: the driver's side. The hours of a job are planned, read and committed together.

Invariant: an hour fails by itself. A job of several hours that fails as a whole is run again as two halves, until the
hour that fails is alone. Each job is planned from the catalog, so what was committed is not read again.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

from nats3_dagster.archive.captures.capture_log import CaptureLog
from nats3_dagster.archive.captures.commit import CaptureResult, commit
from nats3_dagster.archive.captures.consumers import record_consumers, record_where_complete
from nats3_dagster.archive.captures.hour_run import HourRun, OnError
from nats3_dagster.archive.captures.hour_windows import by_hour
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.captures.plan import CapturePlan, plan, uncovered
from nats3_dagster.archive.captures.read import Outcome
from nats3_dagster.archive.captures.task import HourFailure
from nats3_dagster.archive.source.observe import Source
from nats3_dagster.archive.stored import folder
from nats3_dagster.errors import Conflict, Nats3Error, SourceError, StreamChanged, from_json
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, SeqRange
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Another capture of the hour may commit first, and the next plan then asks for less. A third time is no coincidence.
ATTEMPTS = 3
# Runs the tasks of a plan; what they brought back in the order of the tasks, and the error that one ended with.
Perform = Callable[[CapturePlan], tuple[Sequence[Outcome | HourFailure], Nats3Error | None]]


def capture_hours(
    workspace: Workspace, archive: Archive, run: HourRun, perform: Perform, on_error: OnError, *, adopt: bool = False
) -> Iterator[tuple[CaptureResult, ...]]:
    """Make the hours of the run, ascending ones, complete as far as the stream goes now. Yields after each job the
    hours that it completed; an hour that failed is noted in the run. How each ended is noted in the catalog.

    Raises OperatorError for a bad hour, before anything is done."""
    for hour in run.hours:
        hour_start(hour)
    driver = _Driver(workspace, archive, run, perform, on_error, adopt)
    is_captured = False
    for results in driver.jobs():
        is_captured = is_captured or bool(results)
        yield results
    # Where every hour failed, what stopped them is told by their own error.
    if driver.source and is_captured:
        record_consumers(workspace, archive, driver.source.state)
    elif not run.hours:
        record_where_complete(workspace, archive)


class _Driver:
    """One run over hours."""

    def __init__(
        self, workspace: Workspace, archive: Archive, run: HourRun, perform: Perform, on_error: OnError, adopt: bool
    ) -> None:
        self._workspace, self._archive, self._run, self._perform = workspace, archive, run, perform
        self._on_error, self._adopt = on_error, adopt
        # Groups of hours to do, in the order of the hours. A job takes hours of the first group.
        self._waiting = deque([run.hours] if run.hours else ())
        # How often another capture's commit made an hour fail.
        self._conflicts = Counter[str]()
        self._captures = CaptureLog(workspace, archive)
        # As it was opened last, in a folder of the archive's own; None where none could be.
        self.source: Source | None = None

    def jobs(self) -> Iterator[tuple[CaptureResult, ...]]:
        while self._waiting and not self._run.is_general:
            hours = self._waiting.popleft()
            try:
                planned = self._plan(hours)
                yield self._capture(planned) if planned else ()
            except Exception as error:  # an unforeseen one
                self._captures.failed({hours[0]: error})
                raise

    def _plan(self, hours: tuple[str, ...]) -> CapturePlan | None:
        """A job of the first of the hours; the others are put back. None, and the first hour failed, if there is no
        plan: a second hour that fails alike ends the run."""
        try:
            self._captures.start()
            folder.require(self._workspace, self._archive)
            source = open_source(self._workspace, self._archive, adopt=self._adopt)
            planned = plan(self._workspace, source, hours)
            self.source = source
        except Nats3Error as error:
            self._put_back(hours[1:])
            self._fail(hours[:1], error)
            return None
        # Accepted once: a stream that is made again while this runs is another question to a person.
        self._adopt = False
        self._put_back(hours[len(planned.windows) :])
        fault_point("capture.planned")
        return planned

    def _capture(self, planned: CapturePlan) -> tuple[CaptureResult, ...]:
        """Read and commit; the hours that are complete."""
        catalog = self._workspace.catalog
        try:
            outcomes, task_error = self._perform(planned)
            failures = {o.hour: from_json(o.error) for o in outcomes if isinstance(o, HourFailure)}
            read = [o for o in outcomes if not isinstance(o, HourFailure)]
            results = commit(self._workspace, planned, read)
            # The run's own proof: the windows are covered now.
            missing = by_hour(planned.windows, uncovered(self._workspace, planned))
            if missing:
                catalog.archives.reread(planned.archive)  # deleted after the commit, and its chunks with it?
        except Nats3Error as error:
            self._fail_whole(planned.hours, error)
            return ()
        complete = [result for result in results if result.hour not in missing]
        timed = self._captures.completed(complete)
        for hour in planned.hours:
            if hour not in missing:
                self._run.succeed()
            elif hour in failures:
                self._fail([hour], failures[hour])
            elif task_error is None:
                self._fail([hour], _incomplete(planned.archive, hour, missing[hour]))
        if task_error:
            self._fail_whole([hour for hour in missing if hour not in failures], task_error)
        return timed

    def _fail_whole(self, hours: Sequence[str], error: Nats3Error) -> None:
        """These hours are not complete, as a job or a task of it failed. One of them may be the cause."""
        if len(hours) > 1 and not isinstance(error, StreamChanged):
            middle = len(hours) // 2
            self._put_back(hours[middle:])
            self._put_back(hours[:middle])
        else:
            self._fail(hours, error)

    def _fail(self, hours: Sequence[str], error: Nats3Error) -> None:
        """Each of the hours failed. One that another capture committed first is planned again."""
        for hour in hours:
            self._conflicts[hour] += isinstance(error, Conflict)
            if 0 < self._conflicts[hour] < ATTEMPTS:
                self._put_back([hour])
            else:
                self._run.fail(hour, error, self._on_error)
        self._captures.failed({hour: error for hour in hours if self._run.errors.get(hour) is error})

    def _put_back(self, hours: Sequence[str]) -> None:
        if hours:
            self._waiting.appendleft(tuple(hours))


def _incomplete(archive: Archive, hour: str, missing: Sequence[SeqRange]) -> SourceError:
    return SourceError(
        f"Archive {archive.name} still misses {', '.join(map(str, missing[:3]))} of {hour}",
        Next.CAPTURE_HOUR(archive=archive.name, hour=hour),
    )
