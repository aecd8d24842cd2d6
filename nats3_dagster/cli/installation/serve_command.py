"""`nats3 serve`: the HTTP API, and the archives as a JetStream domain."""

import signal
import threading
from contextlib import ExitStack
from typing import Annotated

import typer

from nats3_dagster.api.serve import address, host_alone
from nats3_dagster.api.serve import serve as serve_api
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.errors import OperatorError
from nats3_dagster.nats.serve import DOMAIN, DomainServer
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
    nats: Annotated[
        bool, typer.Option("--nats", help="Also answer NATS clients: the archives are a JetStream domain.")
    ] = False,
    domain: Annotated[
        str, typer.Option("--domain", metavar="NAME", help="The name of that domain, as clients give it.")
    ] = DOMAIN,
    http: Annotated[bool, typer.Option("--http/--no-http", help="Serve the HTTP API.")] = True,
) -> None:
    """Serve the HTTP API, and with --nats the archives as a JetStream domain.

    The document of the API is at /docs. Nothing that counts is kept in memory: several may run. Requests that are under
    way when it ends are answered first."""
    if not http and not nats:
        raise OperatorError("Nothing is left to serve", "Give --nats, or leave --no-http out")
    settings = Settings.load()
    with ExitStack() as serving:
        served: list[DomainServer] = []
        if nats:
            served.append(serving.enter_context(DomainServer(settings, domain)))
            note(f"The archives answer as the JetStream domain {domain}: nats --js-domain {domain} stream ls")
        if not http:
            _wait()
            return
        from_listen = address(listen) if listen else settings.api_address
        serve_api(
            settings,
            host_alone(host) if host else from_listen[0],
            from_listen[1] if port is None else port,
            lambda url: note(f"The API answers at {url}; its document is at {url}/docs"),
            lambda: [one.counts for one in served],
        )


def _wait() -> None:
    """Return when the process is asked to end."""
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    ending.wait()
