"""A drill of an account: messages of each archive are restored into a server of our own, compared with the archive and
with the live stream, and removed again.

Invariant: nothing is written but to that server, and the result into the catalog. One archive that fails stops no
other.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nats3_dagster.archive.account_restore.plan import archives_of
from nats3_dagster.archive.restore.consumers import ALL
from nats3_dagster.archive.restore.plan import RestorePlan, RestoreSpec, described
from nats3_dagster.archive.restore.proof import compare
from nats3_dagster.archive.restore.run import restore
from nats3_dagster.archive.source.restored import as_archived
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import HOUR_NS
from nats3_dagster.jetstream.read.reader import ReadSpec
from nats3_dagster.jetstream.streams import delete_stream, find_stream
from nats3_dagster.model import Archive, Coverage, Selection, SeqRange, StreamState
from nats3_dagster.model.account_rule import takes
from nats3_dagster.model.drill import Drill
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DrillSpec:
    """A drill as asked for."""

    # The rule whose archives are restored.
    rule: str
    # Patterns of names of streams: those whose archives are restored, and those of them that are not.
    match: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    # True for all messages of the stream's newest incarnation, False for those of its newest hour.
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveDrill:
    """The drill of one archive."""

    archive: Archive
    result: Drill


def drill(
    workspace: Workspace, own: Workspace, spec: DrillSpec, on_archive: Callable[[ArchiveDrill], object] = id
) -> tuple[ArchiveDrill, ...]:
    """Restore and compare each archive. `own`: the same catalog and store, and a server of our own. `on_archive` is
    called with each result. Raises Unknown for the rule, OperatorError where nothing is asked for, CatalogError."""
    kept = workspace.catalog.accounts.get(spec.rule)
    names = [one.name for one in archives_of(workspace, kept) if takes(one.stream, spec.match, spec.exclude)]
    if not names:
        raise OperatorError(f"Rule {kept.name} has no archive of a stream that is asked for", "Ask for others")
    found: list[ArchiveDrill] = []
    for name in names:
        archive = workspace.catalog.archives.get(name)
        result = _drilled(workspace, own, archive, whole=spec.whole)
        fault_point("drill.compared")
        workspace.catalog.account_restores.add_drill(archive, result)
        found.append(ArchiveDrill(archive, result))
        on_archive(found[-1])
    return tuple(found)


def _drilled(workspace: Workspace, own: Workspace, archive: Archive, *, whole: bool) -> Drill:
    result = Drill(0, 0, 0.0, 0, _rpo_s(workspace, archive))
    began = time.monotonic()
    try:
        coverages = workspace.catalog.coverage.all(archive)
        newest = coverages[-1] if coverages else None
        if newest is None or not newest.messages or newest.last_ns is None:
            return result
        planned = described(own, _spec(archive, newest, whole=whole))
        began = time.monotonic()
        done = restore(own, planned)
        result = replace(
            result,
            messages=done.messages,
            payload_bytes=planned.payload_bytes,
            seconds=time.monotonic() - began,
        )
        try:
            return replace(result, live=_live(workspace, archive, planned, done.state, coverages))
        finally:
            delete_stream(own.link, planned.stream)
    except Nats3Error as error:
        if error.ends_all:
            raise
        return replace(result, seconds=result.seconds or time.monotonic() - began, error=error)


def _spec(archive: Archive, newest: Coverage, *, whole: bool) -> RestoreSpec:
    """The restore of the newest incarnation, or of its newest hour, with the consumers that are kept. Losses of the
    archive are told elsewhere."""
    assert newest.last_ns is not None
    start = newest.last_ns - newest.last_ns % HOUR_NS
    return RestoreSpec(
        archive.name,
        # Never the name of one that is restored meanwhile: two restores of a name wait for each other.
        name=f"DRILL_{archive.name}",
        selection=Selection() if whole else Selection(from_ns=start),
        replicas=1,
        over_gaps=True,
        consumers=(ALL,),
        without_consumers=True,
        incarnation=newest.incarnation.token,
    )


def _live(
    workspace: Workspace, archive: Archive, planned: RestorePlan, there: StreamState, coverages: tuple[Coverage, ...]
) -> int:
    """Compare the messages that the live stream still has; their number. Raises SourceError with the first that
    differs, or that the archive does not have. What was removed from the archive on purpose may be there: then nothing
    is compared."""
    state = find_stream(workspace.link, archive.spec.stream)
    if state is None or as_archived(state, coverages).incarnation != planned.incarnation:
        return 0
    if archive.spec.subjects or planned.removed or state.last_seq < there.first_seq:
        return 0
    last = min(there.last_seq, state.last_seq)
    own = SeqRange(max(there.first_seq, state.first_seq), last)
    if own.size < 1:
        return 0
    return compare(workspace, planned, ReadSpec(state.incarnation, own), removes=True).equal


def _rpo_s(workspace: Workspace, archive: Archive) -> float | None:
    incarnations = workspace.catalog.coverage.incarnations(archive)
    if not incarnations:
        return None
    up_to = workspace.catalog.account_restores.archived_up_to(archive, incarnations[-1])
    return max(0.0, (datetime.now(UTC) - up_to).total_seconds()) if up_to else None
