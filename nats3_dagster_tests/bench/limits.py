"""The limits: a client that only counts deliveries, the same that also compresses and stores as many bytes, and
prebuilt frames whose acks are only counted.

Invariant: no code of ours is on these paths.
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import zstandard

WINDOW_BYTES = 8 << 20
# Two requests are under way. A server closes a connection with 64 MB pending: 50,000 messages of 1 KiB.
PULL_MESSAGES = 16_384
# A consumer whose flow control acknowledges (ADR-60).
FLOW_SUBJECT = "_B.flow"
FLOW = {
    "ack_policy": "flow_control",
    "flow_control": True,
    "idle_heartbeat": 10**9,
    "max_ack_pending": 8_000_000,
    "deliver_policy": "all",
}
# As chunks have them: bytes before compression.
PAGE_BYTES = 256 << 10
OBJECT_BYTES = 64 << 20


def connect(url: str) -> socket.socket:
    at = urlsplit(url)
    connection = socket.create_connection((at.hostname or "127.0.0.1", at.port or 4222), timeout=30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    connection.recv(65536)  # INFO
    connection.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
    return connection


def request(connection: socket.socket, subject: str, **body: object) -> dict[str, object]:
    data = json.dumps(body).encode()
    inbox = b"_B.api.%d" % connection.fileno()
    connection.sendall(b"SUB %b 9\r\nPUB %b %b %d\r\n%b\r\n" % (inbox, subject.encode(), inbox, len(data), data))
    reply = b""
    while not reply.endswith(b"}\r\n"):
        reply += connection.recv(65536)
    connection.sendall(b"UNSUB 9\r\n")
    return json.loads(reply[reply.index(b"\r\n") + 2 :])


def count_deliveries(
    url: str, stream: str, messages: int, first: int = 1, counted: Callable[[int], None] = lambda total: None
) -> float:
    """Seconds until a pull consumer has delivered that many messages, from sequence `first` on, to a client that counts
    their reply subjects. `counted` is called with the count after each read."""
    connection = connect(url)
    config = {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": first,
        "ack_policy": "none",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 10**10,
    }
    consumer = request(connection, f"$JS.API.CONSUMER.CREATE.{stream}", stream_name=stream, config=config)
    inbox = f"_B.got.{first}"
    pull = json.dumps({"batch": PULL_MESSAGES}).encode()
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer['name']}"
    ask = f"PUB {subject} {inbox} {len(pull)}\r\n".encode() + pull + b"\r\n"
    mark, total, asked, tail = b" $JS.ACK.", 0, 2 * PULL_MESSAGES, b""
    buffer = bytearray(1 << 20)
    began = time.perf_counter()
    connection.sendall(f"SUB {inbox} 1\r\n".encode() + ask * 2)
    while total < messages:
        size = connection.recv_into(buffer)
        assert size, "the server has closed the connection"
        piece = tail + buffer[:size]
        total += piece.count(mark)
        tail = bytes(piece[-len(mark) + 1 :])
        if asked - total < PULL_MESSAGES:
            connection.sendall(ask)
            asked += PULL_MESSAGES
        counted(total)
    elapsed_s = time.perf_counter() - began
    connection.close()
    return elapsed_s


def count_by_flow(url: str, stream: str, durable: str, messages: int) -> float:
    """Seconds until a durable with FLOW has delivered that many messages to a client that counts them, and each was
    acknowledged: all that came, at each flow control. The last one is confirmed by the durable's own state."""
    connection = connect(url)
    mark, flow, stalled = b" $JS.ACK.", b" $JS.FC.", b"Nats-Consumer-Stalled: "
    total, tail, buffer = 0, b"", bytearray(1 << 20)
    began = time.perf_counter()
    connection.sendall(f"SUB {FLOW_SUBJECT} 1\r\n".encode())
    acknowledged = 0
    while acknowledged < messages:
        size = connection.recv_into(buffer)
        assert size, "the server has closed the connection"
        piece = tail + buffer[:size]
        total += piece.count(mark)
        at = max(piece.rfind(flow), piece.rfind(stalled))
        if at >= 0 and b"\r\n" in piece[at:]:
            line = piece[at + 1 :].split(b"\r\n", 1)[0]
            reply = line.split(b" ")[1 if line.startswith(b"Nats") else 0]
            acknowledged = total - piece[at:].count(mark)
            block = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n" % (acknowledged, acknowledged)
            connection.sendall(b"HPUB %b %d %d\r\n%b\r\n" % (reply, len(block), len(block), block))
            piece = piece[at + 8 :]
        tail = bytes(piece[-512:])
        total -= tail.count(mark)
    elapsed_s = time.perf_counter() - began
    connection.close()
    return elapsed_s


