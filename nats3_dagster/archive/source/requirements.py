"""Requirements: what a stream must be, so that an archive of it can be complete."""

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.read.contents import next_message
from nats3_dagster.jetstream.server import check_version, server_info
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, StreamState
from nats3_dagster.model.stream import buffer_of
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform, covers, has_mixed_token, overlap
from nats3_dagster.workspace import Workspace

# What a stream without room for a consumer is told by, with the number of those that it has.
CROWDED = "has all {} consumers that it may have (max_consumers), and is read one message at a time"
# A server marks erased and deleted records of a file by the two highest bits of their sequences.
_LAST_STORED = 2**62 - 1


def check_source(workspace: Workspace, spec: ArchiveSpec) -> StreamState:
    """The stream of a new archive. Raises OperatorError when it is unknown, cannot be read in this mode, has nothing
    for one of the filters, or is on a server that is too old."""
    check_version(server_info(workspace.link))
    state = stream_state(workspace.link, spec.stream)
    check_no_buffer(state)
    check_retention(spec, state)
    check_sequences(state)
    subjects = _stored_subjects(state)
    # `orders*` is the name of one subject, and mostly meant as `orders.*`.
    mixed = [f for f in spec.subjects if has_mixed_token(f)]
    for filter_ in dict.fromkeys([*unmatched_filters(spec, state), *mixed]):
        # Of messages from before the stream was given other subjects.
        if workspace.link.call(next_message, spec.stream, 1, filter_) is None:
            raise OperatorError(
                f"Stream {spec.stream} has no subject that {filter_!r} takes",
                f"It captures {', '.join(subjects)}; * and > are wildcards as whole tokens only",
                field="subjects",
            )
    return state


def unmatched_filters(spec: ArchiveSpec, state: StreamState) -> tuple[str, ...]:
    """The archive's filters that no subject of the stream matches, as after the stream was given other subjects."""
    subjects = _stored_subjects(state)
    return tuple(f for f in spec.subjects if subjects and not any(overlap(f, subject) for subject in subjects))


def _stored_subjects(state: StreamState) -> tuple[str, ...]:
    """Filters of the subjects that the stream's messages are stored under; empty where nothing says it: what it mirrors
    or sources has subjects of its own."""
    transform = state.config.get("subject_transform")
    if state.config.get("sources"):
        return ()
    if not transform:
        return state.subjects
    source = transform.get("src") or ">"
    try:
        stored = Transform(source, transform["dest"]).pattern
    except OperatorError:  # a function that is unknown here
        return ()
    return stored, *(subject for subject in state.subjects if not covers(source, subject))


def check_no_buffer(state: StreamState) -> None:
    """Raises OperatorError for the buffer of an archive: what it has is its origin's, and goes with that archive."""
    if owner := buffer_of(state):
        what = f"Stream {state.name} is the buffer of archive {owner}"
        raise OperatorError(what, "Archive the stream that it mirrors", field="stream")


def check_sequences(state: StreamState) -> None:
    """Raises OperatorError for a stream whose sequences a server takes, and then has no messages of: it was made to
    begin there."""
    if max(state.first_seq, state.last_seq) > _LAST_STORED:
        raise OperatorError(
            f"Stream {state.name} is at sequence {state.last_seq}: NATS keeps no message in a file from 2^62 on",
            "Make the stream with a smaller first_seq",
        )


def has_all_consumers(state: StreamState) -> bool:
    """True if the stream may have no consumer more. A mode that only reads then asks for each message."""
    return 0 < int(state.config.get("max_consumers") or -1) <= state.consumers


def check_retention(spec: ArchiveSpec, state: StreamState) -> None:
    """Raises OperatorError when the stream removes messages that its consumers have acknowledged, and the archive only
    reads: what it has not read yet would be gone. A stream may be given another retention at any time, so each capture
    asks again."""
    retention = state.config.get("retention", "limits")
    if spec.mode == "stream" and retention != "limits":
        raise OperatorError(
            f"Stream {spec.stream} has {retention} retention: its consumers decide how long it keeps a message",
            Next.TAKE_MESSAGES(),
        )
