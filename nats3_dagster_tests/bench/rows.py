"""The measured paths, one function a row: each takes a Case and returns the seconds for all its messages.

Invariant: only the path is timed. Streams are filled, sessions started and workers warmed up before.
"""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publisher import Publisher
from nats3_dagster.jetstream.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import create_stream, delete_stream, stream_names, stream_state
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.replay.mapping import Mapper, Outgoing
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import Transform
from nats3_dagster_tests.bench import limits, natspy

BATCH = 8192
SUBJECTS = 64


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured: a stream BENCH on bench.in.>, and a stream SINK on bench.sink.>."""

    settings: Settings
    # Messages in BENCH.
    messages: int
    # Payload of each in bytes.
    size: int
    # Whether both streams take fast-ingest batches: server 2.14 or later.
    batched: bool

    @property
    def url(self) -> str:
        return self.settings.nats.servers[0]


def payloads(size: int, count: int) -> list[bytes]:
    """JSON as services log it: some fields repeat, some do not; cut or filled to `size` bytes."""
    rng = random.Random(1)
    texts = []
    for n in range(count):
        event = {
            "ts": f"2026-11-21T07:{n // 60 % 60:02d}:{n % 60:02d}.{rng.randrange(10**6):06d}Z",
            "level": rng.choice(["info", "info", "warn"]),
            "service": rng.choice(["orders", "billing", "search"]),
            "trace": f"{rng.getrandbits(64):016x}",
            "user": rng.randrange(10**6),
            "path": f"/v1/items/{rng.randrange(10**4)}",
            "status": rng.choice([200, 200, 200, 404]),
            "ms": round(rng.random() * 300, 2),
        }
        text = json.dumps(event)
        while len(text) < size:
            text += f',"k{len(text)}":"{rng.getrandbits(96):x}"'
        texts.append(text[:size].encode())
    return texts


def batch_of(size: int, rows: int = BATCH) -> pa.RecordBatch:
    """A batch of such messages, with the columns of a reader's batch."""
    return pa.record_batch(
        {
            "seq": pa.array(range(1, rows + 1), pa.int64()),
            "time_ns": pa.array(range(rows), pa.int64()),
            "subject": pa.array([f"bench.in.{n % SUBJECTS}" for n in range(rows)]),
            "headers": pa.nulls(rows, pa.binary()),
            "data": pa.array(payloads(size, rows), pa.binary()),
        }
    )


def fill(settings: Settings, messages: int, size: int) -> Case:
    """Make BENCH anew, with as many messages of this size."""
    case = Case(settings, messages, size, _make_stream(settings, "BENCH", "bench.in.>"))
    batch = batch_of(size)
    with Publisher(settings.nats, mode="batch" if case.batched else "window") as target:
        for at in range(0, messages, BATCH):
            part = batch.slice(0, min(BATCH, messages - at))
            target.publish(part.column("subject"), part.column("headers"), part.column("data"))
        target.flush()
    return case


def empty_sink(case: Case) -> None:
    """Make SINK anew."""
    _make_stream(case.settings, "SINK", "bench.sink.>")


def _make_stream(settings: Settings, name: str, subject: str) -> bool:
    """Make an empty stream; whether it takes batches. An older server has no such setting and leaves it out."""
    config = {"name": name, "subjects": [subject], "storage": "file", "allow_batched": True}
    with Link(settings.nats) as link:
        if name in stream_names(link):
            delete_stream(link, name)
        return bool(create_stream(link, config).config.get("allow_batched"))


def _outgoing(case: Case, *, with_ids: bool) -> Outgoing:
    """What a replay publishes of BENCH, for the rows that do not read."""
    batch, _ = (
        mapper := Mapper(Transform("bench.in.>", "bench.sink.>"), "0123456789abcdef", with_ids=with_ids)
    ).select(batch_of(case.size))
    return mapper.outgoing(batch, Incarnation("BENCH", 1_700_000_000_000_000_000))


def delivery_limit(case: Case) -> float:
    return limits.count_deliveries(case.url, "BENCH", case.messages)


def natspy_fetch(case: Case) -> float:
    return natspy.fetch(case.url, "BENCH", "bench.in.>", case.messages)


def reader(case: Case) -> float:
    with Link(case.settings.nats) as link:
        state = stream_state(link, "BENCH")
    began = time.perf_counter()
    rows = sum(
        b.num_rows for b in read_batches(case.settings.nats, ReadSpec(state.incarnation, SeqRange(1, state.last_seq)))
    )
    elapsed_s = time.perf_counter() - began
    assert rows == case.messages
    return elapsed_s


def ingest_limit(case: Case) -> float:
    """The frames that a replay sends, built before, each with a reply subject; without message ids, so that a repeated
    frame is no duplicate."""
    outgoing = _outgoing(case, with_ids=False)
    columns = zip(*(a.to_pylist() for a in (outgoing.subjects, outgoing.headers, outgoing.data)), strict=True)
    frames = [
        b"HPUB %b _B.ack.1 %d %d\r\n%b%b\r\n" % (s.encode(), len(h), len(h) + len(d), h, d) for s, h, d in columns
    ]
    return limits.ingest(case.url, b"".join(frames), np.array([len(f) for f in frames]), max(1, case.messages // BATCH))


def natspy_publish(case: Case) -> float:
    """The same headers, as the dict that this client takes."""
    outgoing = _outgoing(case, with_ids=False)
    lines = outgoing.headers[0].as_py().decode().split("\r\n")[1:-2]
    headers = dict(line.split(": ", 1) for line in lines)
    return natspy.publish(case.url, "bench.sink.1", outgoing.data.to_pylist(), headers, case.messages)


def publisher(case: Case) -> float:
    """Map, add headers and publish as a replay does, of batches in memory."""
    batch = batch_of(case.size)
    mapper = Mapper(Transform("bench.in.>", "bench.sink.>"), "0123456789abcdef", with_ids=not case.batched)
    incarnation = Incarnation("BENCH", 1_700_000_000_000_000_000)
    with Publisher(case.settings.nats, mode="batch" if case.batched else "window") as target:
        began = time.perf_counter()
        for at in range(0, case.messages, BATCH):
            shifted = batch.set_column(0, "seq", pc.add(batch.column("seq"), at)).slice(
                0, min(BATCH, case.messages - at)
            )
            outgoing = mapper.outgoing(mapper.select(shifted)[0], incarnation)
            target.publish(outgoing.subjects, outgoing.headers, outgoing.data)
        target.flush()
        return time.perf_counter() - began


ROWS: dict[str, Callable[[Case], float]] = {
    f.__name__: f for f in (delivery_limit, natspy_fetch, reader, ingest_limit, natspy_publish, publisher)
}
