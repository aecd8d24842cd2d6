"""The history that an archive and a stream of another `created` time share, and up to which message.

Invariant: a message agrees if its sequence, store time, subject, headers and payload do. A stream that is filled again
by a client has other times. So the newest archived message proves all that was before it.
"""

from collections.abc import Sequence

from nats3_dagster.archive.source.agreement import disagreement, is_same
from nats3_dagster.archive.source.restored import History
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.chunks import ChunkReader
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import next_json
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import Archive, Coverage, SeqRange, StreamState
from nats3_dagster.workspace import Workspace

# Messages of the stream that are asked for one after the other, where the archive does not have the first of them.
_STEPS = 16
# Streams that are older backups, as they were compared in this process: what differs once differs for good. The key has
# all that a comparison rests on.
_OLDER: dict[tuple[object, ...], History] = {}
_MOST_OLDER = 256


def history_of(
    workspace: Workspace,
    link: Link,
    archive: Archive,
    coverages: Sequence[Coverage],
    state: StreamState,
    *,
    again: bool = False,
) -> History | None:
    """Returns the stream's history of the newest incarnation that it shares a message with; None if it shares none that
    it still has. An older backup is compared once in a process, or `again`. Raises StreamChanged if the stream was made
    again meanwhile, SourceError, StoreError."""
    key = _key(archive, coverages, state)
    if not again and (older := _OLDER.get(key)):
        return older
    history = _compared_all(workspace, link, archive, coverages, state)
    if history and history.agreed < history.newest:
        if len(_OLDER) >= _MOST_OLDER:
            _OLDER.clear()
        _OLDER[key] = history
    return history


def _key(archive: Archive, coverages: Sequence[Coverage], state: StreamState) -> tuple[object, ...]:
    # A stream that is still being filled has more to compare; one that is longer than the archive does not.
    last = max((coverage.last for coverage in coverages), default=0)
    held = tuple((c.incarnation, c.start, c.last, c.chunks, c.messages) for c in coverages)
    return archive.job_id, state.incarnation, min(state.last_seq, last), held


def _compared_all(
    workspace: Workspace, link: Link, archive: Archive, coverages: Sequence[Coverage], state: StreamState
) -> History | None:
    for coverage in reversed(coverages):
        if coverage.incarnation.stream == state.name and (
            history := _shared(workspace, link, archive, coverage, state)
        ):
            # Asked last: what was compared is of this stream.
            same_stream(link, state.incarnation)
            return history
    return None


def _shared(
    workspace: Workspace, link: Link, archive: Archive, coverage: Coverage, state: StreamState
) -> History | None:
    try:
        reader = _reader(workspace, archive, coverage, coverage.last)
        if reader is None:
            return None
        newest = reader.footer.row_groups[-1].last_seq
        message = link.call(next_json, state.read_stream, newest, ">")
        if message and int(message["seq"]) == newest and is_same(reader, newest, message):
            agreed = newest if not disagreement(link, reader, state.incarnation) else 0
        else:
            agreed = _search(workspace, link, archive, coverage, state, newest)
    except (ChunkError, ObjectMissing):
        return None  # the proof is not there; `chunk verify` names the object
    if not agreed:
        return None
    seen = workspace.catalog.coverage.last_state(coverage.incarnation)
    last = max(coverage.last, seen.last_seq if seen else 0)
    holes = SeqRange(max(coverage.start, state.first_seq), agreed)
    missing = workspace.catalog.coverage.missing(archive, coverage.incarnation, holes)
    return History(coverage, newest, agreed, last, min([hole.first for hole in missing] + [agreed + 1]))


def _search(
    workspace: Workspace, link: Link, archive: Archive, coverage: Coverage, state: StreamState, newest: int
) -> int:
    """The newest archived message that the stream has as well; 0 for none. Two histories are the same up to one
    message, and differ from there on; where the stream does not tell, they count as different."""
    low, agreed, high = max(coverage.start, state.first_seq), 0, min(newest, state.last_seq)
    while low <= high:
        # The end first: a stream that is restored and not written to agrees there.
        middle = high if not agreed and high == state.last_seq else (low + high) // 2
        seq, same = _compared(workspace, link, archive, coverage, state.read_stream, SeqRange(middle, high))
        if same:
            agreed, low = seq, seq + 1
        else:
            high = middle - 1
    return agreed


def _compared(
    workspace: Workspace, link: Link, archive: Archive, coverage: Coverage, stream: str, within: SeqRange
) -> tuple[int, bool]:
    """The first message of the stream within these sequences that the archive has, and whether it is the same."""
    seq, subject = within.first, archive.spec.subjects[0] if len(archive.spec.subjects) == 1 else ">"
    for _ in range(_STEPS):
        message = link.call(next_json, stream, seq, subject)
        if message is None or int(message["seq"]) > within.last:
            break
        seq = int(message["seq"])
        reader = _reader(workspace, archive, coverage, seq)
        if reader and any(batch.num_rows for batch in reader.batches(["seq"], seqs=SeqRange(seq, seq))):
            return seq, is_same(reader, seq, message)
        seq += 1
    return seq, False


def _reader(workspace: Workspace, archive: Archive, coverage: Coverage, seq: int) -> ChunkReader | None:
    """The last chunk of the incarnation that begins at this sequence or before it."""
    chunk = workspace.catalog.points.last_to(archive, coverage.incarnation, seq)
    return open_ranged(workspace, chunk) if chunk else None
