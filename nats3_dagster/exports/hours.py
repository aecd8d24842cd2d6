"""Hours of an export: which are due, and the record of each attempt.

Invariant: an hour is exported only while it is sealed, and recorded as it was before its first chunk was read: what
changes meanwhile makes it due again.
"""

from collections.abc import Callable, Sequence

from nats3_dagster.errors import CatalogError, Nats3Error, OperatorError
from nats3_dagster.exports.status import Listed, find, listed
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, ExportResult, ExportSpec
from nats3_dagster.model.export import Export, ExportHour, ExportTotals, Made
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# After n failures in a row the next try of a sensor waits for 30 s times 2^(n-1), up to 15 minutes.
FIRST_WAIT_S, LONGEST_WAIT_S = 30, 900


def due(
    workspace: Workspace, archive: Archive, export: Export, *, first: str | None = None, last: str | None = None
) -> tuple[ExportHour, ...]:
    """The hours from `first` to `last` that are sealed and were not exported as they are, ascending; also those that
    failed."""
    return tuple(one for one in workspace.catalog.exports.hours(archive, export, first=first, last=last) if one.is_due)


def one_hour(workspace: Workspace, archive: Archive, export: Export, hour: str) -> ExportHour | None:
    """The hour as the catalog has it; None where it is not sealed and was not exported."""
    return next(iter(workspace.catalog.exports.hours(archive, export, first=hour, last=hour)), None)


def states(workspace: Workspace, archive_name: str | None = None) -> tuple[tuple[Listed, tuple[ExportHour, ...]], ...]:
    """The exports of an archive, or of all, each with its hours. Raises OperatorError when there is no such archive."""
    return tuple(
        (one, workspace.catalog.exports.hours(one.archive, one.export)) for one in listed(workspace, archive_name)
    )


def state_of(workspace: Workspace, archive_name: str, name: str) -> tuple[Listed, tuple[ExportHour, ...]]:
    """One export with its hours. Raises OperatorError when there is no such archive or export."""
    archive, export = find(workspace, archive_name, name)
    totals = workspace.catalog.exports.totals(archive).get(export.id, ExportTotals())
    return Listed(archive, export, totals), workspace.catalog.exports.hours(archive, export)


def wait_s(hour: ExportHour, now_s: float) -> float:
    """Seconds until a sensor tries the hour again; 0 or less: now."""
    if hour.failed is None:
        return 0.0
    wait = min(FIRST_WAIT_S * 2 ** min(hour.failed.times - 1, 10), LONGEST_WAIT_S)
    return wait - (now_s - hour.failed.at.timestamp())


def select_hours(
    workspace: Workspace,
    archive_name: str,
    name: str,
    *,
    hours: Sequence[str] = (),
    first: str | None = None,
    last: str | None = None,
    over_retired: bool = False,
) -> tuple[Archive, Export, tuple[ExportHour, ...]]:
    """The hours to export, ascending: the `hours`, exported before or not, else those from `first` to `last` that are
    due. Raises OperatorError for one of `hours` that is not sealed, or had chunks that were deleted after a replay
    unless `over_retired`; and when there is no such archive or export."""
    archive, export = find(workspace, archive_name, name)
    for hour in (*hours, *(bound for bound in (first, last) if bound)):
        hour_start(hour)
    if not hours:
        return archive, export, due(workspace, archive, export, first=first, last=last)
    known = {
        one.hour: one for one in workspace.catalog.exports.hours(archive, export, first=min(hours), last=max(hours))
    }
    chosen = sorted(set(hours))
    for hour in chosen:
        _check_retired(archive, export, known.get(hour), over_retired)
        _check_sealed(archive, hour, known.get(hour))
    return archive, export, tuple(known[hour] for hour in chosen)


def attempt(
    workspace: Workspace,
    archive: Archive,
    export: Export,
    hour: str,
    perform: Callable[[], ExportResult],
    *,
    over_retired: bool = False,
) -> ExportResult:
    """Returns the result of `perform` for the hour, recorded; a failure is recorded as well.

    Raises OperatorError unless the hour is sealed, and for one with chunks that were deleted after a replay unless
    `over_retired`; Conflict while another process exports it, and the exceptions of `perform`."""
    exports = workspace.catalog.exports
    before = one_hour(workspace, archive, export, hour)
    _check_retired(archive, export, before, over_retired)
    sealed = _check_sealed(archive, hour, before)
    if before and before.made and before.made.version != export.version:
        exports.reopen(archive, export, hour)
    try:
        result = perform()
    except Exception as error:
        _record_failure(workspace, archive, export, hour, error)
        raise
    made = Made(
        *sealed[:2],
        export.version,
        result.files,
        result.messages,
        result.dropped,
        result.undecoded,
        result.bytes,
        result.content,
        manifest_url(archive, export.spec, hour),
        workspace.catalog.now(),
    )
    exports.record(archive, export, hour, made)
    fault_point("export.recorded")
    return result


def retired_error(archive: Archive, name: str, hour: str, messages: int) -> OperatorError:
    """The refusal of an hour that had chunks which were deleted after a replay."""
    return OperatorError(
        f"{messages:,} messages of hour {hour} were deleted from archive {archive.name} after a replay: the files of "
        f"export {name} would not have them",
        Next.EXPORT_OVER_RETIRED(archive=archive.name, export=name, hour=hour),
    )


def manifest_url(archive: Archive, spec: ExportSpec, hour: str) -> str:
    """Returns the address of the object that lists the files of an hour."""
    # It imports the store's client, as long as all else of a command that only asks.
    from nats3_dagster.exports.manifest import manifest_path

    place = spec.place_of(archive.name, archive.spec.stream)
    return f"{place.url.rstrip('/')}/{manifest_path(archive.name, spec.name, hour)}"


def _record_failure(workspace: Workspace, archive: Archive, export: Export, hour: str, error: Exception) -> None:
    """Note it where the catalog can take it; the error itself is what counts."""
    # It imports pyarrow, which takes a command that only asks as long as all else.
    from nats3_dagster.archive.captures.capture_log import kind_of

    # The text of an unforeseen error may hold anything, a password included.
    what = error.what if isinstance(error, Nats3Error) else type(error).__name__
    try:
        workspace.catalog.exports.record_failure(archive, export, hour, kind_of(error), what)
    except CatalogError:
        return


def _check_retired(archive: Archive, export: Export, found: ExportHour | None, over_retired: bool) -> None:
    """Raises OperatorError for an hour with chunks that were deleted after a replay, unless `over_retired`."""
    if found and found.retired_messages and not over_retired:
        raise retired_error(archive, export.name, found.hour, found.retired_messages)


def _check_sealed(archive: Archive, hour: str, found: ExportHour | None) -> tuple[int, int, int]:
    """The revision, chunks and messages of the hour. Raises OperatorError unless it is sealed as it is."""
    if found is not None and found.sealed is not None:
        return found.sealed
    why = "changed since it was sealed" if found else "is not sealed"
    raise OperatorError(
        f"Hour {hour} of archive {archive.name} {why}, and only sealed hours are exported",
        Next.SEAL_HOURS(archive=archive.name),
    )
