"""`nats3 serve`: the HTTP API."""

from typing import Annotated

import typer

from nats3_dagster.api.serve import serve as serve_api
from nats3_dagster.cli.progress import note
from nats3_dagster.settings import Settings


def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The port.")] = 8080,
) -> None:
    """Serve the HTTP API until interrupted. Its document is at /docs."""
    note(f"The API answers at http://{host}:{port}; its document is at /docs")
    serve_api(Settings.load(), host, port)
