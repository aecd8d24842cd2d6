"""The source of an archive as it is now. Asking writes nothing: `captures/open.py` keeps what a capture saw."""

from dataclasses import dataclass, replace

from nats3_dagster.archive.source.buffers import read_through_buffer
from nats3_dagster.archive.source.requirements import check_retention, check_sequences
from nats3_dagster.archive.source.restored import History, as_archived, continuing
from nats3_dagster.archive.source.stream_changes import (
    forgotten_error,
    missing_error,
    recreated_error,
    unfinished_error,
)
from nats3_dagster.errors import StreamChanged, UnknownStream
from nats3_dagster.jetstream.server import check_version, server_info
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, SeqRange, StreamState
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Source:
    """The stream of an archive when it was asked, compared with what the archive holds."""

    archive: Archive
    # With the incarnation that the archive has of it, also where the stream was restored and continues one.
    state: StreamState
    # What a stream of another `created` time shares with the archive; None for the archived stream, and where it
    # shares no message.
    history: History | None = None
    # The error if the stream is another one than those that the archive covers; None also where it was restored and
    # continues one of them.
    recreated: StreamChanged | None = None

    @property
    def is_restored(self) -> bool:
        """True if the stream was restored from a backup, and has everything that is archived."""
        return self.history is not None and self.recreated is None


def observe_source(
    workspace: Workspace, archive: Archive, *, again: bool = False, state: StreamState | None = None
) -> Source:
    """Compares the archive's stream with the archive. `again`: a comparison with an older backup that this process
    made before is made again. `state`: the stream's, where it was just listed. Raises UnknownStream if the stream
    is gone, OperatorError for one that no archive can have, SourceError, StoreError."""
    check_version(server_info(workspace.link))
    state = state or _state(workspace, archive)
    if error := unfinished_error(archive, state):
        raise error
    check_sequences(state)
    coverages = workspace.catalog.coverage.all(archive)
    state = as_archived(state, coverages)
    if not recreated_error(archive, coverages, state):
        return Source(archive, state)
    # It imports pyarrow, 0.1 s, and is rare.
    from nats3_dagster.archive.source.history import history_of

    history = history_of(workspace, workspace.link, archive, coverages, state, again=again)
    if history and history.is_continued_by(state):
        return Source(archive, continuing(state, history.coverage.incarnation), history)
    return Source(archive, state, history, recreated_error(archive, coverages, state, history))


def checked_source(workspace: Workspace, archive: Archive) -> Source:
    """Returns the archive's source. Raises as `observe_source` does; StreamChanged for another stream than the archived
    one, and for one that forgot archived messages; OperatorError for a retention that the archive cannot be complete
    with."""
    source = observe_source(workspace, archive)
    if source.recreated:
        raise source.recreated
    check_retention(archive.spec, source.state)
    if changed := forgotten_error(workspace, archive, source.state):
        raise changed
    return source


def source_state(workspace: Workspace, archive: Archive) -> StreamState:
    """The archive's stream as it is now, whichever incarnation it is: by the archive's name for it where a restored
    stream continues one. Raises UnknownStream, with the archive's next step, if it is gone."""
    state = _state(workspace, archive)
    return as_archived(state, workspace.catalog.coverage.all(archive))


def _state(workspace: Workspace, archive: Archive) -> StreamState:
    """The stream as the server has it, read from its buffer where the archive has one. Raises UnknownStream, with the
    archive's next step, if it is gone; StreamChanged if the buffer is."""
    try:
        if archive.spec.buffer:
            return _reachable(workspace, archive, read_through_buffer(workspace, archive))
        return stream_state(workspace.link, archive.spec.stream)
    except UnknownStream as error:
        raise missing_error(archive, error) from error


def _reachable(workspace: Workspace, archive: Archive, state: StreamState) -> StreamState:
    """The stream's own state up to where its buffer begins, if the archive misses messages there that the stream still
    has, as after a long pause: they are read first. Elsewhere the state as it is read from the buffer."""
    own = state.own
    if not state.origin or own.first_seq >= state.first_seq:
        return state
    named = as_archived(state, workspace.catalog.coverage.all(archive))
    before = SeqRange(own.first_seq, state.first_seq - 1)
    if named.incarnation not in workspace.catalog.coverage.incarnations(archive):
        return state
    if not workspace.catalog.coverage.missing(archive, named.incarnation, before):
        return state
    return replace(own, last_seq=before.last, origin=own, buffer=state.buffer)
