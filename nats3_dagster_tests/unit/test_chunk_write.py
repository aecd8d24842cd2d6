"""Writing chunks: what goes in comes back, the bytes depend on the messages alone, and chunks tile their range."""

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.chunks import SCHEMA, open_chunk
from nats3_dagster.chunks.naming import object_key
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import MAX_SUBJECTS, ChunkMeta, SeqRange
from nats3_dagster.model.messages import MESSAGES, exact_subjects, subject_names
from nats3_dagster.subjects import decoded, encoded
from nats3_dagster_tests.support.chunks import HOUR, LOGS, START, Message, batch_of, new_writer, write

INT64 = st.integers(0, 2**63 - 1)

# As `subjects.decoded` gives them: any bytes.
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)
subjects = texts | st.binary(min_size=1).map(decoded)
blocks = st.none() | st.binary(max_size=60)


@st.composite
def messages(draw: st.DrawFn, max_size: int = 30) -> list[Message]:
    seqs = sorted(draw(st.sets(st.integers(1, 2**63 - 1) | st.integers(1, 200), min_size=1, max_size=max_size)))
    return [(seq, draw(INT64), draw(subjects), draw(blocks), draw(st.binary(max_size=60))) for seq in seqs]


def read(data: bytes | pa.Buffer, meta: ChunkMeta) -> list[Message]:
    rows = [row for batch in open_chunk(data, meta).batches() for row in batch.to_pylist()]
    return [
        (row["seq"], row["time_ns"], row["subject"] if raw is None else decoded(raw), row["headers"], row["data"])
        for row in rows
        for raw in [row["subject_bytes"]]
    ]


def test_the_largest_message_is_taken_and_a_larger_one_is_refused() -> None:
    """A chunk with it could not be read: a row group has 256 MiB of text at most, with a subject of 64 KiB."""
    most, payload = (256 << 20) - (64 << 10), bytes((256 << 20) + 1)
    batches = [batch_of([message]) for message in plain(2, size=0)]
    at = batches[0].schema.get_field_index("data")
    for size, headers, is_taken in ((most, 0, True), (most + 1, 0, False), (most, 1, False)):
        data = pa.Array.from_buffers(
            pa.binary(), 1, [None, pa.array([0, size], pa.int32()).buffers()[1], pa.py_buffer(payload)]
        )
        batch = batches[0].set_column(at, "data", data)
        if headers:
            batch = batch.set_column(at - 1, "headers", pa.array([b"x"]))
        writer = new_writer()
        if is_taken:
            writer.write(batch)
            continue
        with pytest.raises(
            ChunkError, match=r"sequences 1 to 1 has [0-9,]+ bytes, .* takes 268,369,920 at most. Delete"
        ):
            writer.write(batch)
        assert writer.messages == 0


def plain(count: int, first: int = 1, size: int = 10, subject: str = "logs.a") -> list[Message]:
    return [(first + n, START + n, subject, None, b"x" * size) for n in range(count)]


@given(messages())
def test_what_goes_in_comes_back(rows: list[Message]) -> None:
    covers = SeqRange(rows[0][0], rows[-1][0])
    data, meta = write(rows, covers)
    assert read(data, meta) == rows
    assert open_chunk(data).verify() == meta
    assert meta.messages == len(rows)
    assert (meta.first_ns, meta.last_ns) == (min(r[1] for r in rows), max(r[1] for r in rows))
    sizes = [(len(encoded(r[2])), len(r[3] or b"") + len(r[4])) for r in rows]
    assert meta.payload_bytes == sum(a + b for a, b in sizes)
    assert meta.largest_bytes == max(b for _, b in sizes)
    assert meta.subjects == Counter(r[2] for r in rows)
    assert meta.stored_bytes == len(data)
    assert meta.key == object_key("team", "logs", HOUR, LOGS, covers, meta.sha256)


@given(messages(), st.integers(0, 50), st.integers(0, 50))
def test_deleted_and_messages_fill_the_range(rows: list[Message], before: int, after: int) -> None:
    covers = SeqRange(max(1, rows[0][0] - before), min(2**63 - 1, rows[-1][0] + after))
    _, meta = write(rows, covers)
    assert meta.deleted is not None
    assert meta.messages + sum(r.size for r in meta.deleted) == covers.size
    held = {row[0] for row in rows}
    previous = covers.first - 2
    for gap in meta.deleted:
        assert previous + 1 < gap.first <= gap.last <= covers.last  # disjoint, not even adjacent
        assert not any(gap.first <= seq <= gap.last for seq in held)
        previous = gap.last


def test_deleted_is_unknown_under_a_filter() -> None:
    data, meta = write(plain(3, first=5), SeqRange(1, 10), absent_reason="unselected")
    assert meta.deleted is None
    assert meta.absent == 7
    assert open_chunk(data, meta).verify() == meta


