"""A proxy between a client and a real NATS server that alters what the server sends: a fault in one place."""

import re
import socket
from collections.abc import Callable, Iterator

from nats3_dagster_tests.support.servers.tcp_proxy import TcpProxy

Frame = tuple[bytes, bytes]  # control line, payload (each with its CRLF; no payload: empty)
_WITH_PAYLOAD = (b"PUB ", b"HPUB ", b"MSG ", b"HMSG ")


def _same(frame: Frame) -> Frame | None:
    return frame


class NatsProxy(TcpProxy):
    """Listens on `url`. `from_server` and `from_client` may be set at any time: each frame goes through them, and they
    return it, another one of the same length, or None to drop it."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.from_server: Callable[[Frame], Frame | None] = _same
        self.from_client: Callable[[Frame], Frame | None] = _same
        self.url = f"nats://127.0.0.1:{self.port}"

    def pieces(self, source: socket.socket, from_client: bool) -> Iterator[bytes]:
        with source.makefile("rb") as lines:
            while line := lines.readline():
                size = int(line.split()[-1]) + 2 if line.startswith(_WITH_PAYLOAD) else 0
                alter = self.from_client if from_client else self.from_server
                if frame := alter((line, lines.read(size))):
                    yield b"".join(frame)


def zero_pending(frame: Frame) -> Frame:
    """The frame with 0 as what is still pending: of a message, and of a consumer's state."""
    line, payload = frame
    line = re.sub(rb"( \$JS\.ACK\.\S+\.)(\d+) ", lambda m: m[1] + b"0" * len(m[2]) + b" ", line)
    payload = re.sub(rb'("num_pending":)(\d+)', lambda m: m[1] + b" " * (len(m[2]) - 1) + b"0", payload)
    return line, payload


def skipping(seq: int) -> Callable[[Frame], Frame | None]:
    """Drops the delivery of one message, and numbers later ones as a server does that never sent it."""

    def alter(frame: Frame) -> Frame | None:
        line, payload = frame
        if not (ack := re.search(rb"( \$JS\.ACK\.\S+\.)(\d+)\.(\d+)(\.\d+\.\d+ )", line)) or int(ack[2]) < seq:
            return frame
        if int(ack[2]) == seq:
            return None
        return line.replace(ack[0], b"%b%b.%d%b" % (ack[1], ack[2], int(ack[3]) - 1, ack[4])), payload

    return alter
