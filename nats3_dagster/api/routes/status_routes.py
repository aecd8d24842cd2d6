"""`/ping` and `/ready`: whether the server answers, and whether what it needs does."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.security import ACCESS
from nats3_dagster.api.wording import WORDS
from nats3_dagster.archive.health.readiness import nats_answers, postgres_answers, store_answers
from nats3_dagster.documents.base import Document
from nats3_dagster.errors import EngineError, Nats3Error
from nats3_dagster.runs.webserver import FAILURES, ask, brief
from nats3_dagster.workspace import Workspace

# How long each part may take, in seconds: who asks every 5 s has an answer before the next question.
PATIENCE_S = 4.0
# Apart from the threads of requests: a busy server still says that it is ready, and a check that hangs keeps no more
# threads.
_ASKING = ThreadPoolExecutor(8, thread_name_prefix="ready")
_Asks = Callable[[Workspace], None]
router = APIRouter(tags=["status"], route_class=JsonRoute)


class Part(Document):
    """One thing that the server needs."""

    ok: bool
    error: str | None = Field(None, description="What happened.")
    next: str | None = Field(None, description="What to do about it.")


class Ready(Document):
    """True if all dependencies of the server answer."""

    status: Literal["ready", "not ready"]
    parts: dict[str, Part] = Field(
        description="requests (whether this server takes any), nats, postgres, store (of one archive's bucket), and "
        "dagster where NATS3_DAGSTER_URL is set.",
        examples=[{"nats": {"ok": True, "error": None, "next": None}}],
    )


@router.get("/ping", response_class=PlainTextResponse)
async def ping() -> str:
    """The server answers."""
    return "pong"


@router.get("/ready", response_model=Ready, responses={503: {"model": Ready, "description": "A part does not answer."}})
async def ready(request: Request, response: Response) -> Ready:
    """Ask NATS, Postgres, the store and Dagster, each for some seconds. 503 where one does not answer, or where all
    requests wait for others.

    It needs no token; without one, the reasons are left out."""
    work: Workspace = request.app.state.workspace
    parts: dict[str, _Asks] = {"nats": nats_answers, "postgres": postgres_answers, "store": store_answers}
    if work.settings.dagster_url:
        parts["dagster"] = _dagster_answers
    answers = await asyncio.gather(_threads(), *(_asked(name, part, work) for name, part in parts.items()))
    if request.scope.get(ACCESS) is None:  # a client without a token learns no address
        answers = [Part(ok=answer.ok, error=None, next=None) for answer in answers]
    is_ready = all(answer.ok for answer in answers)
    response.status_code = 200 if is_ready else 503
    return Ready(
        status="ready" if is_ready else "not ready", parts=dict(zip(("requests", *parts), answers, strict=True))
    )


async def _threads() -> Part:
    """A request is worked on by a thread."""
    try:
        await asyncio.wait_for(anyio.to_thread.run_sync(lambda: None), PATIENCE_S)
    except TimeoutError:
        return Part(
            ok=False,
            error=f"No thread was free for a request within {PATIENCE_S:g} s",
            next="Wait until other requests have ended, or start the server again",
        )
    return Part(ok=True, error=None, next=None)


async def _asked(name: str, part: _Asks, work: Workspace) -> Part:
    try:
        await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(_ASKING, part, work), PATIENCE_S)
    except TimeoutError:
        return Part(ok=False, error=f"{name} did not answer within {PATIENCE_S:g} s", next="See whether it runs")
    except Nats3Error as error:
        return Part(ok=False, error=error.what, next=error.hint_in(WORDS) or None)
    return Part(ok=True, error=None, next=None)


def _dagster_answers(work: Workspace) -> None:
    assert work.settings.dagster_url
    try:
        ask(work.settings.dagster_url, "{ version }", timeout_s=PATIENCE_S)
    except FAILURES as error:
        raise EngineError(
            f"The Dagster at NATS3_DAGSTER_URL does not answer: {brief(error)}",
            "Start its webserver, or correct the address",
        ) from error