def work(
    url: str,
    stream: str,
    messages: int,
    payloads: memoryview,
    size: int,
    level: int,
    put: Callable[[str, bytes], object],
) -> float:
    """Seconds until that many messages of `size` bytes were delivered, their bytes compressed once by zstd at `level`,
    and stored by `put(key, data)` in objects of OBJECT_BYTES before compression.

    Two connections deliver a half each. What is compressed are `payloads`, which stand in memory, so that nothing is
    parsed: as many of them, in their order and from the beginning again where they end, as were delivered."""

    def half(first: int, count: int) -> None:
        compressor = zstandard.ZstdCompressor(level=level)
        pieces: list[bytes] = []
        start, done, end = (first - 1) * size % len(payloads), 0, count * size

        def compress(delivered: int) -> None:
            nonlocal done
            ready = min(delivered, count) * size
            while ready - done >= PAGE_BYTES or done < ready == end:
                at = (start + done) % len(payloads)
                page = payloads[at : at + min(PAGE_BYTES, ready - done)]
                pieces.append(compressor.compress(page))
                done += len(page)
                if done == end or len(pieces) == OBJECT_BYTES // PAGE_BYTES:
                    put(f"work/{first}-{done}", b"".join(pieces))
                    pieces.clear()

        count_deliveries(url, stream, count, first, compress)
        assert done == end, (done, end)

    counts = [messages // 2, messages - messages // 2]
    began = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(half, (1, counts[0] + 1), counts))
    return time.perf_counter() - began


def ingest(url: str, frames: bytes, sizes: np.ndarray, repeats: int) -> float:
    """Seconds until the server has acknowledged `repeats` times these frames, whose reply subjects start with _B.ack.

    `sizes`: bytes of each frame. At most WINDOW_BYTES are unacknowledged."""
    connection = connect(url)
    connection.sendall(b"SUB _B.ack.* 1\r\n")
    ends = np.cumsum(sizes)
    total, acked, room = len(sizes) * repeats, 0, threading.Condition()

    def count() -> None:
        nonlocal acked
        mark, tail = b'"seq":', b""
        while acked < total:
            piece = tail + connection.recv(1 << 20)
            with room:
                acked += piece.count(mark)
                room.notify()
            assert b'"error"' not in piece, piece[:500]
            tail = piece[-len(mark) + 1 :]

    reader = threading.Thread(target=count)
    reader.start()
    step = max(1, (256 << 10) // int(sizes.mean()))
    window = max(step, WINDOW_BYTES // int(sizes.mean()))
    view = memoryview(frames)
    began = time.perf_counter()
    sent = 0
    for _ in range(repeats):
        for at in range(0, len(sizes), step):
            upto = min(at + step, len(sizes))
            with room:
                room.wait_for(lambda: sent - acked < window)  # noqa: B023
            connection.sendall(view[int(ends[at - 1]) if at else 0 : int(ends[upto - 1])])
            sent += upto - at
    reader.join(60)
    elapsed_s = time.perf_counter() - began
    assert acked == total, (acked, total)
    connection.close()
    return elapsed_s
