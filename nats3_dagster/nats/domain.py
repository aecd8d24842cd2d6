"""The domain: each request of its API, and what answers it.

Invariant: what would make or change anything is refused. What fails is an error that says so, never less than was asked
for.
"""

import logging
from collections.abc import Callable, Iterator

from nats3_dagster.archive.served.permissions import api_of
from nats3_dagster.archive.served.served_stream import ServedStream, ServedStreams
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.responder import Reply
from nats3_dagster.nats import replies, stream_documents
from nats3_dagster.nats.get_request import BadRequest, GetRequest, parse
from nats3_dagster.nats.messages import Messages
from nats3_dagster.nats.refusals import refusal
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


class Domain:
    """Answers for all archives. Several threads may ask."""

    def __init__(self, workspace: Workspace, domain: str, max_payload: Callable[[], int]) -> None:
        self._workspace, self.name, self._max_payload = workspace, domain, max_payload
        self.api = api_of(domain)
        self._streams = ServedStreams(workspace)

    def answer(self, subject: str, payload: bytes) -> Iterator[Reply]:
        """The replies to a request on a subject of the API."""
        operation = subject.removeprefix(f"{self.api}.")
        if operation.startswith("DIRECT.GET."):
            yield from self._direct(operation.removeprefix("DIRECT.GET."), payload)
            return
        kind, answer = self._route(operation)
        try:
            data = answer(payload)
        except BadRequest:
            data = replies.error(kind, 400, ErrCode.BAD_REQUEST, "bad request")
        except ValueError as error:
            data = replies.error(kind, 400, ErrCode.INVALID_JSON, f"invalid JSON: {error}")
        except OperatorError as error:
            data = replies.error(kind, 400, ErrCode.BAD_REQUEST, str(error))
        except Nats3Error as error:
            log.warning("%s: %s", operation, error)
            data = replies.error(kind, 503, ErrCode.NO_RESOURCES, str(error))
        if len(data) > self._max_payload():
            text = f"The answer has {len(data)} bytes, more than max_payload: use a direct get, or ask for less"
            data = replies.error(kind, 500, ErrCode.NO_RESOURCES, text)
        yield Reply(b"", data)

    def _route(self, operation: str) -> tuple[str, Callable[[bytes], bytes]]:
        """The kind of the answer, and what makes it."""
        what, _, stream = operation.rpartition(".")
        if operation == "INFO":
            return "account_info_response", self._account
        if operation == "STREAM.NAMES":
            return "stream_names_response", self._stream_names
        if operation == "STREAM.LIST":
            return "stream_list_response", self._stream_list
        if what == "STREAM.INFO":
            return "stream_info_response", lambda payload: self._stream_info(stream, payload)
        if what == "STREAM.MSG.GET":
            return "stream_msg_get_response", lambda payload: self._message(stream, payload)
        return "", lambda _: refusal(operation)

    def _account(self, _: bytes) -> bytes:
        return stream_documents.account_info(self.name, len(self._streams.names()))

    def _stream_names(self, payload: bytes) -> bytes:
        asked = stream_documents.request_body(payload)
        chosen = [served.name for served in self._chosen(asked)] if asked.get("subject") else [*self._streams.names()]
        return stream_documents.names(chosen, stream_documents.offset_of(asked))

    def _stream_list(self, payload: bytes) -> bytes:
        asked = stream_documents.request_body(payload)
        offset, chosen = stream_documents.offset_of(asked), self._chosen(asked)
        page = chosen[offset : offset + stream_documents.LIST_PAGE]
        infos = [stream_documents.stream(self._workspace, served, self.name) for served in page]
        return stream_documents.listing(infos, len(chosen), offset)

    def _chosen(self, asked: dict[str, object]) -> list[ServedStream]:
        """The streams of a listing, by name; those that take something of its subject."""
        found = [self._streams.find(name) for name in self._streams.names()]
        subject = str(asked.get("subject") or ">")
        return [served for served in found if served and stream_documents.takes(self._workspace, served, subject)]

    def _stream_info(self, stream: str, payload: bytes) -> bytes:
        served = self._streams.find(stream)
        if served is None:
            return _no_stream("stream_info_response")
        return stream_documents.info(self._workspace, served, self.name, payload)

    def _message(self, stream: str, payload: bytes) -> bytes:
        served = self._streams.find(stream)
        if served is None:
            return _no_stream("stream_msg_get_response")
        try:
            asked = parse(payload)
        except BadRequest as error:
            if str(error) == "Malformed Request":
                raise ValueError("it is no request for a message") from error
            raise
        found = Messages(self._workspace, served, self._max_payload()).stored(asked)
        return found or replies.error("stream_msg_get_response", 404, ErrCode.MESSAGE_NOT_FOUND, "no message found")

    def _direct(self, rest: str, payload: bytes) -> Iterator[Reply]:
        stream, _, subject = rest.partition(".")
        try:
            served = self._streams.find(stream)
            if served is None:
                # A server without the stream sends nothing, and the client's own server says that no process listens.
                yield Reply(replies.status("503"))
                return
            yield from Messages(self._workspace, served, self._max_payload()).direct(_direct_request(subject, payload))
        except BadRequest as error:
            yield Reply(replies.status(f"408 {error}"))
        except OperatorError as error:
            yield Reply(replies.status(f"408 {_one_line(error)}"))
        except Nats3Error as error:
            log.warning("DIRECT.GET.%s: %s", rest, error)
            yield Reply(replies.status(f"500 {_one_line(error)}"))


def _direct_request(subject: str, payload: bytes) -> GetRequest:
    """The request of a direct get; `subject`: where it names one. Raises BadRequest."""
    if not subject:
        return parse(payload)
    asked = parse(payload) if payload else GetRequest()
    if asked != GetRequest(no_headers=asked.no_headers):
        raise BadRequest("Bad Request")
    return GetRequest(last_by_subj=subject, no_headers=asked.no_headers)


def _no_stream(kind: str) -> bytes:
    return replies.error(kind, 404, ErrCode.STREAM_NOT_FOUND, "stream not found")


def _one_line(error: Nats3Error) -> str:
    """The error as a status has it: one line."""
    return " ".join(str(error).split())
