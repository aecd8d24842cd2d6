"""Messages: the answers of STREAM.MSG.GET and DIRECT.GET (ADR-31; nats-server 2.15, stream.go)."""

from collections.abc import Iterator

from nats3_dagster.archive.served import several, single
from nats3_dagster.archive.served.served_stream import ServedStream
from nats3_dagster.jetstream.responder import Reply
from nats3_dagster.model import Message
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.nats import replies
from nats3_dagster.nats.get_request import BadRequest, GetRequest
from nats3_dagster.workspace import Workspace

# Bytes of a batch where the request wants more, or does not say: the next one goes on after it. A server has 64 MiB.
BATCH_BYTES = 8 << 20
# Subjects of a `multi_last`, as a server has it.
MOST_SUBJECTS = 1024
NOT_FOUND, NO_RESULTS, TOO_MANY = "404 Message Not Found", "404 No Results", "413 Too Many Results"


class Messages:
    """Answers about one served stream."""

    def __init__(self, workspace: Workspace, served: ServedStream, max_payload: int) -> None:
        self._workspace, self._served, self._max_payload = workspace, served, max_payload

    def stored(self, asked: GetRequest) -> bytes | None:
        """The answer of STREAM.MSG.GET; None if there is no such message. Raises BadRequest, Nats3Error."""
        conflict = asked.contradicts_itself or asked.is_empty or asked.batch or asked.max_bytes or asked.multi_last
        if conflict:
            raise BadRequest("Bad Request")
        message = self._one(asked)
        return message and replies.message_document(message, with_headers=not asked.no_headers)

    def direct(self, asked: GetRequest) -> Iterator[Reply]:
        """The answer of DIRECT.GET. Raises BadRequest, Nats3Error."""
        if asked.is_empty:
            raise BadRequest("Empty Request")
        if asked.contradicts_itself:
            raise BadRequest("Bad Request")
        if asked.multi_last:
            yield from self._last_values(asked)
        elif asked.batch:
            yield from self._batch(asked)
        elif message := self._one(asked):
            yield self._reply(message, with_headers=not asked.no_headers)
        else:
            yield _status(NOT_FOUND)

    def _one(self, asked: GetRequest) -> Message | None:
        if asked.last_by_subj:
            return single.last_of(self._workspace, self._served, asked.last_by_subj)
        seq = self._first(asked)
        if asked.next_by_subj:
            return single.next_of(self._workspace, self._served, asked.next_by_subj, max(seq, 1))
        return single.by_sequence(self._workspace, self._served, seq)

    def _first(self, asked: GetRequest) -> int:
        if asked.start_ns is None:
            return asked.seq
        return single.sequence_at(self._workspace, self._served, asked.start_ns)

    def _batch(self, asked: GetRequest) -> Iterator[Reply]:
        seq, subject = max(self._first(asked), 1), asked.next_by_subj or None
        most = min(asked.max_bytes or BATCH_BYTES, BATCH_BYTES)
        pending = several.pending(self._workspace, self._served, subject, seq)
        last = sent = size = 0
        for message in several.scan(self._workspace, self._served, subject, seq):
            pending = max(0, pending - 1)
            yield self._reply(message, with_headers=not asked.no_headers, pending=(pending, last))
            last, sent, size = message.seq, sent + 1, size + _size(message)
            if sent >= asked.batch or size >= most:
                break
        else:
            pending = 0
        # Of one message alone a server says that there is none; after any other request comes the end of the batch.
        if not sent:
            yield _status(NOT_FOUND)
        else:
            yield _status("204 EOB", {"Nats-Num-Pending": pending, "Nats-Last-Sequence": last})

    def _last_values(self, asked: GetRequest) -> Iterator[Reply]:
        until = asked.up_to_seq
        if asked.up_to_ns is not None:
            until = single.sequence_at(self._workspace, self._served, asked.up_to_ns) - 1
            if until < self._served.coverage.start:
                yield _status(NO_RESULTS)
                return
        values = several.last_values(
            self._workspace, self._served, asked.multi_last, self._first(asked), until or MAX_SEQUENCE, MOST_SUBJECTS
        )
        if not values:
            yield _status(TOO_MANY if values is None else NO_RESULTS)
            return
        most, batch = min(asked.max_bytes or BATCH_BYTES, BATCH_BYTES), asked.batch or len(values)
        pending, last, size = len(values), 0, 0
        for message in values[:batch]:
            pending -= 1
            yield self._reply(message, with_headers=True, pending=(pending, last))
            last, size = message.seq, size + _size(message)
            if size >= most:
                break
        until = until or single.last_sequence(self._workspace, self._served)
        fields = {"Nats-Num-Pending": pending, "Nats-Last-Sequence": last, "Nats-UpTo-Sequence": until}
        yield _status("204 EOB", fields)

    def _reply(self, message: Message, *, with_headers: bool, pending: tuple[int, int] | None = None) -> Reply:
        headers = replies.message_headers(self._served.name, message, pending=pending) if with_headers else b""
        reply = Reply(headers, message.data)
        if reply.size > self._max_payload:
            # The server would hang up. It keeps its own messages from this by not counting what it adds.
            return _status(f"500 Message {message.seq} has {reply.size} bytes with its headers: more than max_payload")
        return reply


def _status(text: str, fields: dict[str, int] | None = None) -> Reply:
    return Reply(replies.status(text, fields))


def _size(message: Message) -> int:
    """Bytes as a batch counts them."""
    return len(message.exact_subject) + len(message.headers or b"") + len(message.data)