@given(messages(), st.lists(st.integers(0, 30), max_size=5))
def test_the_bytes_do_not_depend_on_batches(rows: list[Message], cuts: list[int]) -> None:
    covers = SeqRange(rows[0][0], rows[-1][0])
    whole, meta = write(rows, covers)
    writer = new_writer()
    bounds = [0, *sorted(cuts), len(rows)]
    for a, b in pairwise(bounds):
        batch = batch_of(rows[a:b])
        if a % 2:  # as dictionaries, with an unused value in them
            coded = pa.array(["unused", *batch.column("subject").to_pylist()]).dictionary_encode()[1:]
            batch = batch.set_column(2, "subject", coded)
        writer.write(batch)
    data, again = writer.finish(covers, "deleted")
    assert data.to_pybytes() == whole
    assert again == meta


@pytest.mark.parametrize("size", [100, 300_000, 2_000_000, 3_000_000])
def test_large_row_groups_do_not_depend_on_batches(size: int) -> None:
    rows = plain(max(3, 5_000_000 // size), size=size)
    one, many = new_writer(), new_writer()
    one.write(batch_of(rows))
    for step in range(0, len(rows), 7):
        many.write(batch_of(rows[step : step + 7]))
    covers = SeqRange(1, len(rows))
    data, meta = one.finish(covers, "deleted")
    assert many.finish(covers, "deleted")[1].sha256 == meta.sha256
    groups = open_chunk(data, meta).footer.row_groups
    assert len(groups) > 1
    assert all(group.rows * (size + 6) <= 2 << 20 or group.rows == 1 for group in groups)
    assert all(group.rows * (size + 6) > 1 << 20 for group in groups[:-1])


def test_the_bytes_do_not_depend_on_the_process() -> None:
    """String hashes differ from process to process, and with them the order of whatever a hash table feeds."""
    code = (
        "from nats3_dagster_tests.support.chunks import *\n"
        "rows = [(n, START + n, f'logs.{n % 50}', None, b'%d' % n) for n in range(1, 500)]\n"
        "print(write(rows, SeqRange(1, 500))[1].sha256)"
    )
    found = set()
    for seed in "0", "1", "2":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        found.add(done.stdout)
    assert len(found) == 1


def test_the_configuration_is_written_in_one_way() -> None:
    texts = set[str]()
    for config in {"b": 1, "a": {"y": "ü", "x": []}}, {"a": {"x": [], "y": "ü"}, "b": 1}:
        writer = new_writer(**config)
        writer.write(batch_of(plain(1)))
        texts.add(open_chunk(*writer.finish(SeqRange(1, 1), "deleted")).footer.stream_config)
    assert texts == {'{"a":{"x":[],"y":"ü"},"b":1}'}


def test_tiny_messages_are_grouped_by_rows() -> None:
    data, meta = write([(n, START, "a", None, b"") for n in range(1, 40_001)], SeqRange(1, 40_000))
    assert [group.rows for group in open_chunk(data, meta).footer.row_groups] == [16_384, 16_384, 40_000 - 2 * 16_384]


def test_subjects_are_not_counted_above_the_limit() -> None:
    rows = [(n, START, f"logs.{n}", None, b"") for n in range(1, MAX_SUBJECTS + 2)]
    data, meta = write(rows, SeqRange(1, len(rows)))
    assert meta.subjects is None
    assert open_chunk(data, meta).verify() == meta
    assert len(write(rows[:-1], SeqRange(1, len(rows)))[1].subjects or ()) == MAX_SUBJECTS


def test_a_time_out_of_the_hour_is_written_as_it_is() -> None:
    rows = [(1, START + 10, "a", None, b""), (2, START - 5, "a", None, b""), (3, START + 4 * 10**12, "a", None, b"")]
    data, meta = write(rows, SeqRange(1, 3))
    assert (meta.first_ns, meta.last_ns) == (START - 5, START + 4 * 10**12)
    assert read(data, meta) == rows


@pytest.mark.parametrize("seqs", [[2, 1], [1, 1], [5, 6, 6], [1, 2**63 - 1, 3]])
def test_sequences_that_do_not_ascend_are_refused(seqs: list[int]) -> None:
    rows = [(seq, START, "a", None, b"") for seq in seqs]
    with pytest.raises(ChunkError, match="must ascend"):
        new_writer().write(batch_of(rows))
    writer = new_writer()
    with pytest.raises(ChunkError, match="must ascend"):
        for row in rows:
            writer.write(batch_of([row]))


@pytest.mark.parametrize("covers", [(2, 9), (1, 8), (10, 20), (1, 0)])
def test_a_message_out_of_the_range_is_refused(covers: tuple[int, int]) -> None:
    with pytest.raises(ChunkError, match="do not lie in the sequences"):
        write(plain(9), SeqRange(*covers))


def test_a_chunk_without_messages_is_refused() -> None:
    writer = new_writer()
    writer.write(batch_of([]))
    with pytest.raises(ChunkError, match="No message"):
        writer.finish(SeqRange(1, 9), "deleted")


def test_a_subject_that_is_not_utf8_is_kept_beside_its_text() -> None:
    names = [b"logs.a", b"logs.%FF", b"logs.\xff\xc3\xa9.\xed\xa0\x80", "logs.é".encode()]
    rows = [(n, START, decoded(name), None, b"x") for n, name in enumerate(names, 1)]
    data, meta = write(rows, SeqRange(1, 4))
    assert meta.subjects == {decoded(name): 1 for name in names}
    assert meta.payload_bytes == sum(len(name) + 1 for name in names)
    (batch,) = open_chunk(data, meta).batches()
    assert batch.column("subject").to_pylist() == ["logs.a", "logs.%FF", "logs.%FFé.%ED%A0%80", "logs.é"]
    assert batch.column("subject_bytes").to_pylist() == [None, None, names[2], None]
    assert [subject_names(exact_subjects(batch))[n] for n in exact_subjects(batch).indices.to_pylist()] == [
        decoded(name) for name in names
    ]


def test_text_that_is_not_utf8_is_refused() -> None:
    raw = pa.array([b"logs.a", b"logs.\xff"], pa.binary())
    subject = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    writer = new_writer()
    writer.write(batch_of(plain(2, first=7)).set_column(2, MESSAGES.field("subject"), subject))
    with pytest.raises(ChunkError, match="not UTF-8"):
        writer.finish(SeqRange(7, 8), "deleted")


@pytest.mark.parametrize(("text", "raw"), [("logs.%FE", b"logs.\xff"), ("logs.a", b"logs.a"), ("é", "é".encode())])
def test_text_that_is_not_that_of_the_bytes_is_refused(text: str, raw: bytes) -> None:
    batch = batch_of(plain(1, subject=text))
    batch = batch.set_column(3, MESSAGES.field("subject_bytes"), pa.array([raw], pa.binary()))
    with pytest.raises(ChunkError, match="is not the text of the bytes"):
        new_writer().write(batch)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("seq", pa.array([1], pa.uint64())),
        ("time_ns", pa.array([None], pa.int64())),
        ("data", pa.array(["text"])),
        ("subject", pa.array([None], pa.string())),
        ("subject", pa.array([b"x"])),
        ("data", None),
    ],
)
def test_other_columns_are_refused(column: str, values: pa.Array | None) -> None:
    batch = batch_of(plain(1))
    at = MESSAGES.get_field_index(column)
    batch = batch.drop_columns([column]) if values is None else batch.set_column(at, column, values)
    with pytest.raises(ChunkError, match=column):
        new_writer().write(batch)


