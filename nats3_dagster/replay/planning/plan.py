"""Plan: what a replay would publish and into which streams, checked before its first message goes out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nats3_dagster.archive.read.removed import removed
from nats3_dagster.archive.selected.extent import SelectedPart, extent
from nats3_dagster.archive.selected.lookup import chunks_of, lost_of_selection, whole_chunks, with_subjects
from nats3_dagster.archive.selected.next_chunks import next_chunks
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import Archive, Chunk, ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.replay.planning.creation import Creation, check_creation, creation
from nats3_dagster.replay.planning.destinations import (
    archived_subjects,
    check_own_stream,
    check_provable,
    check_subject_sizes,
    check_targets,
)
from nats3_dagster.replay.planning.exported import check_exported, check_follows, missing
from nats3_dagster.replay.planning.forgotten import check_forgotten
from nats3_dagster.replay.status import check_forerunner
from nats3_dagster.replay.targets import goes_one_at_a_time, listening, takes_batches
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform, overlap
from nats3_dagster.workspace import Workspace

# Subjects that a plan shows.
SAMPLES = 5


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The plan of a replay."""

    archive: Archive
    spec: ReplaySpec
    # The subjects that it publishes to, as one filter.
    pattern: str
    # What it takes of each chunk, in stream order.
    parts: tuple[SelectedPart, ...]
    # The streams that listen; none if the one to publish into is yet to be created.
    targets: tuple[ReplayTarget, ...]
    # Whether the one target takes fast-ingest batches.
    batched: bool
    # The stream to create; None if there is a target.
    creation: Creation | None = None
    # What becomes of some of the subjects: archived, and published to.
    samples: tuple[tuple[str, str], ...] = ()
    # What the targets will not keep, and what else is to be known.
    notes: tuple[str, ...] = ()

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """In stream order."""
        return tuple(part.chunk for part in self.parts)

    @property
    def messages(self) -> int:
        """The number of messages if `is_exact`, else an upper bound."""
        return sum(part.messages for part in self.parts)

    @property
    def is_exact(self) -> bool:
        """True if `messages` is the number, and not only an upper bound."""
        return all(part.is_exact for part in self.parts)

    @property
    def payload_bytes(self) -> int:
        """The bytes of subjects, header blocks and payloads if `is_size_exact`, else an upper bound."""
        return sum(part.payload_bytes for part in self.parts)

    @property
    def is_size_exact(self) -> bool:
        """The same for `payload_bytes`."""
        return all(part.is_whole and part.is_exact for part in self.parts)

    @property
    def timing_s(self) -> float | None:
        """Seconds that keeping the original timing takes at most; None without a speed. A clock that stepped while the
        messages were stored counts with its step: the publisher waits for as long."""
        metas = [part.chunk.meta for part in self.parts if part.messages]
        if self.spec.pace.speed is None or not metas:
            return None
        first_ns, last_ns = min(m.first_ns for m in metas), max(m.last_ns for m in metas)
        if times := self.spec.selection.times:
            first_ns, last_ns = max(first_ns, times[0]), min(last_ns, times[1])
        return (last_ns - first_ns) / SECOND_NS / self.spec.pace.speed

    @property
    def to_delete(self) -> tuple[SelectedPart, ...]:
        """The chunks that `delete_chunks` deletes after success: those that are, or may be, selected whole."""
        return tuple(part for part in self.parts if part.is_whole) if self.spec.delete_chunks else ()


def plan(workspace: Workspace, spec: ReplaySpec) -> ReplayPlan:
    """Everything that can be known before the first message goes out. Nothing is published, created or recorded. Raises
    OperatorError, ObjectMissing or TargetError."""
    # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
    from nats3_dagster.replay.planning.refusals import check_load, check_takes, load_of, notes

    archive = workspace.catalog.archives.get(spec.archive)
    check_forerunner(workspace, archive, spec)
    transform = spec.transform()
    if spec.poll_interval_s is None:
        chunks = _selected_chunks(workspace, archive, spec)
    else:
        check_no_loop(spec, transform)
        chunks = _chunks_to_follow(workspace, archive, spec)
    check_objects(workspace, chunks)
    check_subject_sizes(transform, chunks)
    server, source = server_info(workspace.link), source_of(workspace, archive, chunks)
    made = creation(spec, transform, source, server)
    streams = listening(workspace.link, made.config["subjects"] if made else [transform.pattern])
    check_own_stream(workspace.link, archive, source, spec, transform, streams)
    parts = extent(workspace, chunks, spec.selection)
    unexported = _check_deletion(workspace, archive, spec, parts)
    if made and not streams:
        check_creation(workspace.link, made)
        takers, targets = [made.state], ()
        batched = server.takes_batches
    else:
        check_targets(workspace, spec, transform, chunks, streams)
        takers, targets, made = streams, tuple(target_of(s) for s in streams), None
        batched = takes_batches(streams, server)
    check_provable(spec, takers)
    check_forgotten(workspace, spec, transform.pattern, chunks, streams)
    load = load_of(workspace, spec, transform, parts, takers, server.max_payload, with_ids=not batched)
    check_load(load, server.max_payload)
    for taker in takers:
        check_takes(spec, source, taker, load)
    return ReplayPlan(
        archive,
        spec,
        transform.pattern,
        parts,
        targets,
        batched,
        made,
        _samples(workspace, spec, transform, chunks),
        tuple(notes(takers, load, marks=spec.marks, alone=goes_one_at_a_time(spec, takers, server, batched=batched)))
        + unexported
        + _removed(workspace, archive, spec),
    )


