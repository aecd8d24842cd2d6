"""Compaction: a sealed hour of many small chunks becomes one of few.

Invariant: an hour is as it was, or has other chunks of the same messages. The new objects are read again and proven
equal before the catalog has them; one transaction takes them in and the old ones out; the old objects stay for the time
of grace, until a sweep removes them. A process that dies in between leaves objects that no chunk has, which the next
compaction puts again, or an hour that the next seal seals.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nats3_dagster.archive.keep.merge import Merged, damaged
from nats3_dagster.archive.keep.merge_task import HourMerged, MergeTask, Perform, merge_hour
from nats3_dagster.archive.keep.runs import Run, runs_of
from nats3_dagster.archive.proof.failed_hours import FailedHours
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.errors import Conflict, Nats3Error, ObjectMissing, OperatorError, from_json
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk, ChunkMeta
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Hours of one Spark job. Those that a process has merged when it dies are merged again.
HOURS_AT_ONCE = 64
# How long an erasure of the archive may run meanwhile.
PATIENCE_S = 60.0
# From here on a JVM's start, 5 s, is less than what two tasks at a time save.
SPARK_FROM_HOURS = 200


@dataclass(frozen=True, slots=True)
class HourPlan:
    """The chunks of an hour that a compaction would merge."""

    hour: str
    # That of the archive with which the hour last changed.
    revision: int
    # The hour's live chunks.
    chunks: int
    runs: tuple[Run, ...]

    @property
    def after(self) -> int:
        """The hour's chunks afterwards; more where the stream's configuration or the filter changed in a run."""
        return self.chunks - sum(len(run) - 1 for run in self.runs)

    @property
    def merged(self) -> list[Chunk]:
        return [chunk for run in self.runs for chunk in run]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of an hour."""

    hour: str
    # The hour's live chunks before and after it.
    before: int
    after: int
    # Of the chunks that gave way, and of those in their place: sizes as stored, in bytes.
    old_bytes: int = 0
    new_bytes: int = 0
    messages: int = 0
    new: tuple[ChunkMeta, ...] = field(default=(), repr=False)


def due_hours(workspace: Workspace, archive: Archive, limit: int = 1_000_000) -> tuple[str, ...]:
    """The sealed hours that the archive's policy lets compact now, ascending; none without a policy. One question to
    the catalog."""
    after_s = archive.spec.compact_after_s
    if not after_s:
        return ()
    before = workspace.catalog.now() - timedelta(seconds=after_s)
    return workspace.catalog.compaction.due(archive, before, limit=limit)


def sealed_hours(
    workspace: Workspace, archive: Archive, first: str | None = None, last: str | None = None
) -> tuple[str, ...]:
    """All sealed hours from first to last that may have chunks to merge, ascending."""
    now: datetime = workspace.catalog.now()
    return workspace.catalog.compaction.due(archive, now, first=first, last=last)


def plan(workspace: Workspace, archive: Archive, hour: str) -> HourPlan:
    """The compaction of an hour, by the catalog alone. Raises OperatorError for an hour that is not sealed, or from
    which a replay deleted chunks."""
    row = workspace.catalog.compaction.hour(archive, hour)
    if not row.is_sealed:
        raise OperatorError(
            f"Hour {hour} of archive {archive.name} is not sealed, or changed since",
            Next.SEAL_HOURS(archive=archive.name),
        )
    if row.has_retired:
        raise OperatorError(
            f"Chunks of hour {hour} of archive {archive.name} were deleted after a replay, and its exports count the "
            "others",
            "Leave it as it is",
        )
    chunks = workspace.catalog.chunks.select(archive, hours=[hour], with_deleted=True, with_minutes=False)
    return HourPlan(hour, row.revision, len(chunks), tuple(runs_of(chunks, archive.spec.compact_below)))


def compact_hours(
    workspace: Workspace, archive: Archive, hours: Iterable[str], perform: Perform | None = None
) -> Iterator[Compacted]:
    """Compact each of the hours. One that fails does not stop the others: at the end the first error is raised, naming
    each hour that failed. `perform` merges many hours at once; without it this process merges them, one by one.

    Raises OperatorError as `plan`; ChunkError if an object is not as it was written; Conflict if an hour changes
    meanwhile; StoreError; what ended a task; and at once when the catalog does not answer, or the archive does not own
    its folder."""
    failures = FailedHours(archive.name, "compacted")
    hours = tuple(hours)
    if hours:
        folder.require(workspace, archive)
    at_once = HOURS_AT_ONCE if perform else 1
    for at in range(0, len(hours), at_once):
        # What is read before an erasure must not be written after it.
        with workspace.catalog.locks.rewriting(archive, PATIENCE_S):
            some = hours[at : at + at_once]
            done = list(_compact(workspace, archive, some, perform or _here(workspace), failures))
        yield from done
    if len(failures.errors) == 1 and isinstance(error := failures.errors[0][1], OperatorError):
        raise error  # it names the hour
    failures.raise_first()


