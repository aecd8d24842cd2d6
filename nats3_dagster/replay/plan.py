"""Plan: what a replay would publish and into which streams, checked before its first message goes out."""

from collections.abc import Iterable
from dataclasses import dataclass

from nats3_dagster.archive.lookup import chunks_of, uncovered, with_subjects
from nats3_dagster.errors import ObjectMissing, OperatorError, TargetError
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.codes import FAST_INGEST
from nats3_dagster.jetstream.streams import ServerInfo, server_info, streams_listening
from nats3_dagster.model import Archive, Chunk, ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.replay.headers import header_room
from nats3_dagster.replay.targets import check_targets, create_target, takes_batches
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What a replay would do."""

    archive: Archive
    spec: ReplaySpec
    # In stream order.
    chunks: tuple[Chunk, ...]
    # The streams that listen; none if the one to publish into is yet to be created.
    targets: tuple[ReplayTarget, ...]
    # Whether the one target takes fast-ingest batches.
    batched: bool

    @property
    def messages(self) -> int:
        """Messages at most: the selection may cut chunks."""
        return sum(c.meta.messages for c in self.chunks)

    @property
    def payload_bytes(self) -> int:
        """Bytes of subjects, header blocks and payloads at most."""
        return sum(c.meta.payload_bytes for c in self.chunks)


def plan(workspace: Workspace, spec: ReplaySpec, *, create: bool = False) -> ReplayPlan:
    """Everything that can be known before the first message goes out. Nothing is published or recorded. With `create`
    the stream that `create_stream` asks for is created, if no stream listens and all else is well; without, a plan for
    such a stream has no targets. Raises OperatorError, ObjectMissing or TargetError."""
    archive = workspace.catalog.archives.get(spec.archive)
    transform = Transform(spec.read_subject, spec.write_subject)
    chunks = _selected_chunks(workspace, archive, spec)
    check_objects(workspace, chunks)
    server = server_info(workspace.link)
    _check_size(archive, chunks, server)
    streams = streams_listening(workspace.link, transform.pattern)
    _check_own_stream(archive, spec, transform, streams)
    if spec.create_stream and not streams:
        if not create:
            return ReplayPlan(archive, spec, chunks, (), batched=server.version >= FAST_INGEST)
        streams = [create_target(workspace.link, spec.create_stream, transform.pattern)]
    check_targets(transform, chunks, streams)
    targets = tuple(ReplayTarget(s.incarnation, s.last_seq + 1) for s in streams)
    return ReplayPlan(archive, spec, chunks, targets, takes_batches(streams, server.version))


def dry_run(workspace: Workspace, spec: ReplaySpec) -> dict[str, object]:
    """What a replay would do, as `describe` shows it. Nothing is published, created or recorded. Raises as `plan`."""
    return describe(plan(workspace, spec))


def describe(planned: ReplayPlan) -> dict[str, object]:
    """The plan as a dry run shows it: plain values under snake case keys, which are an interface."""
    metas = [c.meta for c in planned.chunks]
    targets = [t.incarnation.stream for t in planned.targets] or [f"{planned.spec.create_stream} (to be created)"]
    return {
        "archive": planned.archive.name,
        "chunks": len(metas),
        "messages_at_most": planned.messages,
        "payload_bytes_at_most": planned.payload_bytes,
        "first": f"{metas[0].covers.first} at {format_time(metas[0].first_ns)}" if metas else None,
        "last": f"{metas[-1].covers.last} at {format_time(metas[-1].last_ns)}" if metas else None,
        "subjects": f"{planned.spec.read_subject} to {planned.spec.write_subject}",
        "targets": targets,
        "order": planned.spec.order,
        "mode": "batch" if planned.batched else "window",
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
            f"The selection lacks the sequences {', '.join(map(str, lost[:3]))}{' ...' if len(lost) > 3 else ''}",
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
