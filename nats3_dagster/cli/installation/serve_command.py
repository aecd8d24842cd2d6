"""`nats3 serve`: the HTTP API."""

from typing import Annotated

import typer

from nats3_dagster.api.serve import address, host_alone
from nats3_dagster.api.serve import serve as serve_api
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.settings import Settings


def serve(
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="The address to listen on (default: 127.0.0.1:8080)."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Its host alone.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Its port alone; 0: a free one.")
    ] = None,
) -> None:
    """Serve the HTTP API until interrupted. Its document is at /docs.

    It keeps nothing in memory: several may run. Requests that are under way when it ends are answered first."""
    settings = Settings.load()
    from_listen = address(listen) if listen else settings.api_address
    serve_api(
        settings,
        host_alone(host) if host else from_listen[0],
        from_listen[1] if port is None else port,
        lambda url: note(f"The API answers at {url}; its document is at {url}/docs"),
    )
