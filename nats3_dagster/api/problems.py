"""Errors as answers: RFC 9457 problem details (`application/problem+json`).

`code` and `values` are of the next step (steps.Next), `next` words it, and `error` is what happened in one line.
"""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from nats3_dagster.api.wording import WORDS
from nats3_dagster.errors import (
    CatalogError,
    Conflict,
    EngineError,
    Nats3Error,
    OperatorError,
    SourceError,
    StoreError,
    Unknown,
)
from nats3_dagster.steps import Step

MEDIA_TYPE = "application/problem+json"
# The status of each kind of error, the most special first; and the dependency that fails, where one does.
_STATUSES: tuple[tuple[type[Nats3Error], int, str | None], ...] = (
    (Unknown, 404, None),
    (OperatorError, 422, None),
    (Conflict, 409, None),
    (CatalogError, 503, "postgres"),
    (SourceError, 503, "nats"),
    (StoreError, 503, "store"),
    (EngineError, 503, "engine"),
)


def problem(error: Nats3Error) -> dict[str, Any]:
    """The error as a document."""
    kind = next((row for row in _STATUSES if isinstance(error, row[0])), None)
    _, status, dependency = kind or (Nats3Error, 500, None)
    hint = error.hint
    document: dict[str, Any] = {
        "type": "about:blank", "title": type(error).__name__, "status": status, "detail": error.text_in(WORDS),
        "error": error.what, "next": error.hint_in(WORDS) or None,
        "code": hint.code.name if isinstance(hint, Step) else None,
        "values": jsonable_encoder(dict(hint.values)) if isinstance(hint, Step) else {},
    }  # fmt: skip
    return document | ({"dependency": dependency} if dependency else {})


def add_problems(app: FastAPI) -> None:
    """Have the application answer every error as a problem."""

    @app.exception_handler(Nats3Error)
    def ours(_: Request, error: Nats3Error) -> JSONResponse:
        return _answer(problem(error))

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        errors = [
            {"field": ".".join(str(part) for part in one["loc"][1:]), "message": one["msg"]} for one in error.errors()
        ]
        what = "; ".join(f"{one['field'] or 'body'}: {one['message']}" for one in errors)
        return _answer(_plain(422, "The request is not valid", what) | {"fields": errors})

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> JSONResponse:
        return _answer(_plain(error.status_code, str(error.detail), str(error.detail)), dict(error.headers or {}))


def _plain(status: int, title: str, what: str) -> dict[str, Any]:
    return {
        "type": "about:blank", "title": title, "status": status, "detail": what, "error": what, "next": None,
        "code": None, "values": {},
    }  # fmt: skip


def _answer(document: dict[str, Any], headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(document, document["status"], headers, MEDIA_TYPE)
