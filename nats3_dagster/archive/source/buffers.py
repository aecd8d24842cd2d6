"""Buffers: mirrors that archives make of streams which remove messages before a capture sees them.

A mirror has the sequences, times and subjects of its origin. It follows the name of its origin and not its life: where
the origin is made again, the mirror appends the messages of the new one to those of the old one. So a buffer carries
the `created` time of its origin, and what is read of it counts only if the origin, asked afterwards, is still that one.
"""

import time
from collections.abc import Mapping
from typing import Any

from nats3_dagster.archive.source.stream_changes import AFTER_FORGETTING
from nats3_dagster.errors import OperatorError, SourceError, StreamChanged, UnknownStream
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.jetstream.codes import supported_settings
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.streams import create_stream, delete_stream, find_stream, stream_state
from nats3_dagster.model import Archive, ArchiveSpec, StreamState
from nats3_dagster.model.stream import BUFFERS, is_unfinished, own_metadata, through_buffer
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Keys of a buffer's metadata beside its archive: the archive's folder, and when its origin was created, in nanoseconds.
_FOLDER, _CREATED = "nats3.buffer.folder", "nats3.buffer.created"
# How long a new buffer may take to get what its origin has; a server asks for it after about a second.
FILL_S, _POLL_S = 15.0, 0.1


def check_new_buffer(workspace: Workspace, spec: ArchiveSpec, origin: StreamState) -> None:
    """Raises OperatorError if the archive cannot have a buffer of this stream, or its name is taken."""
    if not spec.buffer:
        return
    server = server_info(workspace.link)
    if not supported_settings({"metadata": {}}, server.version):
        raise OperatorError(
            f"{server.name} keeps no metadata of streams, and an archive would not know its buffer",
            "Update it to 2.10 or later, or archive the stream without a buffer",
            field="buffer_s",
        )
    if mirrored := origin.config.get("mirror"):
        raise OperatorError(
            f"Stream {origin.name} mirrors {mirrored.get('name')}, and has no buffer",
            "Archive it without one: give the mirror limits that keep messages until they are captured",
            field="buffer_s",
        )
    if origin.config.get("allow_direct"):
        raise OperatorError(
            f"Stream {origin.name} allows direct gets (allow_direct), and a server lets each mirror answer these as "
            "well: its clients would get messages that the stream has removed",
            "Turn allow_direct off in the stream, or raise its limits and archive it without a buffer",
            field="buffer_s",
        )
    _usable(spec, find_stream(workspace.link, spec.buffer))


def make_buffer(workspace: Workspace, spec: ArchiveSpec) -> StreamState:
    """The stream as it is read from its buffer, which is made; one that a create left which was cut is made again.
    Raises OperatorError if its name is taken, SourceError if it gets no message."""
    assert spec.buffer
    link = workspace.link
    origin = stream_state(link, spec.stream)
    wanted = _config(spec, origin)
    if _usable(spec, find_stream(link, spec.buffer)):
        try:
            # One of this very stream stays: two creates of an archive at once take no messages from each other.
            create_stream(link, wanted)
        except OperatorError:
            delete_stream(link, spec.buffer)
    create_stream(link, wanted)
    try:
        return _filled(workspace, spec, origin)
    except BaseException:
        drop_buffer(workspace, spec)
        raise


def renew(workspace: Workspace, archive: Archive) -> None:
    """Makes the archive's buffer again where it was deleted, was changed, or is of an earlier stream; elsewhere it
    stays. Raises OperatorError, SourceError."""
    if not archive.spec.buffer:
        return
    try:
        read_through_buffer(workspace, archive)
    except UnknownStream:
        raise
    except StreamChanged:
        make_buffer(workspace, archive.spec)


def drop_buffer(workspace: Workspace, spec: ArchiveSpec) -> bool:
    """Deletes the archive's buffer; True if there was one, and it is the archive's. Raises SourceError."""
    if not spec.buffer:
        return False
    state = find_stream(workspace.link, spec.buffer)
    if state is None or not _is_of(spec, state):
        return False
    try:
        delete_stream(workspace.link, spec.buffer)
    except UnknownStream:
        return False
    return True


def read_through_buffer(workspace: Workspace, archive: Archive) -> StreamState:
    """The archive's stream as it is read from its buffer. Raises UnknownStream if the stream is gone, StreamChanged if
    the buffer is, or is of another stream."""
    assert archive.spec.buffer
    # The buffer is asked first: see `through_buffer`.
    buffer = find_stream(workspace.link, archive.spec.buffer)
    return joined(archive, stream_state(workspace.link, archive.spec.stream), buffer)


