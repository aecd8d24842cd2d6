"""A catalog of Iceberg's REST protocol on loopback, for the requests that a client of one table makes.

It keeps its tables in pyiceberg's SQL catalog, in a file of SQLite: what it answers is what the specification says, and
what it commits is what pyiceberg commits. It has no login.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pyiceberg.catalog.rest import CreateTableRequest, TableResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

from nats3_dagster.dev.process import free_port

_STATUS: dict[type[Exception], int] = {
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


class RestCatalog:
    """The server: `uri`, what it shall answer instead (`refusing`), and how many commits it makes and answers with an
    error (`losing`)."""

    def __init__(self, folder: Path, **properties: str) -> None:
        self._tables = SqlCatalog("rest", uri=f"sqlite:///{folder / 'rest.db'}", **properties)
        self._port = free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self.commits = 0
        self.refusing: int | None = None
        self.losing = 0

    def app(self) -> FastAPI:
        app, tables = FastAPI(), self._tables
        of_table = "/v1/namespaces/{namespace}/tables/{name}"

        @app.get("/v1/config")
        def config() -> Any:
            return {"defaults": {}, "overrides": {}}

        @app.post("/v1/namespaces")
        async def create_namespace(request: Request) -> Any:
            body = await request.json()
            tables.create_namespace(tuple(body["namespace"]), body.get("properties") or {})
            return {"namespace": body["namespace"], "properties": {}}

        @app.get("/v1/namespaces/{namespace}")
        def namespace(namespace: str) -> Any:
            return {"namespace": [namespace], "properties": tables.load_namespace_properties(namespace)}

        @app.post("/v1/namespaces/{namespace}/tables")
        async def create_table(namespace: str, request: Request) -> Any:
            body = CreateTableRequest.model_validate_json(await request.body())
            assert body.partition_spec
            made = tables.create_table(
                (namespace, body.name),
                body.table_schema,
                body.location,
                body.partition_spec,
                properties=body.properties,
            )
            return _answer(made)

        @app.get(of_table)
        def load_table(namespace: str, name: str) -> Any:
            return _answer(tables.load_table((namespace, name)))

        @app.post(of_table)
        async def commit(namespace: str, name: str, request: Request) -> Any:
            body = CommitTableRequest.model_validate_json(await request.body())
            tables.commit_table(tables.load_table((namespace, name)), body.requirements, body.updates)
            self.commits += 1
            if self.losing:
                self.losing -= 1
                return _error(502, "BadGateway", "the answer was lost")
            return _answer(tables.load_table((namespace, name)))

        @app.delete(of_table)
        def drop(namespace: str, name: str) -> Response:
            tables.drop_table((namespace, name))
            return Response(status_code=204)

        @app.middleware("http")
        async def refuse(request: Request, call: Callable[[Request], Any]) -> Response:
            return _error(self.refusing, "Refused", "refused") if self.refusing else await call(request)

        for kind, status in _STATUS.items():
            app.add_exception_handler(
                kind, lambda _, error, status=status: _error(status, type(error).__name__, str(error))
            )
        return app

    @contextmanager
    def serving(self) -> Iterator[None]:
        server = uvicorn.Server(uvicorn.Config(self.app(), port=self._port, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()

    def close(self) -> None:
        self._tables.close()


def _answer(table: Table) -> Response:
    """Without the properties of this side: the client has its own."""
    answer = TableResponse.model_validate({"metadata": table.metadata, "metadata-location": table.metadata_location})
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")


def _error(status: int, kind: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": status, "type": kind, "message": message}}, status)
