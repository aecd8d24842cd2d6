"""The application: every route, under `/` and under `/api/v1/`."""

import re
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args, get_origin

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from nats3_dagster.api.guards import Guards
from nats3_dagster.api.pages import add_pages
from nats3_dagster.api.problems import RESPONSES, Problem, add_problems
from nats3_dagster.api.request_log import RequestLog
from nats3_dagster.api.routes import (
    account_routes,
    archive_routes,
    chunk_routes,
    export_routes,
    keeping_routes,
    load_routes,
    message_routes,
    metrics_routes,
    restore_routes,
    status_routes,
    store_routes,
    table_routes,
)
from nats3_dagster.api.security import PREFIX, Gate, document_tokens
from nats3_dagster.api.tokens import Tokens
from nats3_dagster.archive.source.condition import RecentConditions
from nats3_dagster.documents.domain_metrics import DomainCounts
from nats3_dagster.settings import Settings
from nats3_dagster.version import __version__
from nats3_dagster.workspace import Workspace

# Which of their routes need a token: security.py.
OPEN_ROUTERS = (status_routes.router,)
ROUTERS = (
    store_routes.router,
    archive_routes.router,
    load_routes.router,
    chunk_routes.router,
    message_routes.router,
    export_routes.router,
    keeping_routes.router,
    table_routes.router,
    account_routes.router,
    restore_routes.router,
    metrics_routes.router,
)
PREFIXES = ("", PREFIX)
# Requests that work at a time; the rest wait. The catalog has 8 connections, each used for the milliseconds of a call;
# a creation uses two more.
THREADS = 32
# As people write it: Python also takes 1_0 for 10.
_INTEGER = re.compile(r"[+-]?[0-9]+")


def create_app(
    settings: Settings,
    names: frozenset[str] | None = None,
    domains: Callable[[], list[DomainCounts]] = list,
) -> FastAPI:
    """The API over these settings. It connects when it is first asked; nothing is opened here. `names`: see Gate;
    `domains`: what the process serves to NATS clients, for /metrics."""
    tokens = Tokens.of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        with Workspace(settings) as workspace:
            app.state.workspace, app.state.recent = workspace, RecentConditions(workspace)
            yield

    app = FastAPI(
        title="nats3",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        description="Archives of JetStream streams, and replays of them.",
        # Paths begin with a prefix: the same operations are there without one.
        generate_unique_id_function=lambda route: route.name,
    )
    # Set when the server is to end: what would go on without an end stops.
    app.state.ending = threading.Event()
    app.state.domains = domains
    app.add_middleware(Guards, max_body=settings.api_max_body)
    app.add_middleware(Gate, tokens=tokens, names=names)
    app.add_middleware(RequestLog, routes=[route for each in (app, *OPEN_ROUTERS, *ROUTERS) for route in each.routes])
    add_problems(app)
    add_pages(app)
    for prefix in PREFIXES:
        for router in OPEN_ROUTERS:
            _include(app, router, prefix, [])
        for router in ROUTERS:
            _include(app, router, prefix, [])
    _document_problems(app, tokens)
    return app


def _include(app: FastAPI, router: APIRouter, prefix: str, checks: list[Any]) -> None:
    app.include_router(
        router,
        prefix=prefix,
        include_in_schema=bool(prefix),
        responses=RESPONSES,
        dependencies=[*checks, Depends(_refuse_unknown_parameters)],
    )


async def _refuse_unknown_parameters(request: Request) -> None:
    """Raises RequestValidationError for a parameter that the route does not have, as a filter that is misspelt would be
    no filter; and for one that is given twice, because the intended one is unknown."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    fields = route.dependant.query_params
    known = [field.alias for field in fields]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        there = f"there are {', '.join(known)}" if known else "the route has none"
        text = f"There is no such parameter; {there}"
        raise RequestValidationError([{"type": "unknown", "loc": ("query", name), "msg": text} for name in unknown])
    odd = [
        field.alias
        for field in fields
        if int in _kinds(field.field_info.annotation)
        and not all(map(_INTEGER.fullmatch, request.query_params.getlist(field.alias)))
    ]
    if odd:
        text = "It is no whole number in digits"
        raise RequestValidationError([{"type": "integer", "loc": ("query", name), "msg": text} for name in odd])
    repeated = [
        field.alias
        for field in fields
        if len(request.query_params.getlist(field.alias)) > 1
        and not any(get_origin(kind) is list for kind in _kinds(field.field_info.annotation))
    ]
    if repeated:
        text = "It is given more than once"
        raise RequestValidationError([{"type": "repeated", "loc": ("query", name), "msg": text} for name in repeated])


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The annotation, and those that it is a union of."""
    return annotation, *get_args(annotation)


def _document_problems(app: FastAPI, tokens: Tokens) -> None:
    """Add the schema of problems to the OpenAPI document, which all error answers refer to; and tokens."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schemas = made().setdefault("components", {}).setdefault("schemas", {})
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= problem.pop("$defs") | {"Problem": problem}
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            document_tokens(made(), tokens)
        return app.openapi_schema or {}

    app.openapi = openapi
