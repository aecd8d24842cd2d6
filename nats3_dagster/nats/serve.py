"""The server of the domain: it listens, hands requests to workers in turn, and sends their replies.

Invariant: several processes may serve one domain, and each request is answered by one of them. A domain that another
program or a server has is not taken.
"""

import json
import logging
import threading
import time
from types import TracebackType
from typing import Self

from nats3_dagster.archive.served.permissions import check_domain
from nats3_dagster.documents.domain_metrics import DomainCounts
from nats3_dagster.errors import Nats3Error, OperatorError, SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.responder import Reply, Request, Responder
from nats3_dagster.nats import replies
from nats3_dagster.nats.domain import Domain
from nats3_dagster.nats.service import Service
from nats3_dagster.nats.turns import Turns
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
DOMAIN = "archive"
QUEUE = "nats3-archive"
# Requests that are worked on at a time: each may wait for the catalog and the store.
WORKERS = 8
# Bytes of one answer that are sent before the server is known to have read them.
_PART = 1 << 20
# How long a program that has the domain may take to say so.
_ASK_S = 2.0
# Between attempts to connect again, after the connection was given up.
_AGAIN_S = 1.0
# How long requests that are under way may take when the server ends.
GRACE_S = 60.0


class DomainServer:
    """`with DomainServer(settings, domain): ...` serves until it is left; requests that wait are answered first.

    Where NATS does not answer it serves as soon as it does. Making it raises OperatorError for a name that is none;
    entering it where another program has the domain."""

    def __init__(self, settings: Settings, domain: str = DOMAIN) -> None:
        self._settings, self._domain = settings, check_domain(domain)
        self._turns, self._ending = Turns(), threading.Event()
        self._responder: Responder | None = None
        self._link: Link | None = None

    def __enter__(self) -> Self:
        self._workspace = Workspace(self._settings)
        self._served = Domain(self._workspace, self._domain, lambda: self._open_responder.max_payload)
        self._service = Service(f"{self._served.api}.>", QUEUE, {"domain": self._domain})
        try:
            self._link = self._listen()
        except SourceError as error:
            log.warning("The domain %s waits for NATS: %s", self._domain, error)
        except BaseException:
            self._workspace.close()
            raise
        # Daemons: a server ends though Postgres never answers.
        self._threads = [threading.Thread(target=self._work, name=f"domain-{n}", daemon=True) for n in range(WORKERS)]
        self._threads.append(threading.Thread(target=self._stay, name="domain-link", daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._turns.end()
        until = time.monotonic() + GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if self._link:
            self._link.__exit__(None, None, None)
        self._workspace.close()

    @property
    def counts(self) -> DomainCounts:
        """Returns the numbers of requests so far."""
        return self._service.counts(self._domain)

    @property
    def _open_responder(self) -> Responder:
        assert self._responder is not None
        return self._responder

    def _listen(self) -> Link:
        """A connection that listens. Raises OperatorError, SourceError."""
        link = Link(self._settings.nats).__enter__()
        try:
            responder = Responder(link)
            self._check_free(link, responder)
            self._responder = responder
            for subject, verb in self._service.subjects:
                responder.listen(subject, "", lambda request, v=verb: self._discover(request, v))
            responder.listen(f"{self._served.api}.>", QUEUE, self._on_request)
        except BaseException:
            link.__exit__(None, None, None)
            raise
        return link

    def _check_free(self, link: Link, responder: Responder) -> None:
        """Raises OperatorError if the domain is a server's or another program's."""
        if link.client.info.get("domain") == self._domain:
            raise OperatorError(f"The NATS server itself has the domain {self._domain}", "Choose another name for it")
        answer = responder.ask(f"{self._served.api}.INFO", _ASK_S)
        if answer is None:
            return
        try:
            is_nats3 = "nats3" in json.loads(answer)
        except ValueError:
            is_nats3 = False
        if not is_nats3:
            raise OperatorError(
                f"Another program or server answers for the domain {self._domain}", "Choose another name for it"
            )

    def _stay(self) -> None:
        """Connect again whenever the connection was given up."""
        while not self._ending.wait(_AGAIN_S):
            if self._link and not self._link.is_closed:
                continue
            try:
                self._link = self._listen()
                log.warning("The domain %s is served", self._domain)
            except Nats3Error as error:
                log.warning("The domain %s is not served: %s", self._domain, error)

    def _discover(self, request: Request, verb: str) -> None:
        self._open_responder.send(request.reply, [Reply(b"", self._service.answer(verb))])

    def _on_request(self, request: Request) -> None:
        if self._turns.put(request):
            return
        self._refuse(request, 429, "too many requests wait: ask again later")
        self._service.count(0, "too many requests wait")

    def _refuse(self, request: Request, code: int, text: str) -> None:
        """Answer that there is no answer."""
        if ".DIRECT.GET." in request.subject:
            reply = Reply(replies.status(f"{code} {text}"))
        else:
            reply = Reply(b"", replies.error("error", code, ErrCode.NO_RESOURCES, text))
        self._open_responder.send(request.reply, [reply])

    def _work(self) -> None:
        while request := self._turns.take():
            began = time.monotonic_ns()
            error = ""
            try:
                error = self._answer(request)
            except SourceError as lost:
                error = str(lost)  # the connection: who asked asks again
            except Exception:
                log.exception("A request on %s failed", request.subject)
                error = "internal error"
                self._refuse(request, 500, error)
            self._service.count(time.monotonic_ns() - began, error)

    def _answer(self, request: Request) -> str:
        """Send the replies as they come; the error that they tell, or an empty text. Raises SourceError."""
        responder, part, size, error = self._open_responder, list[Reply](), 0, ""
        for reply in self._served.answer(request.subject, request.data):
            error = error or _error_of(reply)
            part.append(reply)
            size += reply.size
            if size >= _PART:
                responder.send(request.reply, part)
                responder.drain()
                part, size = [], 0
        fault_point("domain.answered")
        responder.send(request.reply, part)
        return error


def _error_of(reply: Reply) -> str:
    if reply.headers.startswith(b"NATS/1.0 5"):
        return reply.headers.partition(b"\r\n")[0].decode(errors="replace")
    if b'"error":{"code":5' in reply.data[:200]:
        return reply.data[:300].decode(errors="replace")
    return ""
