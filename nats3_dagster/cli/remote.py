"""The HTTP API of another machine in place of the catalog: `--server`, or the setting `server_url`.

Invariant: what the API gives is shown in the same tables and documents as what the catalog gives.
"""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from nats3_dagster.archive.lifecycle.jobs import as_id
from nats3_dagster.documents.archives import Archive, CreatedArchive, DeletedArchive
from nats3_dagster.documents.base import Document
from nats3_dagster.documents.chunks import ChunkPage
from nats3_dagster.documents.holdings import ArchiveDetail
from nats3_dagster.documents.messages import Message as MessageDocument
from nats3_dagster.documents.messages import MessageReference
from nats3_dagster.documents.replay_plans import ReplayPlan
from nats3_dagster.documents.replays import Replay, ReplayProgress
from nats3_dagster.errors import Nats3Error, OperatorError, Unknown, from_json
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Incarnation, Message
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next

# Seconds: a pause of a replay is answered when it has stopped.
_CONNECT_S, _ANSWER_S = 5.0, 120.0
_OUR_FAULT = (400, 404, 405, 413, 422)


@contextmanager
def server(settings: Settings, *, here: bool = False) -> Iterator["Server | None"]:
    """The API that commands ask; None where they ask the catalog, as with `here`."""
    if here or not settings.server_url:
        yield None
        return
    import httpx2  # 0.5 s

    secret = settings.server_token
    headers = {"Authorization": f"Bearer {secret.get_secret_value()}"} if secret else {}
    timeout = httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S)
    url = settings.server_url.rstrip("/") + "/api/v1"
    with httpx2.Client(base_url=url, headers=headers, timeout=timeout) as client:
        yield Server(client, settings.server_url)


