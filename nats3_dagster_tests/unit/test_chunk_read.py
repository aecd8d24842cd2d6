"""Reading chunks: exactly what is asked for, from exactly what was written, or ChunkError and nothing else."""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nats3_dagster.chunks import SCHEMA, ChunkWriter, open_chunk
from nats3_dagster.chunks.footer import Footer, RowGroup
from nats3_dagster.chunks.read import open_parsed, parse_footer, prove_identity
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import ChunkMeta, Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.subjects import decoded

LOGS = Incarnation("LOGS", 1_790_000_000_123_456_789)
START = 1_794_726_000_000_000_000
BLOCK = b"NATS/1.0\r\nTrace: 1\r\n\r\n"


def time_of(n: int) -> int:
    """A second apart, but every tenth is set back by five."""
    return START + (n - 5 * (n % 10 == 0)) * 10**9


def made(count: int = 40, size: int = 0, archive: str = "logs") -> tuple[bytes, ChunkMeta]:
    """Even sequences 2, 4 ... in order."""
    writer = ChunkWriter(archive, LOGS, "2026-11-15-07:00", "cold", "", 3, {"name": "LOGS"})
    rows = [
        (2 * n, time_of(n), f"logs.{n % 3}", None, BLOCK if n % 2 else None, b"%d" % n + bytes(size))
        for n in range(1, count + 1)
    ]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
    writer.write(pa.record_batch(arrays, schema=MESSAGES))
    data, meta = writer.finish(SeqRange(1, 2 * count + 1), "deleted")
    return data.to_pybytes(), meta


SMALL, SMALL_META = made()
LARGE, LARGE_META = made(size=300_000)  # six messages a row group


def content(data: bytes, expect: ChunkMeta | None = None) -> tuple[list[dict[str, Any]], ChunkMeta]:
    """Everything that can be read, and what the chunk says of itself apart from its own size and name."""
    reader = open_chunk(data, expect)
    rows = [row for batch in reader.batches(SCHEMA.names) for row in batch.to_pylist()]
    return rows, replace(reader.verify(), sha256="", stored_bytes=0, key="")


@given(st.integers(-5, 100), st.integers(-5, 100))
def test_a_range_of_sequences_is_cut_exactly(first: int, last: int) -> None:
    whole = [seq for seq in range(2, 81, 2) if first <= seq <= last]
    for data, meta in (SMALL, SMALL_META), (LARGE, LARGE_META):
        batches = list(open_chunk(data, meta).batches(["seq"], seqs=SeqRange(first, last)))
        assert [seq for batch in batches for seq in batch.column("seq").to_pylist()] == whole
        assert all(batch.num_rows for batch in batches)


@given(st.integers(-5, 50), st.integers(-5, 50), st.integers(0, 1))
def test_a_range_of_times_includes_its_start_and_not_its_end(start: int, end: int, past: int) -> None:
    window = (START + start * 10**9, START + end * 10**9 + past)
    times = [time_of(n) for n in range(1, 41)]
    for data, meta in (SMALL, SMALL_META), (LARGE, LARGE_META):
        found = [ns for b in open_chunk(data, meta).batches(["time_ns"], times=window) for ns in b[0].to_pylist()]
        assert found == [ns for ns in times if window[0] <= ns < window[1]]


def test_row_groups_out_of_the_range_are_not_read() -> None:
    """Their pages are overwritten: a reader that touches them fails."""
    groups = open_chunk(LARGE, LARGE_META).footer.row_groups
    assert len(groups) == 7
    metadata = pq.read_metadata(pa.BufferReader(LARGE))
    broken = bytearray(LARGE)
    for index in (0, 1, 2, 4, 5, 6):
        start = metadata.row_group(index).column(0).data_page_offset
        broken[start : start + 16] = bytes(16)
    reader = open_chunk(bytes(broken))
    wanted = list(range(groups[3].first_seq, groups[3].last_seq + 1, 2))
    by_seq = list(reader.batches(["seq"], seqs=SeqRange(wanted[0], wanted[-1])))
    assert [seq for batch in by_seq for seq in batch[0].to_pylist()] == wanted
    with pytest.raises(ChunkError):
        list(reader.batches(["seq"]))


