"""The messages of a stream, read by a plain socket: no code of nats3, and no client library, is on this path."""

import json
from collections.abc import Iterator
from typing import Any

from nats3_dagster_tests.bench.limits import PULL_MESSAGES, connect, request


def stream_messages(url: str, stream: str) -> Iterator[tuple[str, bytes]]:
    """Yields subject and payload of every message, in the stream's order."""
    connection = connect(url)
    state: Any = request(connection, f"$JS.API.STREAM.INFO.{stream}")
    if "error" in state:
        raise ValueError(f"Stream {stream}: {state['error']['description']}")
    total = state["state"]["messages"]
    config = {"ack_policy": "none", "mem_storage": True, "num_replicas": 1, "inactive_threshold": 10**10}
    consumer: Any = request(connection, f"$JS.API.CONSUMER.CREATE.{stream}", stream_name=stream, config=config)
    pull = json.dumps({"batch": PULL_MESSAGES}).encode()
    ask = f"PUB $JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer['name']} _B.peers {len(pull)}\r\n".encode() + pull
    connection.sendall(b"SUB _B.peers 1\r\n" + (ask + b"\r\n") * 2)
    with connection.makefile("rb", 1 << 20) as file:
        for number in range(1, total + 1):
            subject, _, data = next_message(file)
            yield subject, data
            if number % PULL_MESSAGES == 0:
                connection.sendall(ask + b"\r\n")
    connection.close()


def next_message(file: Any) -> tuple[str, bytes, bytes]:
    """Returns subject, header block and payload of the next message that a stream delivers."""
    while True:
        line: bytes = file.readline()
        if not line:
            raise ConnectionError("the server has closed the connection")
        if not line.startswith((b"MSG", b"HMSG")):
            continue  # PING: the server asks again only after minutes
        words = line.split()
        body: bytes = file.read(int(words[-1]) + 2)[:-2]
        header = int(words[-2]) if line.startswith(b"HMSG") else 0
        # A status of the pull request has no subject to acknowledge.
        if len(words) == (6 if header else 5):
            return words[1].decode(), body[:header], body[header:]
