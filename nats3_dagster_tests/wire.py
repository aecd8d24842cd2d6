"""A small NATS client on a socket, for tests. Invariant: it shares no code with what is tested."""

import base64
import json
import secrets
import socket
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

# Messages that are published and not yet acknowledged: a server drops what comes faster than it stores.
WINDOW = 1000


class Message(NamedTuple):
    """A message as the stream stored it."""

    seq: int
    subject: str
    # The raw block, empty when there is none.
    headers: bytes
    data: bytes
    # The store time in RFC 3339.
    time: str = ""


class Wire:
    """One plain connection. Publishes raw frames and asks the JetStream API; every call is bounded by 10 s."""

    def __init__(self, url: str, **login: str) -> None:
        """`login`: `user` and `pass`, as CONNECT names them."""
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname or "127.0.0.1", address.port or 4222), timeout=10)
        self._file = self._socket.makefile("rb")
        self._file.readline()  # INFO
        options = {"verbose": False, "headers": True, "no_responders": True, "lang": "test", "version": "0", **login}
        # Of this connection alone: two connections of one test must not read each other's answers.
        self._inbox = b"_TEST.%b" % secrets.token_hex(4).encode()
        self._socket.sendall(b"CONNECT %b\r\nSUB %b.* 1\r\n" % (json.dumps(options).encode(), self._inbox))

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def publish(self, messages: Iterable[tuple[str, bytes, bytes]]) -> None:
        """Publish (subject, header block, payload) and return when a stream has stored each."""
        frames, unsent = bytearray(), 0
        for subject, headers, data in messages:
            to = b"%b %b.ack" % (subject.encode(), self._inbox)
            if headers:
                size = len(headers) + len(data)
                frames += b"HPUB %b %d %d\r\n%b%b\r\n" % (to, len(headers), size, headers, data)
            else:
                frames += b"PUB %b %d\r\n%b\r\n" % (to, len(data), data)
            unsent += 1
            if unsent == WINDOW:
                self._send(frames, unsent)
                unsent = 0
        self._send(frames, unsent)

    def _send(self, frames: bytearray, count: int) -> None:
        """Send the frames of `count` messages, wait for their acks, and empty the buffer."""
        self._socket.sendall(frames)
        frames.clear()
        while count:
            line = self._file.readline()
            if line == b"PING\r\n":
                self._socket.sendall(b"PONG\r\n")
                continue
            assert line.startswith(b"MSG %b.ack" % self._inbox), line
            answer = self._file.read(int(line.split()[-1]) + 2)
            assert b'"seq":' in answer, answer
            count -= 1

    def api(self, what: str, **request: Any) -> dict[str, Any]:
        """The answer of `$JS.API.<what>`. Fails when it is an error."""
        answer = self.try_api(what, **request)
        assert "error" not in answer, answer["error"]
        return answer

    def try_api(self, what: str, **request: Any) -> dict[str, Any]:
        """The answer of `$JS.API.<what>`; `error` in it when the server refuses or nobody answers."""
        body = json.dumps(request).encode() if request else b""
        self._socket.sendall(b"PUB $JS.API.%b %b.reply %d\r\n%b\r\n" % (what.encode(), self._inbox, len(body), body))
        while True:
            line = self._file.readline()
            if line.startswith((b"MSG", b"HMSG")):
                payload = self._file.read(int(line.split()[-1]) + 2)
                return json.loads(payload) if line.startswith(b"MSG") else {"error": payload.decode()}
            if line == b"PING\r\n":
                self._socket.sendall(b"PONG\r\n")
            assert line == b"PING\r\n" or line == b"PONG\r\n", line

    def create_stream(self, name: str, *subjects: str, **config: Any) -> None:
        self.api(f"STREAM.CREATE.{name}", **{"name": name, "subjects": list(subjects), "storage": "file", **config})

    def state(self, stream: str) -> dict[str, Any]:
        return self.api(f"STREAM.INFO.{stream}")["state"]

    def messages(self, stream: str) -> Iterator[Message]:
        """All messages of the stream, one by one by STREAM.MSG.GET: slow, and without a consumer."""
        state = self.state(stream)
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            answer = self.try_api(f"STREAM.MSG.GET.{stream}", seq=seq)
            if "message" in answer:
                message = answer["message"]
                headers, data = (base64.b64decode(message.get(key, "")) for key in ("hdrs", "data"))
                yield Message(seq, message["subject"], headers, data, message["time"])
