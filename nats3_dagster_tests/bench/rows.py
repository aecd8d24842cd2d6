"""The measured paths, one function a row: each takes a Case and returns seconds for all its messages.

The rule kept here: only the path itself is timed. Streams are filled, sessions started and workers warmed before.
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
    """A stream BENCH of `messages` messages of `size` bytes, and a stream SINK on bench.sink.>."""

    settings: Settings
    messages: int
    size: int
    batched: bool

    @property
    def url(self) -> str:
        return self.settings.nats.servers[0]


def payloads(size: int, count: int) -> list[bytes]:
    """JSON as services log it: some fields repeat, some do not; cut or filled to `size` bytes."""
    rng = random.Random(1)
    out = []
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
        out.append(text[:size].encode())
    return out


def batch_of(size: int, rows: int = BATCH) -> pa.RecordBatch:
    """A MESSAGES batch of such messages."""
    return pa.record_batch(
        {
            "seq": pa.array(range(1, rows + 1), pa.int64()),
            "time_ns": pa.array(range(rows), pa.int64()),
            "subject": pa.array([f"bench.in.{n % SUBJECTS}" for n in range(rows)]),
            "headers": pa.nulls(rows, pa.binary()),
            "data": pa.array(payloads(size, rows), pa.binary()),
        }
    )


def fill(case: Case) -> None:
    """Make BENCH anew."""
    with Link(case.settings.nats) as link:
        _delete(link, "BENCH")
        create_stream(link, {"name": "BENCH", "subjects": ["bench.in.>"], "storage": "file"} | _batched(case))
    batch = batch_of(case.size)
    with Publisher(case.settings.nats, mode="batch" if case.batched else "window") as publisher:
        for at in range(0, case.messages, BATCH):
            part = batch.slice(0, min(BATCH, case.messages - at))
            publisher.publish(part.column("subject"), part.column("headers"), part.column("data"))
        publisher.flush()


def empty_sink(case: Case) -> None:
    with Link(case.settings.nats) as link:
        _delete(link, "SINK")
        create_stream(link, {"name": "SINK", "subjects": ["bench.sink.>"], "storage": "file"} | _batched(case))


def _delete(link: Link, name: str) -> None:
    if name in stream_names(link):
        delete_stream(link, name)


def _batched(case: Case) -> dict[str, object]:
    return {"allow_batched": True} if case.batched else {}


def _outgoing(case: Case, *, with_ids: bool) -> Outgoing:
    """What a replay sends of BENCH, for the rows that leave reading out."""
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
    took = time.perf_counter() - began
    assert rows == case.messages
    return took


def ingest_limit(case: Case) -> float:
    """The frames that a replay sends, built beforehand, each with a reply subject; without ids, so that no frame is a
    duplicate when it comes again."""
    out = _outgoing(case, with_ids=False)
    columns = zip(*(a.to_pylist() for a in (out.subjects, out.headers, out.data)), strict=True)
    frames = [
        b"HPUB %b _B.ack.1 %d %d\r\n%b%b\r\n" % (s.encode(), len(h), len(h) + len(d), h, d) for s, h, d in columns
    ]
    return limits.ingest(case.url, b"".join(frames), np.array([len(f) for f in frames]), max(1, case.messages // BATCH))


def natspy_publish(case: Case) -> float:
    """The same headers, given as a dict as that client wants them."""
    out = _outgoing(case, with_ids=False)
    lines = out.headers[0].as_py().decode().split("\r\n")[1:-2]
    headers = dict(line.split(": ", 1) for line in lines)
    return natspy.publish(case.url, "bench.sink.1", out.data.to_pylist(), headers, case.messages)


def publisher(case: Case) -> float:
    """Mapping, headers and publishing, as a replay does them, of batches that are in memory."""
    batch = batch_of(case.size)
    mapper = Mapper(Transform("bench.in.>", "bench.sink.>"), "0123456789abcdef", with_ids=not case.batched)
    incarnation = Incarnation("BENCH", 1_700_000_000_000_000_000)
    with Publisher(case.settings.nats, mode="batch" if case.batched else "window") as target:
        began = time.perf_counter()
        for at in range(0, case.messages, BATCH):
            shifted = batch.set_column(0, "seq", pc.add(batch.column("seq"), at)).slice(
                0, min(BATCH, case.messages - at)
            )
            out = mapper.outgoing(mapper.select(shifted)[0], incarnation)
            target.publish(out.subjects, out.headers, out.data)
        target.flush()
        return time.perf_counter() - began


ROWS: dict[str, Callable[[Case], float]] = {
    f.__name__: f for f in (delivery_limit, natspy_fetch, reader, ingest_limit, natspy_publish, publisher)
}
