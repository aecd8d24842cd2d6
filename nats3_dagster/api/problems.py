"""Errors as answers: RFC 9457 problem details (`application/problem+json`).

Invariant: every error is answered in this form, and the text of an unforeseen exception is not in the answer: a
reference is, and the log has a line with the same. Every answer passes the filter of texts (redaction.py).
"""

import json
import logging
import traceback
from collections.abc import Mapping
from http import HTTPMethod
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount

from nats3_dagster.api.wording import WORDS
from nats3_dagster.bodies.strict_json import not_json
from nats3_dagster.errors import (
    BucketRefused,
    CatalogError,
    ChunkError,
    Conflict,
    DagsterError,
    EngineError,
    LostMessages,
    Nats3Error,
    ObjectMissing,
    OperatorError,
    SourceError,
    StoreError,
    StreamChanged,
    TableError,
    TargetError,
    Unknown,
    UnknownConsumer,
    WrongState,
)
from nats3_dagster.redaction import redacted_value
from nats3_dagster.steps import Next, Step

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
# The status of each kind of error, the most special first; and the dependency that fails, where one does.
_STATUSES: tuple[tuple[type[Nats3Error], int, str | None], ...] = (
    (Unknown, 404, None),
    (WrongState, 409, None),
    (OperatorError, 422, None),
    (Conflict, 409, None),
    (StreamChanged, 409, None),
    (UnknownConsumer, 409, None),
    (LostMessages, 409, None),
    # Servers that answer: what they have is in the way, and asking again does not help.
    (TargetError, 409, None),
    (ObjectMissing, 409, None),
    (ChunkError, 409, None),
    (BucketRefused, 422, None),
    (CatalogError, 503, "postgres"),
    (SourceError, 503, "nats"),
    (StoreError, 503, "store"),
    (TableError, 503, "iceberg"),
    (DagsterError, 503, "dagster"),
    (EngineError, 503, "engine"),
)
# What the operator of the server has not set is no fault of the request.
_UNSET = {Next.SET_NATS_URL: "nats", Next.SET_POSTGRES_URL: "postgres"}
# Characters of an error's text and of a name that are repeated: a request may have a value of 1 MiB, which is in both.
_LONGEST, _LONGEST_NAME = 2000, 200


class FieldProblem(BaseModel):
    """The problem of one field."""

    field: str = Field(description="Its name, with dots within objects; empty: the body as a whole.")
    message: str


class Problem(BaseModel):
    """The problem, its cause, and the next step."""

    type: str = "about:blank"
    title: str = Field(description="The kind of error.")
    status: int
    detail: str = Field(description="What happened and what to do next, in one line.")
    error: str = Field(description="What happened.")
    next: str | None = Field(None, description="What to do next.")
    code: str | None = Field(None, description="A stable name of the next step.")
    values: dict[str, Any] = Field({}, description="The values of the next step.")
    fields: list[FieldProblem] = Field([], description="The fields at fault (422).")
    dependency: str | None = Field(
        None, description="What fails (503): nats, postgres, store, iceberg, dagster or engine."
    )
    reference: str | None = Field(None, description="What the log of the server has of an internal error (500).")


_DESCRIPTIONS = {
    400: "The body cannot be read, or a token is in the address.",
    401: "A valid token is needed.",
    403: "The token is without the scope, or a page of another server asks.",
    404: "There is nothing of this id or name.",
    409: "It is there already, or something else is in the way: the state of a stream, a target or an object.",
    413: "The body is too large.",
    421: "The server answers to localhost only.",
    422: "A field is wrong; `fields` names it.",
    500: "A defect of the server; `reference` is in its log.",
    503: "Something that the server needs does not answer; `dependency` names it.",
}
# The error answers that every route may give, for the OpenAPI document.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, text in _DESCRIPTIONS.items()
}


