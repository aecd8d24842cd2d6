"""The carrying out of erasures: what was decided is written down everywhere, taken out of chunks, and removed, until a
search finds it nowhere.

Invariant: nothing is removed from a bucket before each record is there. A chunk gives way only to chunks and gaps that
have its other messages, read again from the store and proven equal. A process that dies leaves an erasure that is open,
and the next one goes on with it.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from nats3_dagster.archive.keep.cut import Cut, cut, cut_of_orphans
from nats3_dagster.archive.keep.erased_search import remove, search, step_of
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import erasure_records, folder
from nats3_dagster.archive.stored.archive_folder import folder_of
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.archive.stored.unchecked import is_unchecked
from nats3_dagster.errors import (
    ChunkError,
    Conflict,
    ForeignFolder,
    Nats3Error,
    ObjectMissing,
    StoreError,
)
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk
from nats3_dagster.model.erasure import Trace
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

# How often a bucket is searched: another program may put an object meanwhile.
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Erased:
    """Messages that were erased, or would be."""

    archive: str
    messages: int = 0
    # Chunks that had them, and their hours, ascending.
    chunks: int = 0
    hours: tuple[str, ...] = ()
    # Objects that were removed from the archive's own bucket; None where nothing was done.
    objects: int | None = None
    # Objects, and versions of them, that have erased messages and are still there.
    left: tuple[Trace, ...] = ()
    # Why the erasure is not finished, or why an hour was not sealed again.
    problem: Nats3Error | None = field(default=None, compare=False)
    # Erasures that were finished by it, those that were decided before included.
    finished: int = 0


def carry_out_open(workspace: Workspace, archive: Archive) -> Erased:
    """Carries out the open erasures under the lock. Nothing is removed from a bucket before each record is there."""
    erasures = workspace.catalog.erasures
    if is_unchecked(workspace, archive):
        return Erased(archive.name, objects=0, problem=unchecked_error(archive))
    reached, problem = _write_down(workspace, archive)
    fault_point("erase.written")
    open_ones = [row.id for row in erasures.all(archive) if row.is_open]
    if not open_ones:
        return Erased(archive.name, objects=0)
    hours, cut_problem = _cut_all(workspace, archive)
    problem = problem or cut_problem
    seal_problem = _seal(workspace, archive)
    fault_point("erase.sealed")
    removed, left, search_problem = _remove_all(workspace, archive, reached)
    problem = problem or search_problem
    fault_point("erase.gone")
    if left or problem:
        erasures.left_over(archive, len(left))
        problem = problem or StoreError(
            f"{len(left):,} objects of archive {archive.name} still have erased messages. {left[0]}",
            step_of(archive, left),
        )
    else:
        erasures.finish(archive, open_ones)
    finished = 0 if problem else len(open_ones)
    return Erased(archive.name, 0, 0, tuple(sorted(hours)), removed, tuple(left), problem or seal_problem, finished)


def _write_down(workspace: Workspace, archive: Archive) -> tuple[list[str], Nats3Error | None]:
    """Let every bucket have each record: the buckets that were reached, and why another one was not. Raises StoreError
    for the archive's own."""
    erasures, reached, known = workspace.catalog.erasures, list[str](), -1
    problem: Nats3Error | None = None
    # One bucket may have a record that the others do not.
    while known != (known := len(erasures.all(archive))):
        erasure_records.agree(workspace, folder_of(workspace, archive))
        reached = [archive.spec.bucket]
        for bucket in erasure_records.places(workspace, archive)[1:]:
            try:
                with named(archive, bucket):
                    agree(workspace, archive, bucket)
                reached.append(bucket)
            except Nats3Error as error:
                problem = problem or _unless_catalog(error)
    return reached, problem


def agree(workspace: Workspace, archive: Archive, bucket: str) -> None:
    """Let a bucket and the catalog have the same records. Raises StoreError where the folder there is another
    catalog's: neither tells the other what to erase."""
    there = folder_of(workspace, archive, bucket)
    folder.check_removable(workspace, bucket, [f"{there.path}/"])
    erasure_records.agree(workspace, there)


def unchecked_error(archive: Archive) -> Conflict:
    return Conflict(
        f"Archive {archive.name} was made again from its bucket: erasures wait until its settings are confirmed",
        Next.CHECK_REBUILT(archive=archive.name, hold=REBUILT),
    )


def _cut_all(workspace: Workspace, archive: Archive) -> tuple[set[str], Nats3Error | None]:
    """Take the messages of open erasures out of all chunks. The hours of those that changed, and the first error: one
    chunk does not stop the others."""
    hours: set[str] = set()
    problem: Nats3Error | None = None
    tried: set[int] = set()
    while chunks := [one for one in workspace.catalog.erasures.to_cut(archive) if one not in tried]:
        for chunk_id in chunks:
            tried.add(chunk_id)
            if chunk := workspace.catalog.chunks.find(chunk_id):
                try:
                    _cut(workspace, archive, chunk)
                    hours.add(chunk.meta.hour)
                except Nats3Error as error:
                    problem = problem or _unless_catalog(error)
    return hours, problem