# Rolling


def test_room_tells_where_a_chunk_is_full() -> None:
    writer, batch = new_writer(), batch_of(plain(10, size=94))  # 100 bytes each
    assert writer.room(batch, max_bytes=50) == 1
    assert writer.room(batch, max_bytes=250) == 2
    assert writer.room(batch, max_bytes=5000, max_messages=3) == 3
    writer.write(batch.slice(0, 2))
    assert writer.room(batch.slice(2), max_bytes=250) == 0
    assert writer.room(batch.slice(2), max_bytes=300) == 1
    assert writer.room(batch.slice(2), max_bytes=300, max_messages=2) == 0


def test_only_a_row_group_is_held_uncompressed() -> None:
    """64 MiB go in; what stays is their compressed form and a few times one row group."""
    writer = new_writer()
    before = pa.total_allocated_bytes()
    peak = 0
    for n in range(64):
        writer.write(batch_of(plain(16, first=1 + 16 * n, size=1 << 16)))
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert writer.payload_bytes >= 64 << 20
    assert peak < 16 << 20
    data, meta = writer.finish(SeqRange(1, 1024), "deleted")
    assert open_chunk(data, meta).verify() == meta


def test_columns_are_those_of_the_format() -> None:
    assert [field.metadata[b"PARQUET:field_id"] for field in SCHEMA] == [b"%d" % n for n in range(1, 8)]
    assert str(pa.schema([field.remove_metadata() for field in SCHEMA])).splitlines() == [
        "seq: int64 not null",
        "time: timestamp[us, tz=UTC] not null",
        "time_ns: int64 not null",
        "subject: string not null",
        "subject_bytes: binary",
        "headers: binary",
        "data: binary not null",
    ]
