"""The application: every route, under `/` and under `/api/v1/`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from nats3_dagster import __version__
from nats3_dagster.api import status_routes
from nats3_dagster.api.problems import add_problems
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Routers of all routes.
ROUTERS = (status_routes.router,)
PREFIXES = ("", "/api/v1")


def create_app(settings: Settings) -> FastAPI:
    """The API over these settings. It connects when it is first asked; nothing is opened here."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        with Workspace(settings) as workspace:
            app.state.workspace = workspace
            yield

    app = FastAPI(
        title="nats3", version=__version__, lifespan=lifespan,
        description="Archives of JetStream streams, and replays of them.",
    )  # fmt: skip
    add_problems(app)
    for prefix in PREFIXES:
        for router in ROUTERS:
            app.include_router(router, prefix=prefix, include_in_schema=bool(prefix))
    return app