class Recorded(io.BytesIO):
    """A file that remembers which bytes were read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[tuple[int, int]] = []

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.reads.append((start, start + len(data)))
        return data


def test_a_source_is_read_only_where_the_wanted_row_groups_are() -> None:
    file = Recorded(LARGE)
    parsed = parse_footer(pa.py_buffer(LARGE[-100_000:]), LARGE_META.stored_bytes)
    sizes = {"sha256": LARGE_META.sha256, "stored_bytes": LARGE_META.stored_bytes}
    asked: list[tuple[int, int]] = []
    reader = open_parsed(parsed, pa.PythonFile(file, "r"), **sizes, prepare=lambda *span: asked.append(span))
    prove_identity(reader.meta, LARGE_META)
    assert not file.reads
    group = pq.read_metadata(pa.BufferReader(LARGE)).row_group(3)
    columns = [group.column(index) for index in range(group.num_columns)]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    end = max(start + column.total_compressed_size for start, column in zip(starts, columns, strict=True))
    bounds = reader.footer.row_groups[3]
    file.reads.clear()
    batches = list(reader.batches(seqs=SeqRange(bounds.first_seq, bounds.last_seq)))
    assert [batch.num_rows for batch in batches] == [bounds.rows]
    assert file.reads
    assert all(min(starts) <= first <= last <= end for first, last in file.reads)
    assert asked == [(min(starts), end - min(starts))] == [reader.span(3)]
    # Neighbouring columns lie together: of few of them, little is asked for.
    list(reader.batches(["seq", "time_ns"], seqs=SeqRange(bounds.first_seq, bounds.last_seq)))
    assert asked[1] == reader.span(3, ["seq", "time", "time_ns"]) < asked[0]


def test_columns_come_as_asked_for() -> None:
    reader = open_chunk(SMALL, SMALL_META)
    assert next(reader.batches()).schema.names == MESSAGES.names
    assert next(reader.batches(["data", "time", "seq"])).schema.names == ["data", "time", "seq"]
    assert next(reader.batches(["subject"], times=(0, 2**63 - 1))).schema.names == ["subject"]
    assert next(reader.batches()).schema.equals(MESSAGES)
    coded = next(reader.batches(["subject"], dictionary=True)).column(0)
    assert pa.types.is_dictionary(coded.type)
    assert coded.to_pylist() == next(reader.batches(["subject"])).column(0).to_pylist()


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_bytes_are_read(form: Callable[[bytes], Any]) -> None:
    assert content(form(SMALL), SMALL_META)[1].messages == 40


# Damage


def test_every_bit_flip_is_caught() -> None:
    for bit in range(8 * len(SMALL)):
        broken = bytearray(SMALL)
        broken[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(ChunkError, match="SHA-256"):
            open_chunk(broken, SMALL_META)


def test_without_a_sha256_no_bit_flip_changes_what_is_read() -> None:
    """A bit that nothing checks (a bloom filter's, a statistic's for other engines) may flip; a message may not."""
    whole = content(SMALL)
    outcomes = Counter[str]()
    for bit in range(0, 8 * len(SMALL), 5):
        broken = bytearray(SMALL)
        broken[bit >> 3] ^= 1 << (bit & 7)
        try:
            assert content(bytes(broken)) == whole, f"bit {bit} went unnoticed"
            outcomes["harmless"] += 1
        except ChunkError:
            outcomes["caught"] += 1
    assert outcomes["caught"] > outcomes["harmless"]


def test_every_truncation_is_caught() -> None:
    for size in range(len(SMALL)):
        with pytest.raises(ChunkError, match="bytes and should have"):
            open_chunk(SMALL[:size], SMALL_META)
        with pytest.raises(ChunkError, match=r"is not Parquet|cannot be read"):
            open_chunk(SMALL[:size])
    for tail in b"\0", b"PAR1", SMALL:
        with pytest.raises(ChunkError):
            content(SMALL + tail, SMALL_META)


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, len(SMALL)), st.integers(0, len(SMALL)))
def test_garbage_raises_chunk_error_and_nothing_else(junk: bytes, start: int, end: int) -> None:
    whole = content(SMALL)
    for data in junk, b"PAR1" + junk + b"PAR1", SMALL[:start] + junk + SMALL[end:]:
        try:
            assert content(data) == whole
        except ChunkError as error:
            caught = error
            assert caught.hint, data
            assert "\n" not in str(caught), data


def test_another_chunk_under_the_key_is_caught() -> None:
    other, other_meta = made(archive="other")
    with pytest.raises(ChunkError, match=r"SHA-256|bytes and should have"):
        open_chunk(other, SMALL_META)
    # Whoever overwrote the catalog's hash as well still has the wrong archive.
    forged = replace(SMALL_META, sha256=hashlib.sha256(other).hexdigest(), stored_bytes=len(other))
    with pytest.raises(ChunkError, match="has archive other and should have logs"):
        open_chunk(other, forged)
    assert open_chunk(other, replace(other_meta, bucket="a-copy")).meta.archive == "other"


@pytest.mark.parametrize(
    "change",
    [
        {"archive": "x"},
        {"incarnation": Incarnation("LOGS", 1)},
        {"incarnation": Incarnation("X", LOGS.created_ns)},
        {"hour": "2026-11-15-08:00"},
        {"covers": SeqRange(1, 80)},
        {"messages": 39},
        {"payload_bytes": 1},
        {"largest_bytes": 1},
        {"first_ns": 0},
        {"last_ns": 0},
        {"stored_bytes": 1},
        {"sha256": "0" * 64},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_expectation_is_held(change: dict[str, Any]) -> None:
    with pytest.raises(ChunkError) as caught:
        open_chunk(SMALL, replace(SMALL_META, **change))
    assert caught.value.hint


# Files that are Parquet and not, or not yet, a chunk


def rewritten(
    table: pa.Table | None = None, chunk: bytes = SMALL, groups: Sequence[int] = (), **changes: str | None
) -> bytes:
    """A chunk with other columns or metadata, its digest made right again: what another writer could produce. `groups`:
    the rows of its row groups, if there are several."""
    messages = pq.read_table(pa.BufferReader(chunk)) if table is None else table
    pairs = {key.decode(): value.decode() for key, value in pq.read_metadata(pa.BufferReader(chunk)).metadata.items()}
    for name, value in changes.items():
        pairs.pop(f"nats3.{name}", None)
        if value is not None:
            pairs[f"nats3.{name}"] = value
    if "digest" not in changes:
        lines = [f"{key}={value}\n" for key, value in sorted(pairs.items()) if key != "nats3.digest"]
        pairs["nats3.digest"] = hashlib.sha256("".join(lines).encode()).hexdigest()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, messages.schema, store_schema=False) as writer:
        for start, rows in zip(accumulate(groups, initial=0), groups or [messages.num_rows], strict=False):
            writer.write_table(messages.slice(start, rows))
        writer.add_key_value_metadata(pairs)
    return sink.getvalue().to_pybytes()


def test_a_file_of_another_writer_is_read() -> None:
    assert content(rewritten()) == content(SMALL)


def test_a_newer_version_asks_for_an_upgrade() -> None:
    for newer in rewritten(format_version="2"), rewritten(format_version="17", digest="of another kind"):
        with pytest.raises(ChunkError, match="Upgrade nats3-dagster") as caught:
            open_chunk(newer)
        assert "reads up to 1" in caught.value.what


def columns_but(change: Callable[[pa.Table], pa.Table]) -> pa.Table:
    return change(pq.read_table(pa.BufferReader(SMALL)))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is not Parquet"),
        (b"PAR2" + SMALL[4:], "is not Parquet"),
        (rewritten(format_version=None), "is not a chunk"),
        (rewritten(format_version="one"), "format version is 'one'"),
        (rewritten(format_version="0"), "format version is '0'"),
        (rewritten(digest=None), "own digest"),
        (rewritten(archive="other", digest="0" * 64), "own digest"),
        (rewritten(archive=None), "cannot be read"),
        (rewritten(messages="41"), "contradicts itself"),
        (rewritten(messages="4_0"), "contradicts itself"),
        (rewritten(first_time_ns="0"), "contradicts itself"),
        (rewritten(hour="2026-11-15"), "cannot be read: '2026-11-15' is not an hour"),
        (rewritten(covers_first="3"), "do not lie"),
        (rewritten(covers_last="79"), "do not lie"),
        (rewritten(row_groups="[]"), "do not lie"),
        (rewritten(row_groups="[[1,2]]"), "cannot be read"),
        (rewritten(row_groups="{}"), "do not lie|cannot be read"),
        (rewritten(absent_reason="maybe"), "'maybe' is no reason"),
        (rewritten(absent_reason="none"), "contradicts itself"),
        (rewritten(more="1"), "contradicts itself"),
        (rewritten(row_group_subjects="[null,null]"), "1 row groups have 2 filters"),
        (rewritten(row_group_subjects='[""]'), "another size"),
        (rewritten(row_group_subjects=f'["{"A" * 44}"]'), "another size"),
        (rewritten(row_group_subjects=f'["{"A" * 726}AA=="]'), "another size"),
        (rewritten(row_group_subjects='["?"]'), "cannot be read"),
        (rewritten(row_group_subjects="[1]"), "cannot be read"),
        (rewritten(row_group_subjects="7"), "cannot be read"),
        (rewritten(row_group_subjects="[null ]"), "contradicts itself"),
        (rewritten(columns_but(lambda t: t.drop_columns(["data"]))), "columns are not those"),
        (rewritten(columns_but(lambda t: t.append_column("x", t["seq"]))), "columns are not those"),
        (rewritten(columns_but(lambda t: t.slice(1))), "row groups that its metadata names"),
    ],
)
def test_what_contradicts_itself_is_refused(data: bytes, match: str) -> None:
    with pytest.raises(ChunkError, match=match) as caught:
        open_chunk(data)
    assert caught.value.hint


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.take([1, 0, *range(2, 40)]),
        lambda t: t.take([0, 2, 1, *range(3, 40)]),
        lambda t: t.set_column(2, t.schema.field("time_ns"), pa.compute.add(t["time_ns"], 1)),
        lambda t: t.set_column(1, t.schema.field("time"), t["time"].take([0, 0, *range(2, 40)])),
        lambda t: t.set_column(4, t.schema.field("subject_bytes"), pa.array([b"\xff"] * 40)),
        lambda t: t.set_column(6, t.schema.field("data"), t["data"].take([0, 39, *range(2, 40)])),
        lambda t: t.set_column(6, t.schema.field("data"), pa.compute.binary_join_element_wise(t["data"], b"x", b"")),
    ],
    ids=["order", "order-inside", "time_ns", "time", "subject-bytes", "one-payload", "all-payloads"],
)
def test_other_messages_under_a_sound_footer_are_refused(change: Callable[[pa.Table], pa.Table]) -> None:
    reader = open_chunk(rewritten(columns_but(change)))
    with pytest.raises(ChunkError):
        reader.verify()


def test_the_footer_alone_rebuilds_the_catalogs_row() -> None:
    """All of ChunkMeta but hash, size and key comes from the object; those three from its bytes."""
    assert open_chunk(SMALL).verify() == SMALL_META
    assert open_chunk(SMALL).meta == replace(SMALL_META, deleted=None, subjects=None, minutes=None)
    assert open_chunk(SMALL).footer.stream_config == '{"name":"LOGS"}'
    footer = Footer(
        "logs",
        "cold",
        "",
        LOGS,
        "2026-11-15-07:00",
        SeqRange(1, 81),
        "deleted",
        SMALL_META.payload_bytes,
        SMALL_META.largest_bytes,
        '{"name":"LOGS"}',
        (RowGroup(40, 2, 80, SMALL_META.first_ns, SMALL_META.last_ns),),
    )
    written = pq.read_metadata(pa.BufferReader(SMALL)).metadata
    assert {key.encode(): value.encode() for key, value in footer.metadata().items()} == written


def test_a_row_group_says_which_subjects_it_may_have() -> None:
    """Three row groups: the subjects of the first, the rest with a byte that is not UTF-8, and 500 in the last."""
    writer = ChunkWriter("logs", LOGS, "2026-11-15-07:00", "cold", "", 3, {"name": "LOGS"})
    for first, names in (
        (1, [b"logs.a"] * 4),
        (5, [b"logs.b", b"logs.\xff"] * 2),
        (9, [b"l.%d" % n for n in range(500)]),
    ):
        seqs = range(first, first + len(names))
        payload = bytes((2 << 20) // len(names) - 100)
        texts, exact = subject_columns(pa.array(names, pa.binary()))
        nothing = pa.nulls(len(names), pa.binary())
        columns = [seqs, [START] * len(names), texts, exact, nothing, [payload] * len(names)]
        writer.write(pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, MESSAGES, strict=True)], MESSAGES))
    data, meta = writer.finish(SeqRange(1, 508), "deleted")
    reader = open_chunk(data, meta)
    assert [group.rows for group in reader.footer.row_groups] == [4, 4, 500]
    decoded_byte = decoded(b"logs.\xff")
    asked = (["logs.a"], ["logs.b"], [decoded_byte], ["logs.none", "logs.b"], ["logs.none"])
    assert [[reader.may_have(n, subjects) for n in range(3)] for subjects in asked] == [
        [True, False, None],
        [False, True, None],
        [False, True, None],
        [False, True, None],
        [False, False, None],
    ]
    # A chunk of one row group has no filters, and nothing is known of it.
    assert open_chunk(SMALL).footer.group_subjects == ()
    assert open_chunk(SMALL).may_have(0, ["logs.none"]) is None
    # Another writer may leave them out; wrong ones are found.
    messages = pq.read_table(pa.BufferReader(data))
    first, second, third = json.loads(pq.read_metadata(pa.BufferReader(data)).metadata[b"nats3.row_group_subjects"])
    for filters, why in (
        (None, ""),
        ([None, second, third], "filters of subjects"),
        ([second, first, None], "filters"),
    ):
        text = None if filters is None else json.dumps(filters, separators=(",", ":"))
        other = open_chunk(rewritten(messages, data.to_pybytes(), [4, 4, 500], row_group_subjects=text))
        assert other.may_have(0, ["logs.b"]) is (None if filters is None or not filters[0] else True)
        with pytest.raises(ChunkError, match=why) if why else nullcontext():
            other.verify()


def test_a_damaged_footer_does_not_end_the_process_when_it_is_asked_for_spans() -> None:
    """Parquet's classes for Python do, by `terminate`, for some of these."""
    data = (Path(__file__).parents[1] / "data" / "v1" / "groups.parquet").read_bytes()
    source = pa.BufferReader(data)
    good = open_parsed(parse_footer(pa.py_buffer(data), len(data)), source, sha256="0" * 64, stored_bytes=len(data))
    spans = [good.span(index) for index in range(len(good.footer.row_groups))]
    for at in range(good.footer_start, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        try:
            parsed = parse_footer(pa.py_buffer(bytes(damaged)), len(data))
            reader = open_parsed(parsed, source, sha256="0" * 64, stored_bytes=len(data))
            found = [reader.span(index) for index in range(len(spans))]
        except ChunkError:
            continue
        assert all(4 <= start < start + length <= len(data) for start, length in found)
