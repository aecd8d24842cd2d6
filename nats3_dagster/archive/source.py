"""The source of an archive: its stream as it is now, and whether it is still the stream that is archived."""

import logging
from collections.abc import Iterable

from nats3_dagster.archive.restored import History, as_archived, continuing
from nats3_dagster.errors import Conflict, OperatorError, StreamChanged, UnknownStream
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import message_from, next_message
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, ArchiveSpec, Coverage, Gap, SeqRange, StreamState, Witness
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform, check_filter, covers, overlap
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
_AFTER_FORGETTING = "Create another archive of the stream for what comes, and set sync_interval: always on the server"
# A server marks erased and deleted records of a file by the two highest bits of their sequences.
_LAST_STORED = 2**62 - 1


def check_source(workspace: Workspace, spec: ArchiveSpec) -> StreamState:
    """The stream of a new archive. Raises OperatorError when it is unknown, cannot be read in this mode, or has
    nothing for one of the filters."""
    state = stream_state(workspace.link, spec.stream)
    check_retention(spec, state)
    check_sequences(state)
    subjects = _stored_subjects(state)
    for filter_ in spec.subjects:
        _check_filter(filter_)
    for filter_ in unmatched_filters(spec, state):
        # Of messages from before the stream was given other subjects.
        if workspace.link.call(next_message, spec.stream, 1, filter_) is None:
            raise OperatorError(
                f"Stream {spec.stream} has no subject that {filter_!r} takes", f"It captures {', '.join(subjects)}",
                field="subjects",
            )
    return state


def unmatched_filters(spec: ArchiveSpec, state: StreamState) -> tuple[str, ...]:
    """The archive's filters that no subject of the stream matches, as after the stream was given other subjects."""
    subjects = _stored_subjects(state)
    return tuple(f for f in spec.subjects if subjects and not any(overlap(f, subject) for subject in subjects))


def _check_filter(text: str) -> None:
    try:
        check_filter(text)
    except OperatorError as error:
        raise OperatorError(error.what, error.hint, field="subjects") from error


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


def check_sequences(state: StreamState) -> None:
    """Raises OperatorError for a stream whose sequences a server takes, and then has no messages of: it was made to
    begin there."""
    if max(state.first_seq, state.last_seq) > _LAST_STORED:
        raise OperatorError(
            f"Stream {state.name} is at sequence {state.last_seq}: NATS keeps no message in a file from 2^62 on",
            "Make the stream with a smaller first_seq",
        )


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


def source_state(workspace: Workspace, archive: Archive) -> StreamState:
    """The archive's stream as it is now, whichever incarnation it is: by the archive's name for it where a restored
    stream continues one. Raises UnknownStream, with the archive's next step, if it is gone."""
    try:
        state = stream_state(workspace.link, archive.spec.stream)
    except UnknownStream as error:
        raise gone(archive, error) from error
    return as_archived(state, workspace.catalog.coverage.all(archive))


def gone(archive: Archive, error: UnknownStream) -> UnknownStream:
    """The error if the account has no such stream, with the archive's next step."""
    return UnknownStream(f"{error.what}. {error.hint}", Next.RESTORE_STREAM(archive=archive.name))


def observe_source(workspace: Workspace, archive: Archive, *, adopt: bool = False) -> StreamState:
    """The archive's stream as it is now, and kept as such in the catalog.

    A stream that was restored from a backup, and has all that is archived, continues its incarnation. Raises
    StreamChanged when the stream was deleted and made again since the last capture, unless `adopt` says to go on with
    the new one; and when it forgot messages that are archived of it. UnknownStream if it is gone, OperatorError if it
    has another retention than an archive needs."""
    coverage = workspace.catalog.coverage
    state = source_state(workspace, archive)
    check_sequences(state)
    history: History | None = None
    coverages = coverage.all(archive)
    if made_again(archive, coverages, state):
        # It imports pyarrow, 0.1 s, and is rare.
        from nats3_dagster.archive.history import history_of

        history = history_of(workspace, workspace.link, archive, coverages, state, again=adopt)
        if history and history.is_continued_by(state):
            state = _continued(workspace, archive, history, state)
            adopt = False
    if not adopt:
        if changed := made_again(archive, coverages, state, history):
            raise changed
        # Before its retention is refused: what that removes is absent for this reason, also once it is changed back.
        coverage.observe(archive, state)
    check_retention(archive.spec, state)
    if adopt:
        coverage.adopt(archive, state, history.start if history else 1)
        log.info(
            "%s: goes on with stream %s of %s from sequence %d on", archive.name, state.name,
            format_time(state.incarnation.created_ns), coverage.start(archive, state.incarnation),
        )
        _give_up_earlier(workspace, archive, state)
    if changed := forgotten(workspace, archive, state):
        raise changed
    return state


