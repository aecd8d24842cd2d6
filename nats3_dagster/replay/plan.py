"""Plan: what a replay would publish and into which streams, checked before its first message goes out."""

from collections.abc import Iterable
from dataclasses import dataclass

from nats3_dagster.archive.extent import Part, bounds, extent
from nats3_dagster.archive.lookup import chunks_of, uncovered, with_subjects
from nats3_dagster.errors import ObjectMissing, OperatorError, TargetError
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.codes import FAST_INGEST
from nats3_dagster.jetstream.streams import ServerInfo, server_info, streams_listening
from nats3_dagster.model import Archive, Chunk, ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.replay.targets import (
    check_creation,
    check_provable,
    check_subject_sizes,
    check_targets,
    takes_batches,
)
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What a replay would do."""

    archive: Archive
    spec: ReplaySpec
    # The subjects that it publishes to, as one filter.
    pattern: str
    # What it takes of each chunk, in stream order.
    parts: tuple[Part, ...]
    # The streams that listen; none if the one to publish into is yet to be created.
    targets: tuple[ReplayTarget, ...]
    # Whether the one target takes fast-ingest batches.
    batched: bool

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """In stream order."""
        return tuple(part.chunk for part in self.parts)

    @property
    def messages(self) -> int:
        """Messages at most: exactly so many if `is_exact`."""
        return sum(part.messages for part in self.parts)

    @property
    def is_exact(self) -> bool:
        """Whether `messages` is the number, and not only the most that it can be."""
        return all(part.is_exact for part in self.parts)

    @property
    def payload_bytes(self) -> int:
        """Bytes of subjects, header blocks and payloads at most: exactly so many if `is_size_exact`."""
        return sum(part.payload_bytes for part in self.parts)

    @property
    def is_size_exact(self) -> bool:
        """The same for `payload_bytes`."""
        return all(part.is_whole and part.is_exact for part in self.parts)

    @property
    def to_delete(self) -> tuple[Part, ...]:
        """The chunks that `delete_chunks` deletes after success: those that are, or may be, selected whole."""
        return tuple(part for part in self.parts if part.is_whole) if self.spec.delete_chunks else ()


def plan(workspace: Workspace, spec: ReplaySpec) -> ReplayPlan:
    """Everything that can be known before the first message goes out. Nothing is published, created or recorded. Raises
    OperatorError, ObjectMissing or TargetError."""
    archive = workspace.catalog.archives.get(spec.archive)
    transform = Transform(spec.read_subject, spec.write_subject)
    chunks = _selected_chunks(workspace, archive, spec)
    check_objects(workspace, chunks)
    server = server_info(workspace.link)
    _check_size(archive, chunks, server)
    check_subject_sizes(transform, chunks)
    streams = streams_listening(workspace.link, transform.pattern)
    _check_own_stream(archive, spec, transform, streams)
    parts = extent(workspace, chunks, spec.selection)
    if spec.create_stream and not streams:
        check_creation(workspace.link, spec.create_stream, transform.pattern)
        batched = server.version >= FAST_INGEST
        return ReplayPlan(archive, spec, transform.pattern, parts, (), batched)
    check_targets(transform, chunks, streams, spec.create_stream)
    check_provable(spec, streams)
    targets = tuple(target_of(s) for s in streams)
    return ReplayPlan(archive, spec, transform.pattern, parts, targets, takes_batches(streams, server.version))


def target_of(state: StreamState) -> ReplayTarget:
    """A stream that takes what the replay publishes from now on."""
    return ReplayTarget(state.incarnation, state.last_seq + 1)


def dry_run(workspace: Workspace, spec: ReplaySpec) -> dict[str, object]:
    """What a replay would do, as `describe` shows it. Nothing is published, created or recorded. Raises as `plan`."""
    return describe(plan(workspace, spec))


def describe(planned: ReplayPlan) -> dict[str, object]:
    """The plan as a dry run shows it: plain values under snake case keys, which are an interface. No selected message
    lies outside of the sequences and times; what the catalog does not know of them is null."""
    limits, spec = bounds(planned.parts, planned.spec.selection), planned.spec
    return {
        "archive": planned.archive.name,
        "chunks": len(planned.parts),
        "messages": planned.messages,
        "messages_exact": planned.is_exact,
        "payload_bytes": planned.payload_bytes,
        "payload_bytes_exact": planned.is_size_exact,
        "first_seq": limits.first_seq,
        "last_seq": limits.last_seq,
        "first_time": None if limits.first_ns is None else format_time(limits.first_ns),
        "last_time": None if limits.last_ns is None else format_time(limits.last_ns),
        "read_subject": spec.read_subject,
        "write_subject": spec.write_subject,
        "targets": [t.incarnation.stream for t in planned.targets],
        "creates_stream": None if planned.targets else spec.create_stream,
        "order": spec.order,
        "mode": "batch" if planned.batched else "window",
        "deletes_chunks": len(planned.to_delete),
        "deletes_messages": sum(part.messages for part in planned.to_delete),
    }


def check_objects(workspace: Workspace, chunks: Iterable[Chunk]) -> None:
    """Every object is there with its size. Raises ObjectMissing or StoreError."""
    for chunk in chunks:
        head = workspace.bucket(chunk.meta.bucket).head(chunk.meta.key)
        if head.size != chunk.meta.stored_bytes:
            raise ObjectMissing(
                f"{chunk.meta.key} has {head.size} bytes and not {chunk.meta.stored_bytes}",
                "It was truncated or replaced: restore it from a copy, or capture the hour again",
            )


def _selected_chunks(workspace: Workspace, archive: Archive, spec: ReplaySpec) -> tuple[Chunk, ...]:
    """The chunks to publish. Raises OperatorError if there are none, or messages between them were lost."""
    chunks = chunks_of(workspace, archive, spec.selection)
    if not chunks:
        raise OperatorError(
            f"Archive {archive.name} holds nothing of this selection", Next.LIST_CHUNKS(archive=archive.name)
        )
    if not spec.over_gaps and (lost := uncovered(workspace, archive, spec.selection, chunks)):
        raise OperatorError(
            f"Sequences of the selection are not in the archive: {', '.join(map(str, lost[:3]))}"
            f"{' ...' if len(lost) > 3 else ''}",
            Next.CAPTURE_OR_REPLAY_OVER_GAPS(),
        )
    selected = with_subjects(chunks, spec.selection)
    if not selected:
        raise OperatorError(
            f"Archive {archive.name} has no subject that {spec.read_subject!r} takes in this selection",
            Next.GET_CHUNK(archive=archive.name, chunk=chunks[0].id),
        )
    return selected


def _check_size(archive: Archive, chunks: Iterable[Chunk], server: ServerInfo) -> None:
    # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
    from nats3_dagster.replay.headers import header_room

    largest = max(c.meta.largest_bytes for c in chunks)
    room = header_room(archive.spec.stream)
    if largest + room > server.max_payload:
        raise TargetError(
            f"The largest message takes {largest} bytes with its headers, {room} more when replayed; "
            f"the server's max_payload is {server.max_payload}",
            f"Set max_payload of the target server to at least {largest + room}",
        )


def _check_own_stream(archive: Archive, spec: ReplaySpec, transform: Transform, streams: Iterable[StreamState]) -> None:
    if not spec.into_own_stream and any(s.name == archive.spec.stream for s in streams):
        raise OperatorError(
            f"{transform.pattern} is captured by {archive.spec.stream}, the stream that archive {archive.name} "
            "archives",
            Next.CHOOSE_OTHER_TARGET(),
        )
