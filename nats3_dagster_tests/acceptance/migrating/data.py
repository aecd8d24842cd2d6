"""Rows of metrics, objects and defaults."""

import hashlib
import io
import re
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from nats3_dagster_tests.acceptance.migrating.shared import (
    Checks,
    equal,
    has,
    no_bucket,
)
from nats3_dagster_tests.acceptance.migrating.side import Side
from nats3_dagster_tests.support.replays import archived


def _series(name: str, *labels: dict[str, str]) -> Callable[[Side], None]:
    """The metric has exactly these series, and no other label."""

    def check(side: Side) -> None:
        seen = [dict(pairs) for metric, pairs in side.scraped.samples if metric == name]
        assert sorted(map(str, seen)) == sorted(map(str, labels)), seen

    return check


def _instead(name: str, *ours: str) -> Callable[[Side], None]:
    """A metric of the first releases is not there, and these are."""

    def check(side: Side) -> None:
        names = {metric for metric, _ in side.scraped.samples}
        assert not [metric for metric in names if metric.startswith(name)]
        assert set(ours) <= names

    return check


BOTH = ({"direction": "in"}, {"direction": "out"})
JOBS = ({"job_type": "store"}, {"job_type": "load"})
METRICS: Checks = {
    "nats3_jobs_total{job_type,status}": _series(
        "nats3_jobs_total", *(job | {"status": status} for job in JOBS for status in ("completed", "failed"))
    ),
    "nats3_jobs_current{job_type}": _series("nats3_jobs_current", *JOBS),
    "nats3_nats_messages_total{direction}": _series("nats3_nats_messages_total", *BOTH),
    "nats3_nats_bytes_total{direction}": _series("nats3_nats_bytes_total", *BOTH),
    "nats3_s3_objects_total{direction}": _series("nats3_s3_objects_total", *BOTH),
    "nats3_s3_bytes_total{direction}": _series("nats3_s3_bytes_total", *BOTH),
    "nats3_store_messages, nats3_store_bytes": _instead(
        "nats3_store_", "nats3_archive_captured_messages_total", "nats3_nats_bytes_total"
    ),
    "nats3_load_messages, nats3_load_bytes": _instead(
        "nats3_load_", "nats3_replay_published_messages_total", "nats3_nats_bytes_total"
    ),
    "nats3_store_jobs, nats3_load_jobs": _instead("nats3_store_jobs", "nats3_jobs_current"),
}


def _chunk(side: Side) -> tuple[dict[str, Any], bytes]:
    """A chunk of EV, and its object."""
    chunk = side.nats3.ok("chunk", "list", "events", "-o", "json").json[0]
    path = side.folder / f"{side.name}.parquet"
    side.nats3.ok("chunk", "fetch", "events", str(chunk["id"]), "--to", str(path))
    return chunk, path.read_bytes()


def _table(side: Side) -> Any:
    return pq.read_table(io.BytesIO(_chunk(side)[1])).to_pydict()


def _object_key(side: Side) -> None:
    key = _chunk(side)[0]["key"]
    assert re.fullmatch(
        r"archive=events/date=[\d-]{10}/hour=\d\d/\d{8}T\d{15}Z-\d{20}-\d{20}-[0-9a-f]{12}\.parquet", key
    ), key


def _zstd(side: Side) -> None:
    group = pq.ParquetFile(io.BytesIO(_chunk(side)[1])).metadata.row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {"ZSTD"}


def _sequences(side: Side) -> None:
    table, stored = _table(side), list(side.wire.messages("EV"))
    assert table["seq"] == [m.seq for m in stored]
    assert [f"{t.isoformat()[:26]}" for t in table["time"]] == [m.time[:26] for m in stored]


def _headers(side: Side) -> None:
    block = b"NATS/1.0\r\nA: 1\r\nA:  two\r\n\r\n"
    side.wire.create_stream("HEADERS", "headers")
    side.wire.publish([("headers", block, b"x")])
    archived(side.workspace, side.wire, "HEADERS", side.bucket, "headers")
    (message,) = side.workspace.catalog.chunks.select(side.workspace.catalog.archives.get("headers"))
    path = side.folder / "headers.parquet"
    side.nats3.ok("chunk", "fetch", "headers", str(message.id), "--to", str(path))
    assert pq.read_table(path).to_pydict()["headers"] == [block]


def _hash(side: Side) -> None:
    chunk, body = _chunk(side)
    assert chunk["sha256"] == hashlib.sha256(body).hexdigest()
    assert b"nats3.digest" in pq.ParquetFile(io.BytesIO(body)).metadata.metadata


OBJECTS: Checks = {
    "PREFIX/STREAM/SUBJECT/SECONDS-COUNT.bin, .json": _object_key,
    "bincode or JSON of a block of messages": _zstd,
    "sequence, timestamp of a message": _sequences,
    "headers of a message": _headers,
    "hash of a block": _hash,
}


def _no_durable(side: Side) -> None:
    side.wire.create_stream("AB", "a.b", "a_b")
    for subject in ("a.b", "a_b"):
        side.store(stream="AB", subject=subject)
    assert side.wire.state("AB")["consumer_count"] == 0


DEFAULTS: Checks = {
    "listens on 0.0.0.0:8080": lambda side: equal(side.nats3.ok("config", "get", "api-listen").out, "127.0.0.1:8080\n"),
    "batch.max_count 1,000": lambda side: equal(
        (side.store()["max_messages"], side.store(batch={"max_bytes": 5})["max_messages"]), (1_000_000, 1000)
    ),
    "batch.max_bytes 1,000,000": lambda side: equal(
        (side.store()["max_bytes"], side.store(batch={"max_count": 5})["max_bytes"]), (64 << 20, 1_000_000)
    ),
    "a batch waits 10 s at most": has("store", {"max_age_s": 60}),
    "a missing bucket is created": no_bucket,
    "a durable named by the subject: orders.> is orders__": _no_durable,
}
