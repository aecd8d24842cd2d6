"""A front before a real Postgres that says every error in another language, as `lc_messages` has it there."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_SSL_REQUEST = bytes.fromhex("04d2162f")
SEVERITY, MESSAGE = "СБОЙ", "подключение отклонено"


@contextmanager
def translating(url: str, encoding: str = "utf-8") -> Iterator[int]:
    """The port of a front that hands everything on, with the severity and the text of errors translated."""
    at = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

        def one(client: socket.socket) -> None:
            with (
                suppress(OSError),
                client,
                socket.create_connection((str(at.hostname), at.port or 0)) as server,
            ):
                first = _read(client, 8)
                server.sendall(first)
                if first[4:] == _SSL_REQUEST:
                    client.sendall(_read(server, 1))
                threading.Thread(target=_pump, args=(client, server), daemon=True).start()
                while True:
                    kind, size = _read(server, 1), _read(server, 4)
                    body = _read(server, int.from_bytes(size) - 4)
                    body = _translated(body, encoding) if kind == b"E" else body
                    client.sendall(kind + (len(body) + 4).to_bytes(4) + body)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _translated(error: bytes, encoding: str) -> bytes:
    words = {b"S": SEVERITY, b"M": MESSAGE}
    fields = [field for field in error.split(b"\0") if field]
    told = [field[:1] + words[field[:1]].encode(encoding) if field[:1] in words else field for field in fields]
    return b"".join(field + b"\0" for field in told) + b"\0"


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data
