"""Stream changes: the errors for a stream that is gone, or is no longer what an archive holds of it."""

from collections.abc import Iterable

from nats3_dagster.archive.source.restored import History
from nats3_dagster.errors import StreamChanged, UnknownStream
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import message_from
from nats3_dagster.model import Archive, Coverage, StreamState, Witness
from nats3_dagster.model.stream import is_unfinished
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

AFTER_FORGETTING = "Create another archive of the stream for what comes, and set sync_interval: always on the server"


def missing_error(archive: Archive, error: UnknownStream) -> UnknownStream:
    """The error if the account has no such stream, with the archive's next step."""
    return UnknownStream(f"{error.what}. {error.hint}", Next.RESTORE_STREAM(archive=archive.name))


def unfinished_error(archive: Archive, state: StreamState) -> StreamChanged | None:
    """The error if the stream is what a restore makes, or left when it was cut: it has a part of the messages, and none
    of its subjects yet."""
    if not is_unfinished(state.config):
        return None
    return StreamChanged(
        f"Stream {state.name} is being restored, or was left by a restore that was cut",
        Next.RESTORE_AGAIN(archive=archive.name),
    )


def recreated_error(
    archive: Archive, coverages: Iterable[Coverage], state: StreamState, history: History | None = None
) -> StreamChanged | None:
    """The error if the stream is not one of those that the archive covers: it was deleted and made again, or restored
    from a backup that is older than the archive. `history`: what it shares with the archive."""
    known = [coverage.incarnation for coverage in coverages]
    if not known or state.incarnation in known:
        return None
    if history:
        again = history.agreed + 1 - history.start
        return StreamChanged(
            f"Stream {state.name} was restored from a backup that is older than archive {archive.name}: both have the "
            f"same messages up to sequence {history.agreed}. The earlier stream went up to {history.last}; its "
            f"messages after {history.agreed} are not in this one, and the archive has them up to {history.newest}",
            Next.ADOPT_RESTORED(
                archive=archive.name,
                seq=history.start,
                again=f"; sequences {history.start} to {history.agreed} may be archived again" if again else "",
            ),
        )
    return StreamChanged(
        f"Stream {state.name} was deleted and made again at {format_time(state.incarnation.created_ns)}; "
        f"archive {archive.name} holds an earlier one",
        Next.ADOPT_STREAM(archive=archive.name),
    )


def truncated_error(archive: Archive, coverages: Iterable[Coverage], state: StreamState) -> StreamChanged | None:
    """The error if the stream ends before what the archive covers of it. A server that was cut off from power may
    forget its newest messages and give their sequences to others: these would count as captured. (A purge or a delete
    never lowers the last sequence.)"""
    return ends_before_error(
        archive, state.own, max((c.last for c in coverages if c.incarnation == state.incarnation), default=0)
    )


def ends_before_error(archive: Archive, state: StreamState, archived: int) -> StreamChanged | None:
    """The error if the stream ends before this sequence, which is or is being archived."""
    if archived <= state.last_seq:
        return None
    return StreamChanged(
        f"Stream {state.name} ends at sequence {state.last_seq}, and archive {archive.name} holds it up to {archived}: "
        "the server forgot messages, and gives their sequences to new ones",
        AFTER_FORGETTING,
    )


def forgotten_error(workspace: Workspace, archive: Archive, state: StreamState) -> StreamChanged | None:
    """The error if the stream, of an incarnation that the archive has begun, lost messages that are archived: it ends
    before them, or has others in their place. Raises SourceError."""
    coverage = workspace.catalog.coverage
    if changed := truncated_error(archive, [coverage.of(archive, state.incarnation)], state):
        return changed
    if changed := _differs_from_buffer(workspace.link, archive, state):
        return changed
    witness = coverage.witness(archive, state.incarnation)
    return rewritten_error(workspace.link, archive, state, witness) if witness else None


def _differs_from_buffer(link: Link, archive: Archive, state: StreamState) -> StreamChanged | None:
    """The error if the stream has another message than its buffer at the first sequence that it still has. A buffer
    passes over sequences that it has, though the stream gave them to others."""
    own = state.own
    if not state.incarnation.buffer or not own.messages:
        return None
    held = witness_at(link, state.read_stream, own.first_seq)
    return witness_error(archive, held, Witness(own.first_seq, own.first_ns)) if held else None


def witness_at(link: Link, stream: str, seq: int) -> Witness | None:
    """The message at this sequence; None if the stream has none there. The stream's leader answers."""
    message = message_from(link, stream, seq)
    return Witness(*message) if message and message[0] == seq else None


def rewritten_error(link: Link, archive: Archive, state: StreamState, witness: Witness) -> StreamChanged | None:
    """The error if the stream has another message at the witness' sequence. Where it has none, that says nothing.
    Raises SourceError."""
    own = state.own
    if not own.first_seq <= witness.seq <= own.last_seq:
        return None
    return witness_error(archive, witness, witness_at(link, own.name, witness.seq))


def witness_error(archive: Archive, witness: Witness, now: Witness | None) -> StreamChanged | None:
    """The error if there is another message now at the witness' sequence."""
    if now is None or now == witness:
        return None
    return StreamChanged(
        f"Stream {archive.spec.stream} has a message of {format_time(now.time_ns)} at sequence {witness.seq}, and "
        f"archive {archive.name} holds one of {format_time(witness.time_ns)} there: the server forgot messages, "
        "and gave their sequences to new ones",
        AFTER_FORGETTING,
    )
