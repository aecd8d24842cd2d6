"""The proxy of tests that break connections: over hours it keeps no connection that has ended."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

from nats3_dagster_tests.support.servers.tcp_proxy import TcpProxy
from nats3_dagster_tests.support.waiting import eventually


def test_the_sockets_of_ended_connections_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, TcpProxy(server.getsockname()[1]) as proxy:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        before = _open_files()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", proxy.port)) as client:
                client.sendall(b"x")
                assert client.recv(1) == b"x"
        eventually(lambda: _open_files() <= before, "all are closed", 10)


def _echo(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            with client:
                while data := client.recv(100):
                    client.sendall(data)


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])
