"""Follow: a replay that goes on with what comes into its archive.

Invariant: chunks are only ever added after those that a replay has, by its newest attempt, and before one of their
messages goes out. So a later attempt knows all that an earlier one may have published.
"""

from collections.abc import Iterator

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.chosen import Chosen, chosen_of
from nats3_dagster.archive.selected.next_chunks import Position, is_over, next_chunks
from nats3_dagster.archive.selected.uncovered import lost_of_selection
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.catalog.replays.replay_lock import ReplayLock
from nats3_dagster.errors import OperatorError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.publish.fence import PAUSE, superseded
from nats3_dagster.model import Archive, Chunk
from nats3_dagster.replay.job import ReplayJob
from nats3_dagster.replay.planning.content import Content
from nats3_dagster.replay.planning.destinations import check_own_stream, check_subject_sizes, check_takers
from nats3_dagster.replay.planning.topology import Topology
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Chunks that are added at a time: what an attempt has done is recorded after each of these rounds.
ROUND = 256


def rounds(workspace: Workspace, lock: ReplayLock, job: ReplayJob) -> Iterator[tuple[Chunk, ...]]:
    """The chunks that come into the archive, in stream order, recorded as those of the replay; when the next ones are
    asked for, these must be done. It ends with the selection, if that has an end. Waits without a connection but that
    of the lock. Raises Nats3Error: TargetError when it is asked to pause."""
    spec, interval_s = job.spec, job.spec.poll_interval_s or 0.0
    after = workspace.catalog.replay_chunks.end(job.id)
    while True:
        check_asked(lock.wait(0), job.id)
        selected = ArchiveSelection(workspace, archive_of(workspace, job.id, spec.archive), spec.selection)
        over = is_over(selected)
        found = next_chunks(selected, after, over_gaps=spec.over_gaps, limit=ROUND)
        chunks = selected.with_subjects(_unread(workspace, found.chunks, after))
        if chunks:
            check_more(chosen_of(selected, chunks), job)
            fault_point("replay.before_extend")
            if not workspace.catalog.replay_chunks.extend(job.id, job.attempt, chunks):
                continue  # one was retired since: what is in its place shows now
            fault_point("replay.extended")
        if found.chunks:
            last = found.chunks[-1].meta
            after = last.incarnation, last.covers.last
            if chunks:
                yield chunks
            continue
        if found.lost:
            raise OperatorError(*lost_of_selection(selected.archive, found.lost))
        if over and not found.is_open:
            return
        fault_point("replay.waiting")
        workspace.catalog.rest()
        check_asked(lock.wait(interval_s), job.id)


def _unread(workspace: Workspace, chunks: tuple[Chunk, ...], after: Position | None) -> tuple[Chunk, ...]:
    """The chunks; in the place of one that a compaction made of chunks before and after the position, those after it.
    Raises CatalogError."""
    if after is None or not chunks:
        return chunks
    first, (life, seq) = chunks[0], after
    if first.meta.incarnation != life or first.meta.covers.first > seq:
        return chunks
    return *workspace.catalog.replay_chunks.parts_after(first, seq), *chunks[1:]


def archive_of(workspace: Workspace, replay_id: str, name: str) -> Archive:
    """The replay's archive. Raises OperatorError if it was deleted, also if there is another one of its name now."""
    archive = workspace.catalog.archives.get(name)
    if archive.id != workspace.catalog.replays.archive_id(replay_id):
        raise OperatorError(
            f"Archive {name} was deleted and made again since replay {replay_id} began", Next.BEGIN_NEW_REPLAY()
        )
    return archive


def check_more(chosen: Chosen, job: ReplayJob) -> None:
    """Ask of further chunks what a plan asks: the targets may have changed since, and so may what fills the archived
    stream. Raises Nats3Error."""
    # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
    from nats3_dagster.replay.planning.refusals import checked_load

    content = Content(job.spec, job.spec.transform(), chosen)
    for page in chosen.pages():
        check_objects(content.workspace, page)
    check_subject_sizes(content)
    topology = Topology.of_begun(content, job)
    check_own_stream(content, topology)
    check_takers(content, topology)
    checked_load(content, topology)


def check_asked(pause: bool, replay_id: str) -> None:
    """Raises TargetError if the replay was asked to pause."""
    if pause:
        raise superseded(replay_id, PAUSE)