def forgotten(workspace: Workspace, archive: Archive, state: StreamState) -> StreamChanged | None:
    """The error if the stream, of an incarnation that the archive has begun, lost messages that are archived: it ends
    before them, or has others in their place. Raises SourceError."""
    coverage = workspace.catalog.coverage
    if changed := shrunk(archive, [coverage.of(archive, state.incarnation)], state):
        return changed
    witness = coverage.witness(archive, state.incarnation)
    return rewritten(workspace.link, archive, state, witness) if witness else None


def witness_at(link: Link, stream: str, seq: int) -> Witness | None:
    """The message at this sequence; None if the stream has none there. The stream's leader answers."""
    message = message_from(link, stream, seq)
    return Witness(*message) if message and message[0] == seq else None


def rewritten(link: Link, archive: Archive, state: StreamState, witness: Witness) -> StreamChanged | None:
    """The error if the stream has another message at the witness' sequence. Where it has none, that says nothing.
    Raises SourceError."""
    if not state.first_seq <= witness.seq <= state.last_seq:
        return None
    return compared(archive, witness, witness_at(link, state.name, witness.seq))


def compared(archive: Archive, witness: Witness, now: Witness | None) -> StreamChanged | None:
    """The error if there is another message now at the witness' sequence."""
    if now is None or now == witness:
        return None
    return StreamChanged(
        f"Stream {archive.spec.stream} has a message of {format_time(now.time_ns)} at sequence {witness.seq}, and "
        f"archive {archive.name} holds one of {format_time(witness.time_ns)} there: the server forgot messages, "
        "and gave their sequences to new ones",
        _AFTER_FORGETTING,
    )


def _continued(workspace: Workspace, archive: Archive, history: History, state: StreamState) -> StreamState:
    """The state of a restored stream that continues an incarnation, kept as such. Raises Conflict if the archive
    changed meanwhile."""
    incarnation = history.coverage.incarnation
    if not workspace.catalog.coverage.continue_restored(archive, history.coverage, state.incarnation.created_ns):
        raise Conflict(f"Archive {archive.name} was changed while its stream was compared", "Run it again")
    log.info(
        "%s: stream %s of %s was restored from a backup at %s, and has all that is archived: it goes on",
        archive.name, state.name, format_time(incarnation.created_ns), format_time(state.incarnation.created_ns),
    )  # fmt: skip
    return continuing(state, incarnation)


def made_again(
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
                archive=archive.name, seq=history.start,
                again=f"; sequences {history.start} to {history.agreed} may be archived again" if again else "",
            ),
        )  # fmt: skip
    return StreamChanged(
        f"Stream {state.name} was deleted and made again at {format_time(state.incarnation.created_ns)}; "
        f"archive {archive.name} holds an earlier one",
        Next.ADOPT_STREAM(archive=archive.name),
    )


def shrunk(archive: Archive, coverages: Iterable[Coverage], state: StreamState) -> StreamChanged | None:
    """The error if the stream ends before what the archive covers of it. A server that was cut off from power may
    forget its newest messages and give their sequences to others: these would count as captured. (A purge or a delete
    never lowers the last sequence.)"""
    return shorter(archive, state, max((c.last for c in coverages if c.incarnation == state.incarnation), default=0))


def shorter(archive: Archive, state: StreamState, archived: int) -> StreamChanged | None:
    """The error if the stream ends before this sequence, which is or is being archived."""
    if archived <= state.last_seq:
        return None
    return StreamChanged(
        f"Stream {state.name} ends at sequence {state.last_seq}, and archive {archive.name} holds it up to {archived}: "
        "the server forgot messages, and gives their sequences to new ones",
        _AFTER_FORGETTING,
    )


def _give_up_earlier(workspace: Workspace, archive: Archive, state: StreamState) -> None:
    """Record as lost what was not captured of the stream's earlier incarnations, as far as they were ever seen."""
    catalog = workspace.catalog
    for earlier in catalog.coverage.all(archive):
        seen = catalog.coverage.last_state(earlier.incarnation)
        last = max(earlier.last, seen.last_seq if seen else 0)
        if earlier.incarnation == state.incarnation:
            continue
        # No message can have come to a stream that was sealed.
        if earlier.unknown_after is None and not (seen and seen.config.get("sealed")):
            catalog.coverage.record_unknown_end(archive, earlier.incarnation, last)
        if last < earlier.start:
            continue
        if lost := catalog.coverage.missing(archive, earlier.incarnation, SeqRange(earlier.start, last)):
            # It imports pyarrow, 0.1 s, and is rare.
            from nats3_dagster.archive.proof.adopt import adopt

            begun = catalog.now()
            adopted, gaps = adopt(workspace, archive, [Gap(earlier.incarnation, tuple(lost), "missing")])
            catalog.chunks.commit(archive, adopted, gaps, begun=begun)
            log.warning(
                "%s: %d sequences of stream %s of %s went with it before they were captured", archive.name,
                sum(gap.size for gap in gaps), state.name, format_time(earlier.incarnation.created_ns),
            )  # fmt: skip
