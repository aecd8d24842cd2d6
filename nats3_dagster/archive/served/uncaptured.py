"""Uncaptured: messages that the stream has and the archive has not yet, asked of the stream's leader.

Invariant: only sequences that are in no chunk and no gap are taken from the stream: what was erased, expired or retired
stays away. An answer counts only if the stream was the served incarnation after it.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from nats3_dagster.archive.served.served_stream import ServedStream
from nats3_dagster.errors import StreamChanged, UnknownStream
from nats3_dagster.jetstream.api import Refused
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.read.contents import exact_json, last_json, next_json
from nats3_dagster.jetstream.read.count import messages_from
from nats3_dagster.jetstream.read.leader_read import row_of
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import same_stream, same_stream_info
from nats3_dagster.model import Message, SeqRange, StreamState
from nats3_dagster.model.stream import MAX_SEQUENCE, clipped
from nats3_dagster.subjects import selects
from nats3_dagster.workspace import Workspace

T = TypeVar("T")


def state(workspace: Workspace, served: ServedStream) -> StreamState | None:
    """The stream, if it is the served incarnation; None if it is gone, or another one. Raises SourceError."""
    with suppress(StreamChanged, UnknownStream):
        return same_stream(workspace.link, served.incarnation)
    return None


def ranges(workspace: Workspace, served: ServedStream, first: int, last: int = MAX_SEQUENCE) -> tuple[SeqRange, ...]:
    """The sequences from `first` to `last` that the archive does not account for, ascending: holes before its end, and
    what comes after it."""
    coverage, found = served.coverage, list[SeqRange]()
    if first <= coverage.last:
        within = SeqRange(max(first, coverage.start), coverage.last)
        found += workspace.catalog.coverage.missing(served.archive, served.incarnation, within)
    found.append(SeqRange(max(first, coverage.last + 1), MAX_SEQUENCE))
    return tuple(clipped(found, SeqRange(first, last)))


def exact(workspace: Workspace, served: ServedStream, seq: int) -> Message | None:
    """The message of a sequence that the archive does not account for. Raises SourceError."""
    if not ranges(workspace, served, seq, seq):
        return None
    return _taken(served, _ask(workspace, served, lambda client: exact_json(client, served.incarnation.stream, seq)))


def next_of(workspace: Workspace, served: ServedStream, subject: str, first: int, last: int) -> Message | None:
    """The first message of a subject filter within these sequences. Raises SourceError."""
    for part in ranges(workspace, served, first, last):
        at = part.first
        while at <= part.last:
            found = _ask(
                workspace, served, lambda client, at=at: next_json(client, served.incarnation.stream, at, subject)
            )
            if found is None:
                return None  # the stream has none of it at all
            if int(found["seq"]) > part.last:
                break
            if message := _taken(served, found):
                return message
            at = int(found["seq"]) + 1
    return None


def last_of(workspace: Workspace, served: ServedStream, subject: str, first: int, last: int) -> Message | None:
    """The last message of a subject filter within these sequences. Raises SourceError."""
    for part in ranges(workspace, served, first, last)[::-1]:
        until = part.last
        while until >= part.first:
            within = SeqRange(part.first, until)
            found = _ask(
                workspace, served, lambda client, w=within: last_json(client, served.incarnation.stream, w, subject)
            )
            if found is None:
                break
            if message := _taken(served, found):
                return message
            until = int(found["seq"]) - 1
    return None


def count(workspace: Workspace, served: ServedStream, subject: str | None, first: int) -> int:
    """The number of messages at this sequence or later that the archive does not have, and that the filter takes; all
    their sequences where the stream cannot count them. Raises SourceError."""
    now, total = state(workspace, served), 0
    if now is None:
        return 0
    for part in ranges(workspace, served, max(first, now.first_seq), now.last_seq):
        filters = [subject] if subject else [*served.archive.spec.subjects]
        exact: int | None = None
        # A consumer counts to the end of the stream: not within a hole.
        if part.last == now.last_seq:
            exact = _ask(
                workspace, served, lambda client, p=part, f=filters: messages_from(client, now.name, p.first, f)
            )
        total += part.size if exact is None else exact
    return total


def batches(
    workspace: Workspace, served: ServedStream, subjects: Sequence[str], part: SeqRange
) -> Iterator[pa.RecordBatch]:
    """Batches of MESSAGES of these sequences, which the archive does not account for. `subjects`: filters; one
    must take a message. Raises SourceError."""
    now = state(workspace, served)
    if now is None:
        return
    until = min(part.last, now.last_seq)
    if part.first <= until:
        with suppress(StreamChanged, UnknownStream):
            yield from read_batches(
                workspace.settings.nats,
                ReadSpec(served.incarnation, SeqRange(part.first, until), tuple(subjects)),
            )


def is_archived_subject(served: ServedStream, seq: int, subject: str) -> bool:
    """True if the archive takes this subject at this sequence."""
    for _, filters in served.archive.filters(served.incarnation, SeqRange(seq, seq)):
        return selects(filters, subject)
    return False


def _ask(workspace: Workspace, served: ServedStream, ask: Callable[[Connection], Coroutine[Any, Any, T]]) -> T | None:
    """The stream's answer; None if the stream is not, or not any more, the served incarnation. Raises SourceError."""

    async def work(client: Connection) -> T:
        answer = await ask(client)
        # Asked last: a stream that was made again meanwhile answered for the one that was asked for.
        await same_stream_info(client, served.incarnation)
        return answer

    try:
        return workspace.link.call(work)
    except (StreamChanged, UnknownStream):
        return None
    except Refused as error:
        if error.code == ErrCode.STREAM_NOT_FOUND:
            return None
        raise


def _taken(served: ServedStream, found: dict[str, Any] | None) -> Message | None:
    """The message of the server's JSON; None if the archive does not take its subject. Raises SourceError for a subject
    that JSON cannot carry."""
    if found is None or not is_archived_subject(served, int(found["seq"]), found["subject"]):
        return None
    row = row_of(served.incarnation.stream, found, "Read it when it is archived")
    return Message(incarnation=served.incarnation, **row)
