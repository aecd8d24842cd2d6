"""Run: the archive of a backup is begun, captured, sealed and proven whole.

Invariant: an import that was cut goes on with the same backup, or begins again; each message is in the archive once.
The archive is paused from its first moment: its stream is the backup, whatever another stream of its name has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nats3_dagster.archive.captures.due import select_hours
from nats3_dagster.archive.imports.backup import Backup
from nats3_dagster.archive.imports.copy import copied
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.seal import seal_complete, sealable
from nats3_dagster.errors import Conflict, SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange, StreamState
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Imported:
    """An import that has ended."""

    archive: Archive
    # The stream as the backup has it.
    state: StreamState
    messages: int
    # Messages of the backup whose own time to live has ended: a server does not restore them.
    ended: int
    # Hours with messages.
    hours: int
    # Sealed hours, those between without a message too.
    sealed: int


def check(workspace: Workspace, backup: Backup, spec: ArchiveSpec) -> Archive | None:
    """The archive that an import of this backup has begun and not ended; None where there is none. Raises Conflict
    where another archive has the name."""
    archive = workspace.catalog.archives.find(spec.name)
    if archive is None:
        return None
    begun = workspace.catalog.imports.of(archive)
    if begun is None or begun.finished_at:
        raise Conflict(f"There is an archive {spec.name} already", "Choose another name")
    if begun.digest != backup.described.digest:
        raise Conflict(f"Archive {spec.name} is of another backup, whose import did not end", "Delete it first")
    if archive.spec != spec:
        raise Conflict(
            f"The import into archive {spec.name} was begun with other settings", "Give the same ones, or delete it"
        )
    return archive


def run(
    workspace: Workspace,
    backup: Backup,
    spec: ArchiveSpec,
    capture: Callable[[Sequence[str]], object],
    *,
    create_bucket: bool = False,
    on_progress: Callable[[int, int], object] = max,
    on_begun: Callable[[], object] = lambda: None,
) -> Imported:
    """Archive a backup. The workspace is of a server of our own, and `capture` captures hours from it. `on_begun` is
    called when the archive is there.

    Raises as `check`, `copied` and `create` do: then nothing was left. Raises what `capture` does, SourceError where
    the archive is not whole, and StoreError: then the archive is there, and the next run goes on."""
    archive = check(workspace, backup, spec)
    state = copied(workspace.link, backup, on_progress)
    fault_point("import.copied")
    coverage = workspace.catalog.coverage
    # Of a backup from before 2.15 the stream has the `created` time that it had, and may be in another archive too.
    known = coverage.last_state(state.incarnation)
    if archive and not _goes_on(workspace, archive, state):
        remove.delete(workspace, archive.name, purge=True)
        archive = None
    if archive is None:
        archive = create(workspace, spec, create_bucket=create_bucket, paused=True, imported=backup.described)
    on_begun()
    fault_point("import.begun")
    original = replace(state, config={**backup.config})
    # What is absent may have been removed by its limits, which the copy does not have.
    coverage.observe(archive, original)
    capture(select_hours(workspace, archive.name))
    fault_point("import.captured")
    found = sealable(workspace, archive, hour_of(backup.first_ns))
    if found.problem:
        raise found.problem
    # Hours after the last message are of no stream: their seals would say nothing.
    last = hour_of(state.last_ns)
    for _ in seal_complete(workspace, archive, [hour for hour in found.hours if hour <= last]):
        fault_point("import.sealing")
    _check_whole(workspace, archive, backup, state.messages)
    coverage.observe(archive, known or original)
    workspace.catalog.imports.finish(archive)
    hours = workspace.catalog.hours.counts(archive)
    ended = backup.described.messages - state.messages
    return Imported(archive, original, state.messages, ended, hours.hours, hours.sealed)


def _goes_on(workspace: Workspace, archive: Archive, state: StreamState) -> bool:
    """False if the archive has nothing yet, and was begun with a copy that is gone."""
    coverages = workspace.catalog.coverage.all(archive)
    return any(one.chunks or one.incarnation == state.incarnation for one in coverages)


def _check_whole(workspace: Workspace, archive: Archive, backup: Backup, expected: int) -> None:
    """Raises SourceError unless each message of the backup that was restored is in the archive."""
    described, coverages = backup.described, workspace.catalog.coverage.all(archive)
    messages = sum(one.messages for one in coverages)
    seqs = SeqRange(described.first_seq, described.last_seq)
    missing = [r for one in coverages for r in workspace.catalog.coverage.missing(archive, one.incarnation, seqs)]
    if messages != expected or missing:
        raise SourceError(
            f"Archive {archive.name} has {messages:,} of {expected:,} messages of the backup",
            "Import it again: it goes on",
        )
