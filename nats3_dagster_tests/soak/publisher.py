"""The publisher of a soak: a process of its own, which writes down what the server acknowledged, and nothing else.

Invariant: no code of the product, and no message is sent twice. A message whose acknowledgement never came, because
the server was killed, is unknown: the stream may have it once.

    python -m nats3_dagster_tests.soak.publisher --url nats://HOST:PORT --folder FOLDER --rate 20000
"""

import argparse
import re
import signal
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from nats3_dagster_tests.soak.streams import Stream, payload, streams
from nats3_dagster_tests.soak.truth import ACKED, UNKNOWN, files_of, hash_of

# Messages are sent this often, in seconds, and so many are under way at most: then the publisher waits.
TICK_S = 0.02
WINDOW = 20_000
# Without an answer for so long the connection counts as lost.
SILENCE_S = 10.0
_ACK = re.compile(rb'MSG _S\.([0-9]+) 1 [0-9]+\r\n\{"stream":"[A-Z]+", ?"seq":([0-9]+)[^}]*\}\r\n')
_ERROR = re.compile(rb'MSG _S\.([0-9]+) 1 [0-9]+\r\n(\{"error".*?\}\}?[^\r]*)\r\n')


@dataclass(slots=True)
class _Sent:
    """A message that is under way."""

    stream: int
    hash: bytes
    subject: int


class Publisher:
    """Sends what is due, and keeps the records of what came back."""

    def __init__(self, url: str, folder: Path, rate: float, first: int) -> None:
        self._url, self._rate = url, rate
        self._streams = streams(rate)
        self._texts = [stream.texts() for stream in self._streams]
        self._subjects = [[stream.subject(n) for n in range(stream.subjects)] for stream in self._streams]
        self._files = [tuple(file.open("ab") for file in files_of(folder, stream.name)) for stream in self._streams]
        self._number = first
        self._counts = [0] * len(self._streams)
        self._waiting: dict[int, _Sent] = {}
        self._heard = time.monotonic()
        self.acked = self.refused = 0
        self.ending = threading.Event()

    def run(self) -> None:
        """Publish until `ending`, over as many connections as it takes; then wait for the last answers."""
        began, paused = time.monotonic(), 0.0
        while not self.ending.is_set():
            lost = time.monotonic()
            connection = self._connect()
            if connection is None:
                break
            # While there is no server nothing is due: what was not sent is not made up for.
            paused += time.monotonic() - lost
            with connection:
                reader = threading.Thread(target=self._read, args=(connection,), daemon=True)
                reader.start()
                try:
                    self._send(connection, reader, began + paused)
                    self._drain(reader)
                except OSError:
                    pass
                with_shutdown(connection)
                reader.join(SILENCE_S)
            self._forget()
        for pair in self._files:
            for file in pair:
                file.close()

    def _connect(self) -> socket.socket | None:
        at = urlsplit(self._url)
        while not self.ending.is_set():
            try:
                connection = socket.create_connection((at.hostname or "127.0.0.1", at.port or 4222), timeout=SILENCE_S)
                connection.recv(65536)  # INFO
                connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _S.* 1\r\n')
            except OSError:
                self.ending.wait(0.2)
                continue
            self._heard = time.monotonic()
            return connection
        return None

    def _send(self, connection: socket.socket, reader: threading.Thread, began: float) -> None:
        """Send what is due since `began`, until the end or until the connection is lost."""
        while not self.ending.wait(TICK_S):
            if not reader.is_alive() or (self._waiting and time.monotonic() - self._heard > SILENCE_S):
                raise ConnectionError
            due = (time.monotonic() - began) * self._rate
            frames = bytearray()
            for index, stream in enumerate(self._streams):
                # Not more at a time than a second has: after a pause the server is not flooded.
                most = min(int(due * stream.share) - self._counts[index], int(self._rate * stream.share))
                room = WINDOW - len(self._waiting)
                if most > room:
                    self._counts[index] += most - max(0, room)
                self._append(frames, index, stream, max(0, min(most, room)))
            connection.sendall(frames)

    def _append(self, frames: bytearray, index: int, stream: Stream, count: int) -> None:
        texts, subjects = self._texts[index], self._subjects[index]
        for _ in range(count):
            number = self._number
            self._number += 1
            which = number % len(subjects)
            subject, data = subjects[which], payload(texts[number % len(texts)], number)
            self._waiting[number] = _Sent(index, hash_of(subject, data), which)
            frames += b"PUB %b _S.%d %d\r\n%b\r\n" % (subject, number, len(data), data)
        self._counts[index] += count

    def _read(self, connection: socket.socket) -> None:
        """Take the acknowledgements of one connection."""
        tail = b""
        while True:
            try:
                piece = connection.recv(1 << 18)
            except OSError:
                return
            if not piece:
                return
            self._heard = time.monotonic()
            if b"PING\r\n" in piece:
                connection.sendall(b"PONG\r\n")
            tail = self._take(tail + piece)

    def _take(self, text: bytes) -> bytes:
        """Write down what is acknowledged in a piece; what is left of it."""
        rows: list[list[tuple[int, bytes, int]]] = [[] for _ in self._streams]
        end = 0
        for match in _ACK.finditer(text):
            end = match.end()
            if sent := self._waiting.pop(int(match[1]), None):
                rows[sent.stream].append((int(match[2]), sent.hash, sent.subject))
        for match in _ERROR.finditer(text, 0):
            self.refused += 1
            end = max(end, match.end())
        for index, acked in enumerate(rows):
            if acked:
                record = np.empty(len(acked), ACKED)
                record["seq"] = [row[0] for row in acked]
                record["hash"] = np.frombuffer(b"".join(row[1] for row in acked), "<u8")
                record["subject"] = [row[2] for row in acked]
                self._files[index][0].write(record.tobytes())
                self._files[index][0].flush()
                self.acked += len(acked)
        return text[max(end, len(text) - 4096) :]

    def _drain(self, reader: threading.Thread) -> None:
        """Wait for the answers that are under way."""
        until = time.monotonic() + SILENCE_S
        while self._waiting and reader.is_alive() and time.monotonic() < until:
            time.sleep(0.05)

    def _forget(self) -> None:
        """The connection is over: what is under way is unknown."""
        for sent in self._waiting.values():
            record = np.array([(int.from_bytes(sent.hash, "little"), sent.subject)], UNKNOWN)
            self._files[sent.stream][1].write(record.tobytes())
        self._waiting.clear()
        for _, unknown in self._files:
            unknown.flush()


def with_shutdown(connection: socket.socket) -> None:
    """End a connection, so that the thread that reads it ends as well."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--first", type=int, required=True, help="the number of the first message")
    arguments = parser.parse_args()
    publisher = Publisher(arguments.url, arguments.folder, arguments.rate, arguments.first)
    signal.signal(signal.SIGTERM, lambda *_: publisher.ending.set())
    publisher.run()
    print(f"acknowledged {publisher.acked}, refused {publisher.refused}", flush=True)


if __name__ == "__main__":
    main()