def _cut(workspace: Workspace, archive: Archive, chunk: Chunk) -> None:
    """Put chunks without erased messages in the place of one. Raises Nats3Error."""
    begun, erasures = workspace.catalog.now(), workspace.catalog.erasures
    ranges = erasures.of(archive, chunk.meta.incarnation, chunk.meta.covers)
    rest: Cut | None
    is_new = True
    try:
        rest = cut(workspace, archive, chunk, ranges)
    except ObjectMissing:
        rest, is_new = cut_of_orphans(workspace, archive, chunk, ranges), False
        if rest is None:
            raise
    try:
        erasures.swap(archive, chunk, rest.metas, rest.gaps, begun=begun)
    except Nats3Error as error:
        _unless_catalog(error)  # nothing says whether they were committed
        for meta in rest.metas if is_new else ():
            remove_objects(workspace, meta.bucket, [meta.key])
        raise
    fault_point("erase.swapped")


def _seal(workspace: Workspace, archive: Archive) -> Nats3Error | None:
    """Seal the hours again that were sealed before, also those that a process which died has changed; the error where
    that does not succeed: the seal sensor does it."""
    hours = workspace.catalog.erasures.hours(archive)
    changed = [seal.hour for seal in workspace.catalog.seals.select(archive, hours=hours) if not seal.valid]
    try:
        list(seal_hours(workspace, archive, changed))
    except Nats3Error as error:
        return error
    return None


def _remove_all(
    workspace: Workspace, archive: Archive, buckets: Sequence[str]
) -> tuple[int, list[Trace], Nats3Error | None]:
    """Remove every object that has a message of an open erasure, until a search finds none: how many went from the
    archive's own bucket, which stay, and why a bucket could not be searched."""
    removed, left, problem = 0, list[Trace](), None
    for bucket in buckets:
        try:
            with named(archive, bucket):
                count, stay = _remove_from(workspace, archive, bucket)
            removed, left = removed + count, [*left, *stay]
        except Nats3Error as error:
            problem = problem or _unless_catalog(error)
    return removed, left, problem


def _remove_from(workspace: Workspace, archive: Archive, bucket: str) -> tuple[int, list[Trace]]:
    """The same for one bucket. Raises Nats3Error."""
    sequences = workspace.catalog.erasures.sequences(archive, is_open=True)
    removed, stay = 0, dict[tuple[str, str], Trace]()
    for _ in range(ROUNDS):
        traces = {(one.key, one.version): one for one in search(workspace, archive, bucket, sequences)}
        if traces.keys() <= stay.keys():
            return removed, [stay[place] for place in traces]
        count, kept = remove(workspace, archive, [*traces.values()])
        removed, stay = removed + count, {(one.key, one.version): one for one in kept}
    return removed, [*search(workspace, archive, bucket, sequences)]


@contextmanager
def named(archive: Archive, bucket: str) -> Generator[None]:
    """Says of an error of a copy or a former copy whose bucket it is, and how to give that up."""
    try:
        yield
    except StoreError as error:
        if bucket == archive.spec.bucket:
            raise
        if bucket in archive.spec.copies:
            raise _of_copy(archive, bucket, error) from error
        raise type(error)(
            f"The bucket {bucket!r}, a former copy of archive {archive.name}, cannot be searched for erased messages: "
            f"{error.what}",
            Next.CLAIM_FORMER_COPY(archive=archive.name)
            if isinstance(error, ForeignFolder)
            else Next.FORGET_COPY(archive=archive.name, bucket=bucket),
        ) from error


def _of_copy(archive: Archive, bucket: str, error: StoreError) -> StoreError:
    """The error of a copy that cannot be searched, with the way to give the copy up. What is wrong in the folder there
    has a step of its own."""
    if isinstance(error.hint, Step) or isinstance(error, (ChunkError, ObjectMissing)):
        return error
    others = ", ".join(copy for copy in archive.spec.copies if copy != bucket)
    return type(error)(
        f"The bucket {bucket!r}, a copy of archive {archive.name}, cannot be searched for erased messages: {error}",
        Next.GIVE_UP_COPY(archive=archive.name, bucket=bucket, others=others)
        if others
        else Next.GIVE_UP_ONLY_COPY(archive=archive.name, bucket=bucket),
    )


def _unless_catalog(error: Nats3Error) -> Nats3Error:
    """The error; raised if the catalog does not answer, because then nothing else can be done."""
    if error.ends_all:
        raise error
    return error
