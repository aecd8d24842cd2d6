"""A cluster of three nats-servers."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import free_port


@contextmanager
def three_servers(folder, jetstream=""):
    """A cluster under `folder`; `jetstream` is text added to the jetstream block of each server's configuration."""
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    servers = [
        NatsServer(
            folder / f"n{n}",
            name=f"n{n}",
            config=f'cluster {{name: c, listen: "127.0.0.1:{port}", routes: [{routes}]}}\n'
            f'jetstream {{store_dir: "{folder / f"n{n}" / "data"}", {jetstream}}}',
        )
        for n, port in enumerate(ports)
    ]
    try:
        start(servers)
        yield servers
    finally:
        for server in servers:
            server.kill()


def start(servers):
    with ThreadPoolExecutor() as pool:
        list(pool.map(NatsServer.start, servers))
