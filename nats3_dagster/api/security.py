"""Access control: a request needs a token, and a page of another server may not use a user's browser.

Invariant: a route needs a token unless it is named in `_OPEN`, so that a new one is closed; and what changes something
needs the scope `write` unless it is in `_SCOPED`.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope

from nats3_dagster.actor import working_for
from nats3_dagster.api.problems import Refused, answer, refused
from nats3_dagster.api.tokens import Tokens, name_of
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings.token_scopes import Scope

# What a scope is told of the request: what its token allows.
ACCESS = "nats3.access"
PREFIX = "/api/v1"
_OPEN = frozenset({"/ping", "/ready", "/docs", "/docs/start.js", "/openapi.json"})
_OPEN_BELOW = "/docs/files/"
# What takes messages away for good, and what keeps them from that, have scopes of their own.
_SCOPED: tuple[tuple[re.Pattern[str], Scope], ...] = (
    (re.compile(r"/archive/[^/]+/(erase(/prove)?|copies/[^/]+)"), Scope.erase),
    (re.compile(r"/archive/[^/]+/holds(/[^/]+)?"), Scope.hold),
)
_ALL = frozenset(Scope)
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Parameters that clients of other servers put a token into: an address is in logs and in the history of a browser.
_IN_ADDRESS = frozenset({"token", "access_token", "api_token", "api_key", "apikey", "bearer", "authorization"})
_HOW = "Authorization: Bearer TOKEN"
# A Host header: a name or an address, and a port. urlsplit would take its beginning for all of it.
_HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?", re.ASCII)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """True if only this machine reaches the address."""
    return ip_address(host.partition("%")[0]).is_loopback


def check_reach(tokens: Tokens, host: str) -> None:
    """Raises OperatorError where others than this machine would reach an API without tokens."""
    if not tokens and not is_loopback(host):
        raise OperatorError(
            f"The API would answer everybody who reaches {host}: no token is set",
            "Make one with nats3 token create and set NATS3_API_TOKENS, or listen on 127.0.0.1",
        )


class Gate:
    """An ASGI middleware, before everything else: it refuses who may not ask, without reading a body.

    `names` are the server's own; others are refused, because a page may have its own name resolved to 127.0.0.1 and so
    read what this machine answers (DNS rebinding). None: any, as tokens protect it."""

    def __init__(self, app: ASGIApp, tokens: Tokens, names: frozenset[str] | None) -> None:
        self._app = app
        self._tokens = tokens
        self._names = names

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        token = _bearer(headers.getlist("authorization")) if self._tokens else None
        response = self._refusal(scope, headers, token)
        # A read leaves no name in the catalog.
        writer = None if response or scope["method"] in _READING else token
        with working_for("" if writer is None else name_of(writer)):
            await (response or self._app)(scope, receive, send)

    def _refusal(self, scope: HttpScope, headers: Headers, token: bytes | None) -> JSONResponse | None:
        """The answer where the request is refused; otherwise `scope` gets what the request may do."""
        if _IN_ADDRESS & {name.lower() for name, _ in parse_qsl(scope["query_string"].decode("latin-1"))}:
            return _refuse(
                400,
                "Token in the address",
                "A token does not belong into an address, which logs keep",
                f"Send it as a header, {_HOW}; and make a new one",
            )
        host = headers.get("host", "")
        if self._names is not None and not (_HOST.fullmatch(host) and _host(f"//{host}")[0] in self._names):
            return _refuse(
                421,
                "Wrong host",
                "This server answers to localhost only",
                "Ask it as localhost or 127.0.0.1; for other names set NATS3_API_TOKENS",
            )
        is_reading = scope["method"] in _READING
        if not is_reading and _is_foreign(headers):
            hint = "Write from a page of this server or from a program; a proxy must pass the Host header on"
            return _refuse(403, "Foreign origin", "A page of another server may not write here", hint)
        access = self._access(token)
        scope[ACCESS] = access
        needed = Scope.read if is_reading else _needed(scope["path"])
        if _is_open(scope["path"]) or (access and needed in access):
            return None
        if access:
            return answer(forbidden(access, needed))
        given = "That token is not valid" if "authorization" in headers else "A token is needed"
        return _refuse(
            401,
            "Unauthorized",
            given,
            f"Send a valid one as a header, {_HOW}",
            {"WWW-Authenticate": 'Bearer realm="nats3"'},
        )

    def _access(self, token: bytes | None) -> frozenset[Scope] | None:
        """The scopes; None for nothing. Without tokens all may do everything."""
        if not self._tokens:
            return _ALL
        return None if token is None else self._tokens.access(token)


def _bearer(given: list[str]) -> bytes | None:
    """The token of the one Authorization header; None for any other number of them, or another scheme."""
    if len(given) != 1:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def names_of(tokens: Tokens, host: str) -> frozenset[str] | None:
    """The names to which a server that listens on `host` answers: without tokens those of loopback, else any."""
    return None if tokens else _LOOPBACK | {host.lower()}


def document_tokens(document: dict[str, Any], tokens: Tokens) -> None:
    """Add to an OpenAPI document which operations need a token."""
    if not tokens:
        return
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for path, operations in document["paths"].items():
        if _is_open(path):
            for operation in operations.values():
                operation["security"] = []


def require(request: Request, needed: Scope) -> None:
    """Raises Refused unless the request's token has the scope: for what only the body or a parameter asks for."""
    access: frozenset[Scope] = request.scope[ACCESS]
    if needed not in access:
        raise Refused(forbidden(access, needed))


def forbidden(access: frozenset[Scope], needed: Scope) -> dict[str, Any]:
    """The problem of a token without the scope that is needed."""
    may = " and ".join(scope for scope in Scope if scope in access)
    what = "This token may only read" if len(access) == 1 else f"This token may {may} only"
    return refused(403, "Forbidden", what, f"Ask with a token that has the scope {needed} in NATS3_API_TOKENS")


def _needed(path: str) -> Scope:
    own = path.removeprefix(PREFIX)
    return next((scope for pattern, scope in _SCOPED if pattern.fullmatch(own)), Scope.write)


def _is_open(path: str) -> bool:
    return path.removeprefix(PREFIX) in _OPEN or path.startswith(_OPEN_BELOW)


def _is_foreign(headers: Headers) -> bool:
    """True if a browser says that a page of another server sends the request."""
    origin = headers.get("origin")
    if origin is None:
        return False
    host, port = _host(origin)
    # Compared by the page's own scheme: with a TLS proxy in front, this server's scheme differs.
    return not host or (host, port) != _host(f"{origin.partition('://')[0]}://{headers.get('host', '')}")


def _host(url: str) -> tuple[str, int | None]:
    """Host in lower case and port, a scheme's own port included; an empty host where there is none."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", None


def _refuse(status: int, title: str, what: str, hint: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return answer(refused(status, title, what, hint), headers)
