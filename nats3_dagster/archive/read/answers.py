"""Answers: one message of an archive by its name, or the reason why there is none."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from nats3_dagster.archive.read import points, references, subjects
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.read.references import Reference
from nats3_dagster.archive.selected.removed import Removed
from nats3_dagster.errors import Nats3Error, NotArchived, OperatorError, Unknown
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, Incarnation, Message, Selection
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Page:
    """Some messages of a selection, in the order of the stream."""

    messages: tuple[Message, ...]
    # The cursor after them.
    cursor: str
    # Whether there may be more now. If not, the cursor goes on with what is archived later.
    has_more: bool
    # What the selection had besides, and was taken out of the archive on purpose.
    removed: tuple[Removed, ...]


def get(
    workspace: Workspace, name: str, *, seq: int | None = None, at_ns: int | None = None, incarnation: str | None = None
) -> Message:
    """The message of a sequence, of the newest incarnation unless another one is given by its token; or the first one
    that was stored at a time or later. Raises OperatorError unless one of the two is given, NotArchived, and as
    `points`."""
    if (seq is None) == (at_ns is None):
        raise OperatorError("The message is not given", "Give its sequence, or a time", field="seq")
    archive = workspace.catalog.archives.get(name)
    if seq is not None:
        return points.by_sequence(workspace, archive, seq, _life(workspace, archive, incarnation))
    if incarnation is not None:
        raise OperatorError("A time has no incarnation", "Give a sequence with it", field="incarnation")
    assert at_ns is not None
    message = points.first_at(workspace, archive, at_ns)
    if message is None:
        raise _nothing(archive, f"stored at {format_time(at_ns)} or later")
    return message


def next_of(workspace: Workspace, name: str, subject: str, after: int, *, incarnation: str | None = None) -> Message:
    """Returns the first message of a subject filter after a sequence. Raises NotArchived, and as `subjects.next_of`."""
    archive = workspace.catalog.archives.get(name)
    life = _life(workspace, archive, incarnation)
    message = subjects.next_of(workspace, archive, subject, after, life)
    if message is None:
        raise _nothing(archive, f"of {subject} after sequence {after}")
    return message


def last_of(workspace: Workspace, name: str, subject: str, *, at_ns: int | None = None) -> Message:
    """The last message of a subject filter, also as of a time. Raises NotArchived, and as `subjects.last_of`."""
    archive = workspace.catalog.archives.get(name)
    message = subjects.last_of(workspace, archive, subject, at_ns)
    if message is None:
        raise _nothing(archive, f"of {subject}" + (f" stored by {format_time(at_ns)}" if at_ns is not None else ""))
    return message


def last_values(workspace: Workspace, name: str, subject: str, *, at_ns: int | None = None) -> Iterator[Message]:
    """The last message of each subject that the filter takes; see `subjects.last_values`."""
    return subjects.last_values(workspace, workspace.catalog.archives.get(name), subject, at_ns)


def reference(
    workspace: Workspace, name: str, seq: int, expires_s: int, *, incarnation: str | None = None
) -> Reference:
    """See `references.reference`."""
    archive = workspace.catalog.archives.get(name)
    return references.reference(workspace, archive, seq, expires_s, _life(workspace, archive, incarnation))


def cursor(workspace: Workspace, name: str, selection: Selection, *, over_gaps: bool = False) -> Cursor:
    """A cursor before the first message of the selection. Raises OperatorError."""
    return Cursor.begin(workspace, workspace.catalog.archives.get(name), selection, over_gaps=over_gaps)


def resumed(workspace: Workspace, name: str, token: str) -> Cursor:
    """The cursor that was saved. Raises OperatorError, also if it is of another archive, and as `Cursor.resume`."""
    archive = workspace.catalog.archives.get(name)
    found = Cursor.resume(workspace, token)
    if found.archive.name != archive.name:
        raise OperatorError(
            f"The cursor is of archive {found.archive.name}, not of {archive.name}",
            "Begin a new cursor",
            field="cursor",
        )
    return found


def page(
    workspace: Workspace,
    name: str,
    selection: Selection | None,
    token: str | None,
    *,
    over_gaps: bool = False,
    limit: int,
    most_bytes: int,
) -> Page:
    """Returns the first messages of a selection, or those after a cursor: at most `limit`, and at most `most_bytes` of
    headers and payload, but at least one message. Raises OperatorError if both are given, and as `cursor` and
    `resumed`."""
    if selection is not None and token is not None:
        raise OperatorError("A cursor has its own selection", "Give the cursor alone", field="cursor")
    if token is not None:
        reading = resumed(workspace, name, token)
    else:
        reading = cursor(workspace, name, selection or Selection(), over_gaps=over_gaps)
    messages, size, removed = list[Message](), 0, reading.removed()
    try:
        for batch in reading.batches(few=True):
            for message in messages_of(reading, batch.slice(0, limit - len(messages))):
                size += len(message.data) + len(message.headers or b"")
                if messages and size > most_bytes:
                    return Page(tuple(messages), reading.token(), has_more=True, removed=removed)
                messages.append(message)
                reading.advance((message.seq, message.time_ns))
            if len(messages) == limit:
                return Page(tuple(messages), reading.token(), has_more=True, removed=removed)
    except Nats3Error:
        if not messages:
            raise
        # The earlier messages were read; the next page reports the error after them.
        return Page(tuple(messages), reading.token(), has_more=True, removed=removed)
    return Page(tuple(messages), reading.token(), has_more=False, removed=removed)


def messages_of(reading: Cursor, batch: pa.RecordBatch) -> Iterator[Message]:
    """The messages of the last batch of a cursor."""
    life = reading.incarnation
    for row in batch.select(MESSAGES.names).to_pylist():
        yield Message(incarnation=life, **row)


def _life(workspace: Workspace, archive: Archive, token: str | None) -> Incarnation | None:
    """The incarnation with this token, as in the keys of chunks. Raises Unknown."""
    if token is None:
        return None
    lives = workspace.catalog.coverage.incarnations(archive)
    for life in lives:
        if life.token == token:
            return life
    raise Unknown(
        f"Archive {archive.name} has no incarnation {token}",
        f"It has {', '.join(life.token for life in lives)}",
        field="incarnation",
    )


def _nothing(archive: Archive, what: str) -> NotArchived:
    return NotArchived(f"Archive {archive.name} has no message {what}", Next.LIST_CHUNKS(archive=archive.name))
