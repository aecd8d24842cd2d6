"""Progress of a load job as server-sent events."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic_core import to_json

from nats3_dagster.api.problems import problem
from nats3_dagster.api.wording import WORDS
from nats3_dagster.documents.replays import ReplayProgress
from nats3_dagster.errors import Nats3Error
from nats3_dagster.replay import jobs
from nats3_dagster.workspace import Workspace

# How often the catalog is asked, and how long the client hears nothing at most.
LOOK_EVERY_S, HEARTBEAT_S = 1.0, 15.0


async def events(request: Request, workspace: Workspace, job_id: UUID) -> AsyncGenerator[bytes]:
    """`progress` at every change, `end` when the job has succeeded or failed, `problem` when it cannot be looked at any
    more. Between two looks it has no connection of the catalog. It ends with its client or the server."""
    last: dict[str, Any] | None = None
    spoke_at = time.monotonic()
    while not (request.app.state.ending.is_set() or await request.is_disconnected()):
        try:
            document = await run_in_threadpool(_document, workspace, job_id)
        except Nats3Error as error:
            yield _event("problem", problem(error))
            return
        ends = document.status in jobs.ENDS
        current = document.without_clock()
        if ends or current != last:
            yield _event("end" if ends else "progress", document)
            last, spoke_at = current, time.monotonic()
        elif time.monotonic() - spoke_at >= HEARTBEAT_S:
            yield KEEPALIVE_COMMENT
            spoke_at = time.monotonic()
        if ends:
            return
        await asyncio.sleep(LOOK_EVERY_S)


def _document(workspace: Workspace, job_id: UUID) -> ReplayProgress:
    return ReplayProgress.of(jobs.progress(workspace, job_id), WORDS)


def _event(name: str, document: object) -> bytes:
    return format_sse_event(event=name, data_str=to_json(document).decode())