def problem(error: Nats3Error) -> dict[str, Any]:
    """The error as a document."""
    kind = next((row for row in _STATUSES if isinstance(error, row[0])), None)
    _, status, dependency = kind or (Nats3Error, 500, None)
    hint = error.hint
    if isinstance(hint, Step) and hint.code in _UNSET:
        status, dependency = 503, _UNSET[hint.code]
    field = error.field if isinstance(error, OperatorError | BucketRefused) else ""
    return _document(
        status,
        type(error).__name__,
        error.what,
        detail=error.text_in(WORDS),
        next=error.hint_in(WORDS) or None,
        code=hint.code.name if isinstance(hint, Step) else None,
        values=jsonable_encoder(dict(hint.values)) if isinstance(hint, Step) else {},
        fields=[{"field": field, "message": shortened(error.what)}] if field else [],
        dependency=dependency,
    )


def internal_error(error: Exception) -> JSONResponse:
    """Returns the answer to an unforeseen error, and writes a line to the log."""
    reference = uuid4().hex[:12]
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "nats3_dagster" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "somewhere"
    log.warning("internal error %s: %s in %s", reference, type(error).__name__, where)
    log.debug("internal error %s", reference, exc_info=error)
    what = f"The server failed by a defect of its own (reference {reference})"
    hint = "Report it with the line of the server's log that has this reference"
    return answer(_document(500, "InternalError", what, detail=f"{what}. {hint}", next=hint, reference=reference))


def refused(status: int, title: str, what: str, hint: str) -> dict[str, Any]:
    """The problem of a request that is refused before a route sees it."""
    return _document(status, title, what, next=hint)


class Refused(Exception):
    """Ends a request with a problem that `refused` made."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document["error"])
        self.document = document


def too_large(most: int) -> dict[str, Any]:
    """The problem of a body of more than `most` bytes."""
    return _document(413, "Content Too Large", f"The body has more than {most:,} bytes")


def add_problems(app: FastAPI) -> None:
    """Have the application answer every error as a problem."""

    @app.exception_handler(Nats3Error)
    def ours(_: Request, error: Nats3Error) -> JSONResponse:
        return answer(problem(error))

    @app.exception_handler(Refused)
    def not_allowed(_: Request, error: Refused) -> JSONResponse:
        return answer(error.document)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        fields = [
            {"field": "", "message": f"It is {not_json(one['ctx']['error'], str(error.body), one['loc'][-1])}"}
            if one["type"] == "json_invalid"
            else {
                "field": shortened(".".join(str(part) for part in one["loc"][1:]), _LONGEST_NAME),
                "message": shortened(str(one["msg"]).removeprefix("Value error, ")),
            }
            for one in error.errors()
        ]
        what = "; ".join(f"{one['field'] or 'The body'}: {one['message']}" for one in fields)
        return answer(_document(422, "InvalidRequest", what, fields=fields, next="Correct it; /docs has all fields"))

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        what = {
            404: f"There is no route {shortened(request.url.path, _LONGEST_NAME)}",
            405: f"{shortened(request.url.path, _LONGEST_NAME)} does not take {request.method}",
        }.get(error.status_code, str(error.detail))
        hint = "See /docs" if error.status_code in (404, 405) else None
        headers = {"Allow": _methods(request)} if error.status_code == 405 else error.headers
        return answer(_document(error.status_code, str(error.detail), what, next=hint), headers)


def answer(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    return _ProblemResponse(redacted_value(document), document["status"], headers, MEDIA_TYPE)


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The text, or its beginning where it is longer."""
    return text if len(text) <= longest else f"{text[:longest]}..."


def _document(status: int, title: str, what: str, *, detail: str = "", **more: Any) -> dict[str, Any]:
    hint, what = more.get("next"), shortened(what)
    detail = shortened(detail)
    return {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail or (f"{what}. {hint}" if hint else what),
        "error": what,
        "next": None,
        "code": None,
        "values": {},
        "fields": [],
        "dependency": None,
        "reference": None,
    } | more


def _methods(request: Request) -> str:
    """The methods that the path takes: each has a route of its own, and the router names those of one."""
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]
    methods = {
        str(method)
        for method in HTTPMethod
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    }
    # What answers GET answers HEAD: guards.py.
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set()))) or "GET, HEAD"  # a file of /docs


class _ProblemResponse(JSONResponse):
    """A response in ASCII: a text may repeat characters of the request that UTF-8 cannot carry."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()
