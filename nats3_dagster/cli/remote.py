"""The HTTP API of another machine in place of the catalog: `--server`, or the setting `server_url`.

Invariant: what the API gives is shown in the same tables and documents as what the catalog gives; what it does not give
is null there.
"""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from nats3_dagster.archive.jobs import as_id
from nats3_dagster.errors import Nats3Error, OperatorError, Unknown, from_json
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Incarnation, Message
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.views.replays import SHARED
from nats3_dagster.views.values import ratio

# Seconds: a pause of a replay is answered when it has stopped.
_CONNECT_S, _ANSWER_S = 5.0, 120.0
# Fields of a message that a document has in base64.
_BYTES = ("subject_bytes", "headers", "data")
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
        self._place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def archives(self) -> list[dict[str, Any]]:
        return [archive_of(job) for job in self._ask("GET", "/store/jobs")]

    def archive(self, name: str) -> dict[str, Any]:
        """By id, name, or name of its job."""
        job = self._find("store", name)
        document = archive_of(job)
        if job["error"] or job["lag"] is None:
            return document
        lag = self._ask("GET", "/store/job/lag", job_id=job["id"])
        return document | {"oldest_uncaptured_s": lag["seconds"], "time_to_loss": lag["time_to_loss"]}

    def create_archive(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._ask("POST", "/store/job", body=body)
        return archive_of(job) | {"warning": job["warning"]}

    def act_on_archive(self, name: str, action: str) -> dict[str, Any]:
        """`action`: pause or resume."""
        return archive_of(self._ask("POST", f"/store/job/{action}", job_id=self._find("store", name)["id"]))

    def delete_archive(self, job_id: str, *, purge: bool, keep_consumer: bool) -> dict[str, Any]:
        return self._ask("DELETE", "/store/job", job_id=job_id, purge=purge, keep_consumer=keep_consumer)

    def replays(self, archive: str | None, limit: int) -> list[dict[str, Any]]:
        filters: dict[str, Any] = {"limit": limit} | ({"archive": archive} if archive else {})
        return [replay_of(job) for job in self._ask("GET", "/load/jobs", **filters)]

    def replay(self, name: str) -> dict[str, Any]:
        """By id of the job or the replay, or name of its job."""
        return replay_of(self._find("load", name))

    def progress(self, name: str) -> dict[str, Any]:
        """How far a load job is (views.load_jobs.progress); by id of the job or the replay, or name of its job."""
        job_id = name if as_id(name) else self._find("load", name)["id"]
        return self._ask("GET", "/load/job/progress", job_id=job_id)

    def create_replay(self, body: dict[str, Any]) -> dict[str, Any]:
        """The replay; or its plan, if the body asks for a dry run."""
        answer = self._ask("POST", "/load/job", body=body)
        return answer if body.get("dry_run") else replay_of(answer)

    def act_on_replay(self, name: str, action: str) -> dict[str, Any]:
        """`action`: pause or resume."""
        return replay_of(self._ask("POST", f"/load/job/{action}", job_id=self._find("load", name)["id"]))

    def delete_replay(self, job_id: str) -> None:
        self._ask("DELETE", "/load/job", job_id=job_id)

    def chunks(self, name: str, hours: list[str] | None) -> list[dict[str, Any]]:
        """All pages of an archive's chunks."""
        chunks, cursor = list[dict[str, Any]](), None
        filters: dict[str, Any] = {"job_id": name} if as_id(name) else {"archive": name}
        filters |= {"limit": 1000} | ({"hour": hours} if hours else {})
        while True:
            page = self._ask("GET", "/chunks", **filters, **({"cursor": cursor} if cursor else {}))
            chunks += page["chunks"]
            cursor = page["next"]
            if cursor is None:
                return chunks

    def message(self, archive: str, which: str, **parameters: Any) -> Message:
        """`which`: nothing, /next or /last."""
        return message_of(self._ask("GET", _message_path(archive) + which, **_given(parameters)))

    def reference(self, archive: str, **parameters: Any) -> dict[str, Any]:
        return self._ask("GET", _message_path(archive) + "/ref", **_given(parameters))

    def _find(self, kind: str, name: str) -> dict[str, Any]:
        if as_id(name):
            return self._ask("GET", f"/{kind}/job", job_id=name)
        jobs = self._ask("GET", f"/{kind}/jobs")
        # The own name of an archive, or the id of a replay, before the name of a job.
        for field in ("archive" if kind == "store" else "replay", "name"):
            for job in jobs:
                if job[field] == name:
                    return job
        if kind == "store":
            raise Unknown(f"There is no archive {name}", Next.LIST_ARCHIVES())
        raise Unknown(f"There is no replay {name}", Next.LIST_REPLAYS())

    def _ask(self, method: str, path: str, *, body: Any = None, **parameters: Any) -> Any:
        import httpx2

        try:
            answer = self._client.request(method, path, params=parameters, json=body)
            document = answer.json() if answer.content else None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise Nats3Error(
                f"The server {self._place} does not answer as nats3 serve does ({type(error).__name__})",
                "Start it there, or correct --server or NATS3_SERVER_URL",
            ) from None
        if answer.is_success:
            return document
        raise self._error(answer.status_code, document)

    def _error(self, status: int, document: Any) -> Nats3Error:
        """The error that the server had, its next step in the words of commands."""
        if status in (401, 403):
            return Nats3Error(
                f"The server {self._place} does not let us do this (HTTP {status})",
                "Give a token that may, in NATS3_SERVER_TOKEN or in the file that NATS3_SERVER_TOKEN_FILE names",
            )
        if not isinstance(document, dict) or "error" not in document:
            return Nats3Error(f"The server {self._place} answers HTTP {status}", "Is it nats3 serve?")
        known = document.get("code") in Next.__members__
        step = {"code": document["code"], "values": document["values"]} if known else None
        fields = {"kind": document["title"], "what": document["error"], "hint": document["next"] or "", "step": step}
        error = from_json(json.dumps(fields))
        return OperatorError(error.what, error.hint) if type(error) is Nats3Error and status in _OUR_FAULT else error


def message_of(document: dict[str, Any]) -> Message:
    """The message of a document (views.messages.message)."""
    raw: dict[str, Any] = {name: document[name] and base64.b64decode(document[name]) for name in _BYTES}
    return Message(
        incarnation=Incarnation(document["stream"], _created_ns(document["incarnation"])), seq=document["seq"],
        time_ns=parse_time(document["time"]), subject=document["subject"],
        **(raw | {"data": raw["data"] or b""}),
    )  # fmt: skip


def _created_ns(token: str) -> int:
    """When the stream of an incarnation was made, from `20261121T075644123456789Z`."""
    return parse_time(re.sub(r"(....)(..)(..T..)(..)(..)(.{9}Z)", r"\1-\2-\3:\4:\5.\6", token))


def _message_path(archive: str) -> str:
    return f"/archive/{quote(archive, safe='')}/message"


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def archive_of(job: dict[str, Any]) -> dict[str, Any]:
    """The document of an archive (views.archives.totals) from its store job."""
    same = (
        "stream", "subjects", "bucket", "mode", "max_messages", "max_bytes", "max_age_s", "zstd_level", "paused", "lag",
        "chunks", "messages", "payload_bytes", "stored_bytes", "first_time", "last_time",
    )  # fmt: skip
    return {
        "name": job["archive"], "prefix": job["prefix"] or "", "durable": job["consumer"], "job_id": job["id"],
        "job_name": job["name"], "created_at": job["created"], "updated_at": job["updated"],
        "source": {"state": "error" if job["error"] else "ok", "error": job["error"], "hint": job["next"]},
        "ratio": ratio(job["payload_bytes"], job["stored_bytes"]), **{name: job[name] for name in same},
    }  # fmt: skip


def replay_of(job: dict[str, Any]) -> dict[str, Any]:
    """The document of a replay (views.replays.replay) from its load job."""
    poll = job["poll_interval"]
    return {
        "id": job["replay"], "job_id": job["id"], "created_at": job["created"], "error": job["error"],
        "poll_interval_s": poll and poll["secs"] + poll["nanos"] / 1e9, **{name: job[name] for name in SHARED},
        **dict.fromkeys(
            ("chunks_waiting", "selected", "found", "duplicates", "expired", "started_at", "finished_at", "log")
        ),
    }  # fmt: skip