def _here(workspace: Workspace) -> Perform:
    return lambda tasks: ([merge_hour(task, workspace.bucket) for task in tasks], None)


def _compact(
    workspace: Workspace, archive: Archive, hours: Sequence[str], perform: Perform, failures: FailedHours
) -> Iterator[Compacted]:
    """Compact these hours; those that fail are added to `failures`."""
    begun, plans = workspace.catalog.now(), dict[str, HourPlan]()
    for hour in hours:
        with _noted(hour, failures):
            plans[hour] = plan(workspace, archive, hour)
    fault_point("compact.planned")
    store = workspace.settings.store
    records = tuple(sorted(row.digest for row in workspace.catalog.erasures.all(archive)))
    tasks = [MergeTask(archive.spec, store, one.hour, one.runs, records) for one in plans.values() if one.runs]
    outcomes, ended = perform(tasks) if tasks else ((), None)
    done = {one.hour: one for one in outcomes}
    for hour, planned in plans.items():
        outcome = done.get(hour)
        if planned.runs and outcome is None:
            assert ended
            failures.add(hour, ended)
            continue
        with _noted(hour, failures):
            yield _committed(workspace, archive, planned, outcome, begun)


@contextmanager
def _noted(hour: str, failures: FailedHours) -> Generator[None]:
    """Adds a failure of the hour to `failures`. One of the catalog is no hour's, and is raised."""
    try:
        yield
    except Nats3Error as error:
        if error.ends_all:
            raise
        failures.add(hour, error)


def _committed(
    workspace: Workspace, archive: Archive, planned: HourPlan, outcome: HourMerged | None, begun: datetime
) -> Compacted:
    """The hour with its merged chunks in the catalog, and sealed again. `outcome`: None where nothing was merged."""
    compaction, hour = workspace.catalog.compaction, planned.hour
    merged = outcome.merged if outcome else ()
    try:
        if outcome and outcome.error:
            raise _error_of(workspace, archive, planned, outcome)
        if merged:
            pairs = [(one.old, one.meta) for one in merged]
            compaction.swap(archive, hour, pairs, begun=begun)
    except Nats3Error as error:
        if error.ends_all:
            raise  # nothing says whether they were committed: the next compaction finds them
        # None that another compaction has committed meanwhile: the catalog does not give it out.
        for meta in outcome.put if outcome else ():
            remove_objects(workspace, meta.bucket, [meta.key])
        raise
    if not merged:
        compaction.mark(archive, hour, planned.revision)
        return Compacted(hour, planned.chunks, planned.chunks)
    fault_point("compact.swapped")
    result, row = _result(planned, merged), compaction.hour(archive, hour)
    for _ in seal_hours(workspace, archive, [hour]):
        fault_point("compact.sealed")
    # What came into it meanwhile may be small: then another compaction is due.
    if row.chunks == result.after:
        compaction.mark(archive, hour, row.revision)
    return result


def _error_of(workspace: Workspace, archive: Archive, planned: HourPlan, outcome: HourMerged) -> Nats3Error:
    """The error of an hour that could not be merged. An object that is not there was removed with its chunk, or is
    lost."""
    assert outcome.error
    error = from_json(outcome.error)
    if not isinstance(error, ObjectMissing):
        return error
    if any(workspace.catalog.points.chunk(chunk.id) is None for chunk in planned.merged):
        return Conflict(
            f"Chunks of hour {planned.hour} of archive {archive.name} were taken out meanwhile",
            Next.COMPACT(archive=archive.name),
        )
    return damaged(archive.name, error)


def _result(planned: HourPlan, merged: Sequence[Merged]) -> Compacted:
    gone = {chunk_id for one in merged for chunk_id in one.old}
    old = [chunk.meta for chunk in planned.merged if chunk.id in gone]
    new = tuple(one.meta for one in merged)
    return Compacted(
        planned.hour,
        before=planned.chunks,
        after=planned.chunks - len(old) + len(new),
        old_bytes=sum(meta.stored_bytes for meta in old),
        new_bytes=sum(meta.stored_bytes for meta in new),
        messages=sum(meta.messages for meta in new),
        new=new,
    )
