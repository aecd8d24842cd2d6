"""Single: one message of a served stream, by sequence, time or subject."""

import numpy as np

from nats3_dagster.archive.read import points, subjects
from nats3_dagster.archive.served import uncaptured
from nats3_dagster.archive.served.served_stream import ServedStream
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.errors import NotArchived
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.read.contents import next_message
from nats3_dagster.model import Chunk, Message
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.workspace import Workspace


def by_sequence(workspace: Workspace, served: ServedStream, seq: int) -> Message | None:
    """The message of this sequence; None if there is none. Raises Nats3Error."""
    if not 1 <= seq <= MAX_SEQUENCE:
        return None
    if seq <= served.coverage.last:
        try:
            return _archived(workspace, served, seq)
        except NotArchived:
            if seq < served.coverage.start:
                return None
    return uncaptured.exact(workspace, served, seq)


def next_of(workspace: Workspace, served: ServedStream, subject: str, seq: int) -> Message | None:
    """The first message at this sequence or later whose subject the filter takes. Raises Nats3Error."""
    archived = None
    if seq <= served.coverage.last:
        archived = subjects.next_of(workspace, served.archive, subject, seq - 1, served.incarnation)
    if archived and not uncaptured.ranges(workspace, served, seq, archived.seq):
        return archived
    until = archived.seq if archived else MAX_SEQUENCE
    return uncaptured.next_of(workspace, served, subject, max(seq, served.coverage.start), until) or archived


def last_of(workspace: Workspace, served: ServedStream, subject: str) -> Message | None:
    """The last message whose subject the filter takes. Raises Nats3Error."""
    archived = _last_archived(workspace, served, subject)
    first = archived.seq + 1 if archived else served.coverage.start
    return uncaptured.last_of(workspace, served, subject, first, MAX_SEQUENCE) or archived


def last_sequence(workspace: Workspace, served: ServedStream) -> int:
    """The last sequence of the stream. Raises SourceError."""
    now = uncaptured.state(workspace, served)
    return max(served.coverage.last, now.last_seq if now else 0)


def sequence_at(workspace: Workspace, served: ServedStream, time_ns: int) -> int:
    """The sequence of the first message that was stored at this time or later; the one after the last if there is none.
    Raises Nats3Error."""
    archived = points.first_at(workspace, served.archive, time_ns, served.incarnation)
    if archived:
        return archived.seq
    now, low = uncaptured.state(workspace, served), served.coverage.last + 1
    if now is None:
        return low
    high = now.last_seq + 1

    async def time_of(client: Connection, seq: int) -> tuple[int, int] | None:
        return await next_message(client, now.name, seq)

    # Store times ascend but where a clock stepped.
    while low < high:
        middle = (low + high) // 2
        message = workspace.link.call(time_of, middle)
        if message is None or message[1] >= time_ns:
            high = middle
        else:
            low = message[0] + 1
    return low


def _archived(workspace: Workspace, served: ServedStream, seq: int) -> Message:
    """The archived message of a sequence. Raises NotArchived, StoreError, ChunkError."""

    def find() -> Chunk:
        chunk = points.locate(workspace, served.archive, seq, served.incarnation)
        served.known.add(chunk)
        return chunk

    def read(chunk: Chunk) -> Message:
        sha256 = chunk.meta.sha256
        batch = served.groups.find(sha256, seq)
        if batch is None:
            reader = open_ranged(workspace, chunk)
            index = reader.group_of(seq)
            if index is None:
                raise points.not_selected(served.archive, seq, chunk)
            batch = reader.group(index, MESSAGES.names, dictionary=True)
            group = reader.footer.row_groups[index]
            served.groups.put(sha256, index, group.first_seq, group.last_seq, batch)
        numbers = batch.column("seq").to_numpy()
        row = int(np.searchsorted(numbers, seq))
        if row == len(numbers) or numbers[row] != seq:
            raise points.not_selected(served.archive, seq, chunk)
        return points.message_of(chunk, batch, row)

    known = served.known.chunk_at(seq)
    # A known chunk is live, by the version of the archive; its object is swept only after it was retired.
    return read(known) if known and served.groups.find(known.meta.sha256, seq) else points.read_live(find, read)


def _last_archived(workspace: Workspace, served: ServedStream, subject: str) -> Message | None:
    known = served.known.last_of(subject)
    if known is None:
        known = (subjects.last_of(workspace, served.archive, subject, incarnation=served.incarnation),)
        served.known.add_last(subject, known[0])
    return known[0]
