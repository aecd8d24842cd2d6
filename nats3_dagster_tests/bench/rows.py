"""The measured paths, one function a row: each takes a Case and returns the seconds for all its messages.

Invariant: only the path is timed. Streams are filled, sessions started and workers warmed up before.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import S3Store
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import create_stream, delete_stream, stream_names, stream_state
from nats3_dagster.model import ArchiveSpec, Incarnation, SeqRange
from nats3_dagster.replay.messages.mapping import Mapper, Outgoing
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import Transform
from nats3_dagster_tests.bench import limits, natspy
from nats3_dagster_tests.bench.payloads import payloads

if TYPE_CHECKING:
    from obstore.store import S3Config

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
    # Whether BENCH takes fast-ingest batches, and SINK mostly as well: server 2.14 or later.
    batched: bool
    # Copies of both streams.
    replicas: int = 1

    @property
    def url(self) -> str:
        return self.settings.nats.servers[0]


def batch_of(size: int, rows: int = BATCH, first: int = 0) -> pa.RecordBatch:
    """A batch of messages, those from number `first` on, with the columns of a reader's batch."""
    return pa.record_batch(
        {
            "seq": pa.array(range(first + 1, first + rows + 1), pa.int64()),
            "time_ns": pa.array(range(rows), pa.int64()),
            "subject": pa.array([f"bench.in.{n % SUBJECTS}" for n in range(rows)]),
            "subject_bytes": pa.nulls(rows, pa.binary()),
            "headers": pa.nulls(rows, pa.binary()),
            "data": pa.array(payloads(size, rows, first), pa.binary()),
        }
    )


def fill(settings: Settings, messages: int, size: int, replicas: int = 1) -> Case:
    """Make BENCH anew, with as many messages of this size."""
    case = Case(settings, messages, size, _make_stream(settings, "BENCH", "bench.in.>", replicas), replicas)
    with Publisher(settings.nats, mode="batch" if case.batched else "window") as target:
        for at in range(0, messages, BATCH):
            part = batch_of(size, min(BATCH, messages - at), at)
            target.publish(part.column("subject"), part.column("headers"), part.column("data"))
        target.flush()
    return case


def empty_sink(case: Case, takes: str = "allow_batched") -> None:
    """Make SINK anew; `takes`: the setting of the batches that it takes, empty for none."""
    _make_stream(case.settings, "SINK", "bench.sink.>", case.replicas, takes)


def _make_stream(settings: Settings, name: str, subject: str, replicas: int, takes: str = "allow_batched") -> bool:
    """Make an empty stream; True if it takes fast-ingest batches. An older server has no such setting, and leaves it
    out."""
    config = {"name": name, "subjects": [subject], "num_replicas": replicas} | ({takes: True} if takes else {})
    with Link(settings.nats) as link:
        if name in stream_names(link):
            delete_stream(link, name)
        # A cluster that has just started refuses streams until it has a leader.
        retrying = Retrying(retry=retry_if_exception_type(SourceError), stop=stop_after_delay(30), wait=wait_fixed(0.2))
        return bool(retrying(create_stream, link, config).config.get("allow_batched"))


def _outgoing(case: Case, *, with_ids: bool) -> Outgoing:
    """What a replay publishes of BENCH, for the rows that do not read."""
    batch, _ = (
        mapper := Mapper(Transform("bench.in.>", "bench.sink.>"), "0123456789abcdef", with_ids=with_ids)
    ).select(batch_of(case.size))
    return mapper.outgoing(batch, Incarnation("BENCH", 1_700_000_000_000_000_000))


def delivery_limit(case: Case) -> float:
    return limits.count_deliveries(case.url, "BENCH", case.messages)


def work_limit(case: Case) -> float:
    """At the level that archives have by default."""
    store = case.settings.store
    config: S3Config = {
        "endpoint": store.endpoint or "",
        "region": store.region,
        "access_key_id": store.access_key_id or "",
        "secret_access_key": store.secret_access_key or "",
    }
    bucket = S3Store("bench", config=config, client_options={"allow_http": True})
    texts = b"".join(payloads(case.size, min(case.messages, (32 << 20) // case.size)))
    level = ArchiveSpec("bench", "BENCH", "bench").zstd_level
    put = partial(obstore.put, bucket)
    return limits.work(case.url, "BENCH", case.messages, memoryview(texts), case.size, level, put)


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
    frames = [b"HPUB %b _B.ack.1 %d %d\r\n%b%b\r\n" % (s, len(h), len(h) + len(d), h, d) for s, h, d in columns]
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
    f.__name__: f for f in (delivery_limit, work_limit, natspy_fetch, reader, ingest_limit, natspy_publish, publisher)
}