def joined(archive: Archive, origin: StreamState, buffer: StreamState | None) -> StreamState:
    """The state of a stream with its buffer, which was asked first; None where it is gone. Raises StreamChanged."""
    spec = archive.spec
    if is_unfinished(origin.config):
        return origin
    if buffer is None:
        raise StreamChanged(
            f"Buffer {spec.buffer} of stream {spec.stream} was deleted: nothing keeps messages for {spec.name}",
            Next.ADOPT_BUFFER(archive=spec.name),
        )
    if not _is_of(spec, buffer):
        raise StreamChanged(
            f"Stream {spec.buffer} is not the buffer of archive {spec.name}: another program made it",
            Next.BUFFER_TAKEN(buffer=str(spec.buffer)),
        )
    if buffer.config.get("mirror") != {"name": spec.stream}:
        raise StreamChanged(
            f"Buffer {spec.buffer} no longer mirrors stream {spec.stream} as the archive made it",
            Next.ADOPT_BUFFER(archive=spec.name),
        )
    if own_metadata(buffer.config).get(_CREATED) != str(origin.incarnation.server_created_ns):
        raise StreamChanged(
            f"Stream {spec.stream} was deleted and made again at {format_time(origin.incarnation.created_ns)}, and "
            f"buffer {spec.buffer} is of an earlier one",
            Next.ADOPT_STREAM(archive=spec.name),
        )
    if origin.last_seq < buffer.last_seq:
        raise StreamChanged(
            f"Stream {spec.stream} ends at sequence {origin.last_seq}, and its buffer has messages up to "
            f"{buffer.last_seq}: the server forgot messages, and gives their sequences to new ones",
            AFTER_FORGETTING,
        )
    return through_buffer(origin, buffer)


def _config(spec: ArchiveSpec, origin: StreamState) -> dict[str, Any]:
    return {
        "name": spec.buffer,
        "description": f"nats3: what archive {spec.name} has not captured yet of stream {spec.stream}",
        "mirror": {"name": spec.stream},
        "storage": "file",
        "num_replicas": int(origin.config.get("num_replicas") or 1),
        "max_age": spec.buffer_s * SECOND_NS,
        "max_bytes": spec.buffer_bytes or -1,
        "discard": "old",
        "metadata": _metadata(spec) | {_CREATED: str(origin.incarnation.created_ns)},
    }


def _metadata(spec: ArchiveSpec) -> dict[str, str]:
    return {BUFFERS: spec.name, _FOLDER: "/".join(filter(None, (spec.bucket, spec.prefix)))}


def _is_of(spec: ArchiveSpec, state: StreamState) -> bool:
    """True if the stream is the buffer of this archive: another catalog may have one of the same name."""
    metadata: Mapping[str, str] = own_metadata(state.config)
    return _metadata(spec).items() <= metadata.items()


def _usable(spec: ArchiveSpec, state: StreamState | None) -> StreamState | None:
    """The stream of the buffer's name, if there is one, and it is the archive's. Raises OperatorError for another."""
    if state and not _is_of(spec, state):
        raise OperatorError(
            f"Stream {spec.buffer} exists, and is not the buffer of archive {spec.name}",
            Next.BUFFER_TAKEN(buffer=str(spec.buffer)),
        )
    return state


def _filled(workspace: Workspace, spec: ArchiveSpec, origin: StreamState) -> StreamState:
    """The stream with its new buffer, once this has got as far as the stream was before. Raises StreamChanged if the
    stream was made again meanwhile."""
    assert spec.buffer
    until = time.monotonic() + FILL_S
    while True:
        buffer, now = stream_state(workspace.link, spec.buffer), stream_state(workspace.link, spec.stream)
        if now.incarnation != origin.incarnation:
            raise StreamChanged(f"Stream {spec.stream} was made again while its buffer was made", "Run it again")
        if buffer.last_seq >= origin.last_seq or (not origin.messages and not now.messages):
            return through_buffer(now, buffer)
        if time.monotonic() > until:
            raise SourceError(
                f"Buffer {spec.buffer} got no message of stream {spec.stream} up to sequence {origin.last_seq} within "
                f"{FILL_S:g} s: it is at {buffer.last_seq}",
                "See the log of the NATS server, and the limits of the account",
            )
        time.sleep(_POLL_S)
