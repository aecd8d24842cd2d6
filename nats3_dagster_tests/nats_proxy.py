"""A proxy between a client and a real NATS server that alters what the server sends: a fault in one place."""

import re
import socket
import threading
from collections.abc import Callable
from types import TracebackType

Frame = tuple[bytes, bytes]  # control line, payload (each with its CRLF; no payload: empty)
_WITH_PAYLOAD = (b"PUB ", b"HPUB ", b"MSG ", b"HMSG ")


def _same(frame: Frame) -> Frame | None:
    return frame


class NatsProxy:
    """Listens on `url`. `from_server` and `from_client` may be set at any time: each frame goes through them, and they
    return it, another one of the same length, or None to drop it."""

    def __init__(self, port: int) -> None:
        self._server = port
        self.from_server: Callable[[Frame], Frame | None] = _same
        self.from_client: Callable[[Frame], Frame | None] = _same
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "NatsProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", self._server))
            ways = (client, server, lambda f: self.from_client(f)), (server, client, lambda f: self.from_server(f))
            for way in ways:
                threading.Thread(target=_pump, args=way, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, alter: Callable[[Frame], Frame | None]) -> None:
    try:
        with source.makefile("rb") as lines:
            while line := lines.readline():
                size = int(line.split()[-1]) + 2 if line.startswith(_WITH_PAYLOAD) else 0
                if frame := alter((line, lines.read(size))):
                    target.sendall(b"".join(frame))
    except OSError:
        pass
    target.close()


def zero_pending(frame: Frame) -> Frame:
    """The frame with 0 as what is still pending: of a message, and of a consumer's state."""
    line, payload = frame
    line = re.sub(rb"( \$JS\.ACK\.\S+\.)(\d+) ", lambda m: m[1] + b"0" * len(m[2]) + b" ", line)
    payload = re.sub(rb'("num_pending":)(\d+)', lambda m: m[1] + b" " * (len(m[2]) - 1) + b"0", payload)
    return line, payload
