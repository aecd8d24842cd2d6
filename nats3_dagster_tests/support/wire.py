"""A small NATS client on a socket, for tests. Invariant: it shares no code with what is tested."""

import base64
import json
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

# Messages that are published and not yet acknowledged: a server drops what comes faster than it stores.
WINDOW = 1000
# Messages asked for at a time: of the largest, less than a server keeps for a slow reader.
ASKED = 50


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
        options = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "lang": "test",
            "version": "0",
            **login,
        }
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

    def publish(self, messages: Iterable[tuple[str | bytes, bytes, bytes]]) -> None:
        """Publish (subject, header block, payload) and return when a stream has stored each. A subject may be any bytes
        that the protocol can hold; as a text it has a lone surrogate for each that is not UTF-8 (PEP 383)."""
        frames, unsent = bytearray(), 0
        for subject, headers, data in messages:
            raw = subject.encode(errors="surrogateescape") if isinstance(subject, str) else subject
            to = b"%b %b.ack" % (raw, self._inbox)
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

    def await_stream(self, subject: str) -> None:
        """Return when a stream answers on the subject: servers of a cluster tell each other of a new one after its
        leader has answered. Nothing is stored: the message expects a stream of another name."""
        raw, block = subject.encode(errors="surrogateescape"), b"NATS/1.0\r\nNats-Expected-Stream: -\r\n\r\n"
        frame = b"HPUB %b %b.expect %d %d\r\n%b\r\n" % (raw, self._inbox, len(block), len(block), block)
        until = time.monotonic() + 10
        while True:
            self._socket.sendall(frame)
            while not (line := self._file.readline()).startswith((b"MSG", b"HMSG")):
                self._socket.sendall(b"PONG\r\n")
            self._file.read(int(line.split()[-1]) + 2)
            if line.startswith(b"MSG"):
                return
            assert time.monotonic() < until, f"no stream answers on {subject}"
            time.sleep(0.05)

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

    def listen(self, subject: str) -> None:
        """Subscribe, for `heard`. A connection that listens is not for anything else."""
        self._socket.sendall(b"SUB %b 2\r\nPING\r\n" % subject.encode())
        assert self._file.readline() == b"PONG\r\n"

    def answer_flow_control(self, subject: str) -> None:
        """Listen on the deliver subject of a durable, and answer one flow control: acknowledge all that it delivered,
        to any client (ADR-60)."""
        self.listen(subject)
        last: tuple[bytes, bytes] | None = None
        while True:
            line = self._file.readline()
            if line == b"PING\r\n":
                self._socket.sendall(b"PONG\r\n")
                continue
            words, data = line.split(), self._file.read(int(line.split()[-1]) + 2)
            if found := re.search(rb"Nats-Last-Consumer: (\d+)\r\nNats-Last-Stream: (\d+)", data):
                last = found[1], found[2]
            stalled = re.search(rb"Nats-Consumer-Stalled: (\S+)", data)
            reply = stalled[1] if stalled else words[3] if b"FlowControl Request" in data else b""
            if reply and last:
                block = b"NATS/1.0\r\nNats-Last-Consumer: %b\r\nNats-Last-Stream: %b\r\n\r\n" % last
                size = len(block)
                self._socket.sendall(b"HPUB %b %d %d\r\n%b\r\nPING\r\n" % (reply, size, size, block))
                return

    def heard(self, count: int) -> list[bytes]:
        """The subjects of the next so many messages, as they were on the wire. Those without a payload do not count: a
        publisher asks a stream by them."""
        subjects: list[bytes] = []
        while len(subjects) < count:
            line = self._file.readline().removesuffix(b"\r\n").split(b" ")
            assert line[0] in (b"MSG", b"HMSG"), line
            self._file.read(int(line[-1]) + 2)
            if int(line[-1]) > (int(line[-2]) if line[0] == b"HMSG" else 0):
                subjects.append(line[1])
        return subjects

    def next(self, stream: str, consumer: str) -> str:
        """Have the next message of a pull consumer delivered; the subject that acknowledges it."""
        body = b'{"batch":1}'
        to = b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % (stream.encode(), consumer.encode())
        self._socket.sendall(b"PUB %b %b.next %d\r\n%b\r\n" % (to, self._inbox, len(body), body))
        while not (line := self._file.readline()).startswith((b"MSG", b"HMSG")):
            assert line in (b"PING\r\n", b"PONG\r\n"), line
        self._file.read(int(line.split()[-1]) + 2)
        return line.split()[3].decode()

    def send(self, subject: str, data: bytes) -> None:
        """Publish without waiting for anything."""
        self._socket.sendall(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(data), data))

    def acknowledge(self, reply: str) -> None:
        """Acknowledge a message, and return when the server has confirmed it."""
        self._socket.sendall(b"PUB %b %b.acked 4\r\n+ACK\r\n" % (reply.encode(), self._inbox))
        while not (line := self._file.readline()).startswith(b"MSG"):
            assert line in (b"PING\r\n", b"PONG\r\n"), line
        self._file.read(int(line.split()[-1]) + 2)

    def create_stream(self, name: str, *subjects: str, **config: Any) -> None:
        """For up to 10 s the server may still be deleting the files of a stream of this name: error 10049."""
        asked = {"name": name, "subjects": list(subjects), "storage": "file", **config}
        until = time.monotonic() + 10
        while True:
            try:
                self.api(f"STREAM.CREATE.{name}", **asked)
                return
            except AssertionError as refused:
                if "'err_code': 10049" not in str(refused) or time.monotonic() > until:
                    raise
            time.sleep(0.05)

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
                message = answer["message"]
                headers, data = (base64.b64decode(message.get(key, "")) for key in ("hdrs", "data"))
                yield Message(seq, message["subject"], headers, data, message["time"])

    def exact_subject(self, stream: str, seq: int) -> str:
        """The subject of a message, with a lone surrogate for each byte that is not UTF-8: JSON answers have U+FFFD
        there. The stream must allow direct reads, which any of its replicas answers."""
        until = time.monotonic() + 10
        while True:
            body = b'{"seq":%d}' % seq
            self._socket.sendall(
                b"PUB $JS.API.DIRECT.GET.%b %b.direct %d\r\n%b\r\n" % (stream.encode(), self._inbox, len(body), body)
            )
            while not (line := self._file.readline()).startswith(b"HMSG"):
                assert line in (b"PING\r\n", b"PONG\r\n"), line
            answer = self._file.read(int(line.split()[-1]) + 2)
            if match := re.search(rb"\r\nNats-Subject: ([^\r\n]*)\r\n", answer):
                return match[1].decode(errors="surrogateescape")
            assert time.monotonic() < until, answer
            time.sleep(0.1)

    def _stored(self, stream: str, seqs: Sequence[int]) -> Iterator[dict[str, Any]]:
        for at in range(0, len(seqs), ASKED):
            yield from self._answers(f"STREAM.MSG.GET.{stream}", [{"seq": seq} for seq in seqs[at : at + ASKED]])
