"""A NATS client of forty lines that shares nothing with the code under test: bytes out, bytes in."""

import base64
import json
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

WINDOW = 1000
ASKED = 50  # messages at a time: of the largest, less than a server keeps for a slow reader


class Message(NamedTuple):
    """What a stream holds: `headers` is the raw block, empty when the message has none."""

    seq: int
    subject: str
    headers: bytes
    data: bytes
    time: str = ""


class Wire:
    """One plain connection. Publishes raw frames and asks the JetStream API; every call is bounded by 10 s."""

    def __init__(self, url: str, **login: str) -> None:
        """`login`: `user` and `pass`, as CONNECT names them."""
        at = urlsplit(url)
        self._socket = socket.create_connection((at.hostname or "127.0.0.1", at.port or 4222), timeout=10)
        self._file = self._socket.makefile("rb")
        self._file.readline()  # INFO
        options = {"verbose": False, "headers": True, "no_responders": True, "lang": "test", "version": "0", **login}
        # Its own: two connections of one test would read each other's answers.
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
        """Publish (subject, header block, payload) and return when a stream has stored each. A server drops what comes
        faster than it stores, so at most WINDOW are under way."""
        frames, waiting = bytearray(), 0
        for subject, headers, data in messages:
            to = subject.encode()
            if headers:
                frames += b"HPUB %b %b.ack %d %d\r\n%b%b\r\n" % (
                    to,
                    self._inbox,
                    len(headers),
                    len(headers) + len(data),
                    headers,
                    data,
                )
            else:
                frames += b"PUB %b %b.ack %d\r\n%b\r\n" % (to, self._inbox, len(data), data)
            waiting += 1
            if waiting == WINDOW:
                self._send(frames, waiting)
                waiting = 0
        self._send(frames, waiting)

    def _send(self, frames: bytearray, count: int) -> None:
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
        """The answer of `$JS.API.<what>`; fails on an error in it."""
        answer = self.try_api(what, **request)
        assert "error" not in answer, answer["error"]
        return answer

    def try_api(self, what: str, **request: Any) -> dict[str, Any]:
        return self._answers(what, [request])[0]

    def _answers(self, what: str, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Of requests that are all sent before the first answer is read."""
        frames, answers = bytearray(), dict[int, dict[str, Any]]()
        for number, request in enumerate(requests):
            body = json.dumps(request).encode() if request else b""
            frames += b"PUB $JS.API.%b %b.%d %d\r\n%b\r\n" % (what.encode(), self._inbox, number, len(body), body)
        self._socket.sendall(frames)
        while len(answers) < len(requests):
            line = self._file.readline()
            if line.startswith((b"MSG", b"HMSG")):
                payload = self._file.read(int(line.split()[-1]) + 2)
                number = int(line.split()[1].rpartition(b".")[2])
                answers[number] = json.loads(payload) if line.startswith(b"MSG") else {"error": payload.decode()}
                continue
            if line == b"PING\r\n":
                self._socket.sendall(b"PONG\r\n")
            assert line == b"PING\r\n" or line == b"PONG\r\n", line
        return [answers[number] for number in range(len(requests))]

    def create_stream(self, name: str, *subjects: str, **config: Any) -> None:
        self.api(f"STREAM.CREATE.{name}", **{"name": name, "subjects": list(subjects), "storage": "file", **config})

    def state(self, stream: str) -> dict[str, Any]:
        return self.api(f"STREAM.INFO.{stream}")["state"]

    def quiet(self, stream: str, seconds: float) -> int:
        """How many messages the stream has, once the last of them is as old as that."""
        while True:
            state = self.state(stream)
            if time.time() - datetime.fromisoformat(state["last_ts"]).timestamp() > seconds:
                return state["messages"]
            time.sleep(0.02)

    def messages(self, stream: str) -> Iterator[Message]:
        """All messages of the stream by STREAM.MSG.GET: independent of consumers."""
        state = self.state(stream)
        seqs = range(state["first_seq"], state["last_seq"] + 1)
        for seq, answer in zip(seqs, self._stored(stream, seqs), strict=True):
            if "message" in answer:
                m = answer["message"]
                headers, data = (base64.b64decode(m.get(key, "")) for key in ("hdrs", "data"))
                yield Message(seq, m["subject"], headers, data, m["time"])

    def _stored(self, stream: str, seqs: Sequence[int]) -> Iterator[dict[str, Any]]:
        for at in range(0, len(seqs), ASKED):
            yield from self._answers(f"STREAM.MSG.GET.{stream}", [{"seq": seq} for seq in seqs[at : at + ASKED]])