def target_of(state: StreamState) -> ReplayTarget:
    """A stream that takes what the replay publishes from now on."""
    return ReplayTarget(state.incarnation, state.last_seq + 1)


def _selected_chunks(workspace: Workspace, archive: Archive, spec: ReplaySpec) -> tuple[Chunk, ...]:
    """The chunks to publish. Raises OperatorError if there are none, or messages between them were lost."""
    if spec.over_gaps:
        chunks, lost = chunks_of(workspace, archive, spec.selection), []
    else:
        chunks, lost = whole_chunks(workspace, archive, spec.selection)
    if not chunks:
        gone = "".join(f". {note}" for note in _removed(workspace, archive, spec))
        raise OperatorError(
            f"Archive {archive.name} holds nothing of this selection{gone}", Next.LIST_CHUNKS(archive=archive.name)
        )
    if lost:
        raise OperatorError(*lost_of_selection(archive, lost))
    selected = with_subjects(workspace, chunks, spec.selection)
    if not selected:
        raise OperatorError(
            f"No subject of archive {archive.name} in this selection matches {spec.read_subject!r}",
            Next.GET_CHUNK(archive=archive.name, chunk=chunks[0].id),
        )
    return selected


def _removed(workspace: Workspace, archive: Archive, spec: ReplaySpec) -> tuple[str, ...]:
    """Notes on messages of the selection that were taken out of the archive on purpose."""
    parts = removed(workspace, archive, spec.selection)
    return tuple(f"Not in archive {part.archive} any more: {part.text}" for part in parts)


def _chunks_to_follow(workspace: Workspace, archive: Archive, spec: ReplaySpec) -> tuple[Chunk, ...]:
    """The chunks to publish first: none where a capture has yet to bring what comes first. Raises OperatorError if
    messages before or between them were lost."""
    found = next_chunks(workspace, archive, spec.selection, None, over_gaps=spec.over_gaps)
    if found.lost:
        raise OperatorError(*lost_of_selection(archive, found.lost))
    return with_subjects(workspace, found.chunks, spec.selection)


def check_no_loop(spec: ReplaySpec, transform: Transform) -> None:
    """Raises OperatorError if a replay that follows its archive would take again what it published."""
    if spec.into_own_stream and overlap(transform.pattern, spec.read_subject):
        raise OperatorError(
            f"What is published to {transform.pattern} is archived again, and the replay takes {spec.read_subject}: it "
            "would follow itself without end",
            "Choose a read subject that does not take what it publishes, or leave out the poll interval",
        )


def source_of(workspace: Workspace, archive: Archive, chunks: Sequence[Chunk]) -> Mapping[str, Any]:
    """The configuration of the archived stream, as it was last observed; of the newest one without chunks."""
    newest = chunks[-1].meta.incarnation if chunks else workspace.catalog.coverage.all(archive)[-1].incarnation
    state = workspace.catalog.coverage.last_state(newest)
    return state.config if state else {"name": archive.spec.stream}


def _check_deletion(
    workspace: Workspace, archive: Archive, spec: ReplaySpec, parts: Sequence[SelectedPart]
) -> tuple[str, ...]:
    """Returns notes on exports that do not have chunks which the replay deletes. Raises WrongState unless it may delete
    them."""
    if not spec.delete_chunks:
        return ()
    hours = {part.chunk.meta.hour for part in parts if part.is_whole}
    if not spec.delete_unexported:
        if spec.poll_interval_s is not None:
            check_follows(workspace, archive)
        check_exported(workspace, archive, hours)
    return tuple(f"Chunks are deleted although {one}" for one in missing(workspace, archive, hours))


def _samples(
    workspace: Workspace, spec: ReplaySpec, transform: Transform, chunks: Iterable[Chunk]
) -> tuple[tuple[str, str], ...]:
    """Some of the subjects, and what they become."""
    pairs: dict[str, str] = {}
    for chunk in chunks:
        for source in archived_subjects(workspace, chunk, spec):
            if (target := transform(source)) is not None:
                pairs[source] = target
            if len(pairs) == SAMPLES:
                return tuple(sorted(pairs.items()))
    return tuple(sorted(pairs.items()))