class Server:
    """Requests, and the documents that the catalog would give. Raises Nats3Error."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        parts = urlsplit(url)
        self._name = f"The server {parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def archives(self) -> list[dict[str, Any]]:
        return [self._read(Archive, job) for job in self._ask("GET", "/store/jobs")]

    def archive(self, name: str) -> dict[str, Any]:
        """Finds it by id, name, or name of its job."""
        return self._read(ArchiveDetail, self._ask("GET", _path(self._archive(name))))

    def create_archive(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._read(CreatedArchive, self._ask("POST", "/store/job", body=body))

    def act_on_archive(self, name: str, action: str) -> dict[str, Any]:
        """`action`: pause or resume."""
        job_id = name if as_id(name) else self.archive(name)["id"]
        return self._read(Archive, self._ask("POST", f"/store/job/{action}", job_id=job_id))

    def delete_archive(self, job_id: str, *, purge: bool, keep_consumer: bool) -> DeletedArchive:
        gone = self._ask("DELETE", "/store/job", job_id=job_id, purge=purge, keep_consumer=keep_consumer)
        return DeletedArchive.read(gone, self._name)

    def replays(self, archive: str | None, limit: int) -> list[dict[str, Any]]:
        filters: dict[str, Any] = {"limit": limit} | ({"archive": archive} if archive else {})
        return [self._read(Replay, job) for job in self._ask("GET", "/load/jobs", **filters)]

    def replay(self, name: str) -> dict[str, Any]:
        """Finds it by id of the job or the replay, or name of its job."""
        return self._read(Replay, self._find(name))

    def progress(self, name: str) -> ReplayProgress:
        """Finds it by id of the job or the replay, or name of its job."""
        job_id = name if as_id(name) else self._find(name)["id"]
        return ReplayProgress.read(self._ask("GET", "/load/job/progress", job_id=job_id), self._name)

    def create_replay(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._read(Replay, self._ask("POST", "/load/job", body=body))

    def plan_replay(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._read(ReplayPlan, self._ask("POST", "/load/job", body=body | {"dry_run": True}))

    def act_on_replay(self, name: str, action: str) -> dict[str, Any]:
        """`action`: pause or resume."""
        return self._read(Replay, self._ask("POST", f"/load/job/{action}", job_id=self._find(name)["id"]))

    def delete_replay(self, job_id: str) -> None:
        self._ask("DELETE", "/load/job", job_id=job_id)

    def chunks(self, name: str, hours: list[str] | None) -> list[dict[str, Any]]:
        """All pages of an archive's chunks."""
        chunks, cursor = list[dict[str, Any]](), None
        filters: dict[str, Any] = {"job_id": name} if as_id(name) else {"archive": name}
        filters |= {"limit": 1000} | ({"hour": hours} if hours else {})
        while True:
            answer = self._ask("GET", "/chunks", **filters, **({"cursor": cursor} if cursor else {}))
            page = self._read(ChunkPage, answer)
            chunks += page["chunks"]
            cursor = page["next"]
            if cursor is None:
                return chunks

    def message(self, archive: str, which: str, **parameters: Any) -> Message:
        """`which`: nothing, /next or /last."""
        answer = self._ask("GET", f"{_path(archive)}/message{which}", **_given(parameters))
        return message_of(MessageDocument.read(answer, self._name))

    def reference(self, archive: str, **parameters: Any) -> dict[str, Any]:
        return self._read(MessageReference, self._ask("GET", f"{_path(archive)}/message/ref", **_given(parameters)))

    def _read(self, document: type[Document], answer: object) -> dict[str, Any]:
        return document.read(answer, self._name).plain()

    def _archive(self, name: str) -> str:
        """An archive's name as it is, and the id for a job's name with characters that an address reads otherwise."""
        if as_id(name) or re.fullmatch(r"\w+", name, re.ASCII):
            return name
        for job in self._ask("GET", "/store/jobs"):
            if job["name"] == name:
                return job["id"]
        raise Unknown(f"There is no archive {name}", Next.LIST_ARCHIVES())

    def _find(self, name: str) -> dict[str, Any]:
        """The load job of a name."""
        if as_id(name):
            return self._ask("GET", "/load/job", job_id=name)
        # The id of a replay before the name of a job; the newest job of a name.
        filters = [{"replay": name}] if re.fullmatch("[0-9a-f]{16}", name) else []
        for one in (*filters, {"name": name}):
            if jobs := self._ask("GET", "/load/jobs", **one, limit=1):
                return jobs[0]
        raise Unknown(f"There is no replay {name}", Next.LIST_REPLAYS())

    def _ask(self, method: str, path: str, *, body: Any = None, **parameters: Any) -> Any:
        import httpx2

        try:
            answer = self._client.request(method, path, params=parameters, json=body)
            document = answer.json() if answer.content else None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise Nats3Error(
                f"{self._name} does not answer as nats3 serve does ({type(error).__name__})",
                "Start it there, or correct --server or NATS3_SERVER_URL",
            ) from None
        if answer.is_success:
            return document
        raise self._error(answer.status_code, document)

    def _error(self, status: int, document: Any) -> Nats3Error:
        """The error that the server had, its next step in the words of commands."""
        if status in (401, 403):
            return Nats3Error(
                f"{self._name} refuses this request (HTTP {status})",
                "Give a token that may, in NATS3_SERVER_TOKEN or in the file that NATS3_SERVER_TOKEN_FILE names",
            )
        if not isinstance(document, dict) or "error" not in document:
            return Nats3Error(f"{self._name} answers HTTP {status}", "Is it nats3 serve?")
        known = document.get("code") in Next.__members__
        step = {"code": document["code"], "values": document["values"]} if known else None
        fields = {"kind": document["title"], "what": document["error"], "hint": document["next"] or "", "step": step}
        error = from_json(json.dumps(fields))
        return OperatorError(error.what, error.hint) if type(error) is Nats3Error and status in _OUR_FAULT else error


def message_of(document: MessageDocument) -> Message:
    """The message of a document."""
    return Message(
        incarnation=Incarnation(document.stream, _created_ns(document.incarnation)),
        seq=document.seq,
        time_ns=parse_time(document.time),
        subject=document.subject,
        subject_bytes=_decoded(document.subject_bytes),
        headers=_decoded(document.headers),
        data=base64.b64decode(document.data),
    )


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _created_ns(token: str) -> int:
    """Returns the time when the stream of an incarnation was made, from `20261121T075644123456789Z`."""
    return parse_time(re.sub(r"(....)(..)(..T..)(..)(..)(.{9}Z)", r"\1-\2-\3:\4:\5.\6", token))


def _path(archive: str) -> str:
    return f"/archive/{quote(archive, safe='')}"


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
