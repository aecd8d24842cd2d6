"""Copy: the stream of a backup, on a server of our own that has nothing else.

Invariant: the stream has what `backup.json` says, but for messages whose own time to live has ended; or there is none.
"""

import logging
from collections.abc import Callable
from typing import Any

from nats3_dagster.archive.imports.backup import Backup
from nats3_dagster.archive.restore.configuration import restored_configuration
from nats3_dagster.errors import OperatorError, SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.restore.session import RestoreSession
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.streams import delete_stream, find_stream, stream_state
from nats3_dagster.model import StreamState

log = logging.getLogger(__name__)
_PIECE = 1 << 20
# How long the server may take to make the stream from blocks of a file store, in seconds.
_PATIENCE_S = 3600.0
# Settings that let a stream remove messages, each with its value for never.
_NEVER_REMOVES = {
    "retention": "limits",
    "max_msgs_per_subject": -1,
    "allow_msg_ttl": False,
    "subject_delete_marker_ttl": 0,
}


def copied(link: Link, backup: Backup, on_progress: Callable[[int, int], object]) -> StreamState:
    """The stream, made now unless an import before this one has. `on_progress` is called with the bytes that were sent,
    and all. Raises OperatorError for a backup that is not whole, SourceError."""
    state = find_stream(link, backup.stream)
    if state and _is_whole(state, backup):
        return state
    if state:
        delete_stream(link, backup.stream)
    try:
        _restore(link, backup, on_progress)
        state = stream_state(link, backup.stream)
        if not _is_whole(state, backup):
            described = backup.described
            raise _damaged(
                backup,
                f"it has {described.messages:,} messages from {described.first_seq} to {described.last_seq} by "
                f"backup.json, and {state.messages:,} from {state.first_seq} to {state.last_seq} came back",
            )
    except BaseException:
        if find_stream(link, backup.stream):
            delete_stream(link, backup.stream)
        raise
    return state


def _restore(link: Link, backup: Backup, on_progress: Callable[[int, int], object]) -> None:
    size, sent = backup.file.stat().st_size, 0
    try:
        session = RestoreSession(link, _configuration(link, backup), backup.state)
        with backup.file.open("rb") as content:
            while piece := content.read(_PIECE):
                session.send(piece)
                sent += len(piece)
                on_progress(sent, size)
                fault_point("import.sending")
        session.finish(_PATIENCE_S)
    except SourceError as error:
        raise _damaged(backup, error.what) from error
    except OSError as error:
        raise _damaged(backup, f"it cannot be read: {error.strerror}") from error


def _configuration(link: Link, backup: Backup) -> dict[str, Any]:
    """The configuration of the copy: nothing removes a message of it, and nothing brings one."""
    server = server_info(link)
    config, _ = restored_configuration(
        backup.config,
        server,
        backup.stream,
        largest_bytes=server.max_payload,
        replicas=1,
        storage="file",
        limits=False,
    )
    return {**config, **{key: value for key, value in _NEVER_REMOVES.items() if key in config}}


def _is_whole(state: StreamState, backup: Backup) -> bool:
    """True if the stream has each message of the backup, but for those whose own time to live has ended."""
    described = backup.described
    if backup.may_end and 0 < state.messages < described.messages:
        return state.first_seq >= described.first_seq and state.last_seq == described.last_seq
    return (state.messages, state.first_seq, state.last_seq) == (
        described.messages,
        described.first_seq,
        described.last_seq,
    )


def _damaged(backup: Backup, why: str) -> OperatorError:
    return OperatorError(f"The backup in {backup.folder} is cut or damaged: {why}", "Take it again, or use another one")
