"""Golden chunks: files of format version 1 as they were written once, which every later release reads.

How they were made: `python nats3_dagster_tests/unit/test_chunk_golden.py` writes those of RECIPES that do not exist yet
and overwrites none. A file never changes again; a change of the format is a new version with a folder of its own.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nats3_dagster.chunks import SCHEMA, ChunkWriter, open_chunk
from nats3_dagster.hours import hour_of
from nats3_dagster.model import ChunkMeta, Incarnation, Reason, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.subjects import decoded

FOLDER = Path(__file__).parent.parent / "data" / "v1"
START = 1_794_726_000_000_000_000  # 2026-11-15T07:00:00Z
ORDERS = Incarnation("ORDERS", 1_790_000_000_123_456_789)


class Recipe(NamedTuple):
    """Messages as (seq, nanoseconds into the hour, subject, header block, payload), and what the file says of them. A
    subject that is not UTF-8 is a pair: the text and the bytes."""

    sha256: str
    messages: list[tuple[int, int, str | tuple[str, bytes], bytes | None, bytes]]
    covers: SeqRange
    absent_reason: Reason
    config: dict[str, Any]
    says: dict[str, Any]

    def write(self) -> tuple[bytes, ChunkMeta]:
        writer = ChunkWriter("orders_all", ORDERS, "2026-11-15-07:00", "cold", "team/eu", 3, self.config)
        for message in self.messages:  # batches of one: how they come is not to matter
            row = (message[0], START + message[1], *_pair(message[2]), *message[3:])
            columns = zip(*[row], strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
            writer.write(pa.record_batch(arrays, schema=MESSAGES))
        data, meta = writer.finish(self.covers, self.absent_reason)
        return data.to_pybytes(), meta

    def rows(self) -> list[dict[str, Any]]:
        times = [START + ns for _, ns, *_ in self.messages]
        return [
            {
                "seq": seq,
                "time": ns // 1000,
                "time_ns": ns,
                "subject": _pair(subject)[0],
                "subject_bytes": _pair(subject)[1],
                "headers": headers,
                "data": data,
            }
            for ns, (seq, _, subject, headers, data) in zip(times, self.messages, strict=True)
        ]


def _pair(subject: str | tuple[str, bytes]) -> tuple[str, bytes | None]:
    return (subject, None) if isinstance(subject, str) else subject


RECIPES = {
    # Header blocks as servers send them and as clients must not touch them, payloads that are no text, absent
    # sequences at both ends and inside, a clock that steps back, times before and after the hour, and a subject that is
    # not UTF-8.
    "messages": Recipe(
        sha256="0246bf903b88a363006d7d13808aecc0a1a93736d85369abcf5512355f71f557",
        messages=[
            (3, 0, "orders.new", None, b"first"),
            (4, 1, "orders.new", b"NATS/1.0\r\n\r\n", b""),
            (5, 999, "orders.new.eu", b"NATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n", bytes(range(256))),
            (9, 1_000, "orders.Müller.日本", b"NATS/1.0\r\nStatus: 503\r\nEmpty:\r\n\r\n", b'{"n":1}'),
            (10, 500, "orders.new", b"NATS/1.0 100 Idle\r\n\r\n", b"\x00"),
            (11, 3_599_999_999_999, "orders.paid", b"NATS/1.0\r\nRaw: \xff\xfe\r\n\r\n", b"\r\n"),
            (12, 3_600_000_000_001, "orders.paid", None, b"after the hour"),
            (13, -1, "$KV.orders.1", None, b"before the hour"),
            (14, 2_000, ("orders.%FFé", b"orders.\xff\xc3\xa9"), None, b"a subject that is not UTF-8"),
        ],
        covers=SeqRange(1, 20),
        absent_reason="superseded",
        config={"name": "ORDERS", "subjects": ["orders.>"], "metadata": {"title": "Aufträge"}, "max_age": 0},
        says={
            "messages": 9,
            "payload_bytes": 552,
            "largest_bytes": 286,
            "first_ns": START - 1,
            "last_ns": START + 3_600_000_000_001,
            "absent_reason": "superseded",
            "deleted": (SeqRange(1, 2), SeqRange(6, 8), SeqRange(15, 20)),
            "subjects": {
                "$KV.orders.1": 1,
                decoded(b"orders.\xff\xc3\xa9"): 1,
                "orders.Müller.日本": 1,
                "orders.new": 3,
                "orders.new.eu": 1,
                "orders.paid": 2,
            },
        },
    ),
    # Several row groups, sequences as large as they get, and a filter: absent sequences have no known reason.
    "groups": Recipe(
        sha256="aa9b61761302a0ac200eb8809562365e22e53ee2cec1e07b2ed7f5ac71a1af0e",
        messages=[(2**62 + 2 * n, n * 10**9, f"orders.{n % 2}", None, bytes([n]) * 900_000) for n in range(6)],
        covers=SeqRange(2**62, 2**62 + 10),
        absent_reason="unselected",
        config={},
        says={
            "messages": 6,
            "payload_bytes": 5_400_048,
            "largest_bytes": 900_000,
            "first_ns": START,
            "last_ns": START + 5 * 10**9,
            "absent_reason": "unselected",
            "deleted": None,
            "subjects": {"orders.0": 3, "orders.1": 3},
        },
    ),
}


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        micros = batch.column("time").view(pa.int64())
        rows += batch.set_column(1, "time", micros).to_pylist()
    return rows


@pytest.mark.parametrize("name", RECIPES)
def test_what_was_written_once_is_read_exactly(name: str) -> None:
    recipe, data = RECIPES[name], (FOLDER / f"{name}.parquet").read_bytes()
    assert hashlib.sha256(data).hexdigest() == recipe.sha256, "a golden file must never change"
    reader = open_chunk(data)
    assert rows_of(reader.batches(SCHEMA.names)) == recipe.rows()
    meta = reader.verify()
    assert {key: getattr(meta, key) for key in recipe.says} == recipe.says
    assert (meta.archive, meta.incarnation, meta.bucket) == ("orders_all", ORDERS, "cold")
    assert meta.hour == hour_of(START) == "2026-11-15-07:00"
    assert (meta.covers, meta.sha256, meta.stored_bytes) == (recipe.covers, recipe.sha256, len(data))
    assert meta.key.startswith("team/eu/archive=orders_all/date=2026-11-15/hour=07/")
    assert meta.key.endswith(f"-{recipe.sha256[:12]}.parquet")


@pytest.mark.parametrize("name", RECIPES)
def test_todays_writer_still_writes_the_same(name: str) -> None:
    old = (FOLDER / f"{name}.parquet").read_bytes()
    new, meta = RECIPES[name].write()
    kept = open_chunk(old).verify()
    assert replace(meta, sha256=kept.sha256, stored_bytes=kept.stored_bytes, key=kept.key) == kept
    assert rows_of(open_chunk(new, meta).batches(SCHEMA.names)) == RECIPES[name].rows()
    before, after = (pq.read_metadata(pa.BufferReader(data)) for data in (old, new))
    assert after.metadata == before.metadata  # the digest of footer and row groups among it
    assert after.schema.equals(before.schema)


def write_missing() -> None:
    for name, recipe in RECIPES.items():
        path = FOLDER / f"{name}.parquet"
        if not path.exists():
            data, _ = recipe.write()
            path.write_bytes(data)
            print(name, hashlib.sha256(data).hexdigest(), len(data))


if __name__ == "__main__":
    write_missing()
