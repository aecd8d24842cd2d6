"""`/docs`: the OpenAPI document as a page. Its script and style come from this server: there may be no internet."""

from html import escape
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles

_FILES = Path(fastapi_offline.__file__).parent / "static"
# Nothing but this server's own files; swagger-ui sets styles by script, and has images in its style sheet.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="stylesheet" href="docs/files/swagger-ui.css"><link rel="icon" href="docs/files/favicon.png"></head>
<body><div id="swagger-ui">The documentation needs JavaScript. <a href="openapi.json">openapi.json</a> does not.</div>
<script src="docs/files/swagger-ui-bundle.js"></script><script src="docs/start.js"></script></body></html>
"""
_START = "SwaggerUIBundle({url: 'openapi.json', dom_id: '#swagger-ui', deepLinking: true, validatorUrl: null});\n"


def add_pages(app: FastAPI) -> None:
    """Serve `/docs` and the files that it loads."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE.format(title=escape(app.title)), headers=_HEADERS)

    @app.get("/docs/start.js", include_in_schema=False)
    async def start() -> PlainTextResponse:
        return PlainTextResponse(_START, headers=_HEADERS, media_type="text/javascript")

    app.mount("/docs/files", StaticFiles(directory=_FILES), name="docs")
