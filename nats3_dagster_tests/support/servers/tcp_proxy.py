"""A TCP proxy before a real server that breaks connections: slow, half-open, reset, or cut after so many bytes."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

_Pair = tuple[socket.socket, socket.socket]  # a client, and its connection to the server

_LINGER_0 = struct.pack("ii", 1, 0)  # close() then resets the connection


class TcpProxy:
    """Listens on `port` of `host` for a server on this one. Its faults hold for all connections until `repair`."""

    def __init__(self, server_port: int, host: str = "127.0.0.1") -> None:
        self._server_port = server_port
        self._host = host
        self._listener = socket.create_server((host, 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        # Clients that have connected so far.
        self.connections = 0
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._half_ended: set[_Pair] = set()  # one direction has ended
        self._open = threading.Event()  # cleared while nothing passes
        self._hung_up: set[socket.socket] = set()  # clients that get nothing more
        self.repair()

    def repair(self) -> None:
        """Let everything pass, at once."""
        # Seconds by which each piece of either direction is late.
        self.latency_s = 0.0
        # Bytes from clients that still pass before all connections are reset; None for all.
        self.cut_after: int | None = None
        # Whether a new connection is closed at once.
        self.refusing = False
        self._open.set()

    def freeze(self) -> None:
        """Half-open: connections stay, and nothing passes any more."""
        self._open.clear()

    def reset(self) -> None:
        """End all connections with RST."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for side in pair:
                with suppress(OSError):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
                with suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
                side.close()

    def hang_up(self) -> None:
        """Take no more connections, and close all on the side of the clients only. What they had sent still goes to the
        server."""
        self._leave()
        with self._lock:
            self._hung_up = {client for client, _ in self._pairs}
        for client in self._hung_up:
            with suppress(OSError):
                client.shutdown(socket.SHUT_WR)

    def come_back(self) -> None:
        """Listen again after `hang_up`."""
        self._listener = socket.create_server((self._host, self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def pieces(self, source: socket.socket, from_client: bool) -> Iterator[bytes]:
        """What one side sends, until it ends. A proxy that knows the protocol alters it here."""
        while data := source.recv(1 << 16):
            yield data

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._open.set()
        self.reset()

    def _leave(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            self.connections += 1
            try:
                if self.refusing:
                    raise ConnectionRefusedError
                server = socket.create_connection(("127.0.0.1", self._server_port), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            pair = client, server
            with self._lock:
                self._pairs.append(pair)
            for from_client in (True, False):
                threading.Thread(target=self._serve, args=(pair, from_client), daemon=True).start()

    def _serve(self, pair: _Pair, from_client: bool) -> None:
        """One direction of a connection. Its sockets are closed when both have ended."""
        client, server = pair
        self._pump(*(pair if from_client else (server, client)), from_client)
        with self._lock:
            if pair not in self._half_ended:
                self._half_ended.add(pair)
                return
            self._half_ended.remove(pair)
            if pair in self._pairs:  # not taken away by a reset
                self._pairs.remove(pair)
        client.close()
        server.close()

    def _pump(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        with suppress(OSError):
            for data in self.pieces(source, from_client):
                self._open.wait()
                if self.latency_s:
                    time.sleep(self.latency_s)
                if from_client and self.cut_after is not None:
                    self.cut_after -= len(data)
                    if self.cut_after < 0:
                        # A part of the piece arrives: a frame that is torn in the middle.
                        target.sendall(data[: max(0, len(data) + self.cut_after)])
                        self.cut_after = None
                        self.reset()
                        return
                try:
                    target.sendall(data)
                except OSError:
                    if target not in self._hung_up:
                        raise
        for side in (source, target):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
