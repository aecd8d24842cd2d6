"""A chunk is plain Parquet: engines read it without us, and find in it what makes them fast."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from nats3_dagster.chunks import SCHEMA, ChunkWriter
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES

START = 1_794_726_000_000_000_000  # 2026-11-15T07:00:00Z
COUNT = 20_000
# The message whose subject is not UTF-8.
BAD = 12_346


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds one chunk under its own key."""
    writer = ChunkWriter("logs", Incarnation("LOGS", START), "2026-11-15-07:00", "cold", "", 3, {"name": "LOGS"})
    columns = [
        range(1, COUNT + 1),
        [START + n * 1_000_003 for n in range(COUNT)],
        [f"logs.p{n % 7}.web" if n != BAD else "logs.%FF.web" for n in range(COUNT)],
        [None if n != BAD else b"logs.\xff.web" for n in range(COUNT)],
        [b"NATS/1.0\r\nN: %d\r\n\r\n" % n if n % 2 else None for n in range(COUNT)],
        [b'{"n": %d, "pad": "%s"}' % (n, b"x" * 200) for n in range(COUNT)],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
    writer.write(pa.record_batch(arrays, schema=MESSAGES))
    data, meta = writer.finish(SeqRange(1, COUNT), "deleted")
    folder = tmp_path_factory.mktemp("archive")
    path = folder / meta.key
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return folder


@pytest.fixture
def chunk(archive: Path) -> Path:
    return next(archive.rglob("*.parquet"))


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def test_duckdb_reads_every_value(duck: duckdb.DuckDBPyConnection, chunk: Path) -> None:
    described = duck.execute(
        "SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet(?, hive_partitioning = false))", [str(chunk)]
    )
    assert described.fetchall() == [
        ("seq", "BIGINT"),
        ("time", "TIMESTAMP WITH TIME ZONE"),
        ("time_ns", "BIGINT"),
        ("subject", "VARCHAR"),
        ("subject_bytes", "BLOB"),
        ("headers", "BLOB"),
        ("data", "BLOB"),
    ]
    row = duck.execute(
        f"SELECT {', '.join(MESSAGES.names)}, time::VARCHAR FROM read_parquet(?) WHERE seq = 20000", [str(chunk)]
    )
    assert row.fetchone() == (
        COUNT,
        START + 19_999 * 1_000_003,
        "logs.p0.web",
        None,
        b"NATS/1.0\r\nN: 19999\r\n\r\n",
        b'{"n": 19999, "pad": "%s"}' % (b"x" * 200),
        "2026-11-15 07:00:19.999059+00",
    )
    counted = duck.execute("SELECT count(*), count(headers), sum(seq) FROM read_parquet(?)", [str(chunk)])
    assert counted.fetchone() == (COUNT, COUNT // 2, COUNT * (COUNT + 1) // 2)


def test_duckdb_finds_the_partitions_in_the_keys(duck: duckdb.DuckDBPyConnection, archive: Path) -> None:
    found = duck.execute(
        "SELECT DISTINCT archive, date, hour FROM read_parquet(?, hive_partitioning = true, "
        "hive_types = {'archive': VARCHAR, 'date': DATE, 'hour': VARCHAR})",
        [f"{archive}/archive=*/**/*.parquet"],
    ).fetchall()
    assert [(name, str(date), hour) for name, date, hour in found] == [("logs", "2026-11-15", "07")]


def test_duckdb_reads_json_payloads(duck: duckdb.DuckDBPyConnection, chunk: Path) -> None:
    query = """
        SELECT subject, sum((decode(data)::JSON ->> 'n')::BIGINT) AS n
        FROM read_parquet(?) WHERE subject_bytes IS NULL GROUP BY subject ORDER BY subject LIMIT 1
    """
    assert duck.execute(query, [str(chunk)]).fetchall() == [("logs.p0.web", sum(range(0, COUNT, 7)))]


def test_duckdb_reads_the_metadata_and_skips_by_the_bloom_filter(duck: duckdb.DuckDBPyConnection, chunk: Path) -> None:
    pairs = duck.execute("SELECT decode(key), decode(value) FROM parquet_kv_metadata(?)", [str(chunk)]).fetchall()
    assert ("nats3.messages", str(COUNT)) in pairs
    # Between the smallest and the largest subject, so that only the bloom filter can tell that it is not there.
    probe = "SELECT bool_and(bloom_filter_excludes) FROM parquet_bloom_probe(?, 'subject', ?)"
    assert duck.execute(probe, [str(chunk), "logs.p3.xxx"]).fetchone() == (True,)
    assert duck.execute(probe, [str(chunk), "logs.p3.web"]).fetchone() == (False,)


def test_the_documents_queries_run(
    duck: duckdb.DuckDBPyConnection, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cold").symlink_to(archive)
    document = Path(__file__).parents[2] / "docs" / "chunk-format.md"
    monkeypatch.chdir(tmp_path)
    queries = [
        query
        for block in re.findall(r"```sql\n(.*?)```", document.read_text(), re.DOTALL)
        for query in block.split(";")
        if query.strip()
    ]
    assert len(queries) == 2
    for query in queries:
        duck.execute(query).fetchall()


def test_plain_pyarrow_reads_it_with_page_checksums(chunk: Path) -> None:
    table = pq.read_table(chunk, page_checksum_verification=True, partitioning=None)
    assert table.schema.equals(SCHEMA)
    assert table.num_rows == COUNT
    picked = ds.dataset(chunk).to_table(filter=ds.field("seq") == 12_345)
    assert picked["time_ns"].to_pylist() == [START + 12_344 * 1_000_003]


def test_engines_read_a_subject_that_is_not_utf8(duck: duckdb.DuckDBPyConnection, chunk: Path) -> None:
    query = "SELECT seq, subject, subject_bytes FROM read_parquet(?) WHERE subject_bytes IS NOT NULL"
    expected = (BAD + 1, "logs.%FF.web", b"logs.\xff.web")
    assert duck.execute(query, [str(chunk)]).fetchall() == [expected]
    by_text = ds.dataset(chunk).to_table(filter=ds.field("subject") == "logs.%FF.web").to_pylist()
    assert [(row["seq"], row["subject"], row["subject_bytes"]) for row in by_text] == [expected]


def test_the_file_has_what_the_format_promises(chunk: Path) -> None:
    metadata = pq.read_metadata(chunk)
    assert metadata.num_row_groups > 1
    encodings = {
        "seq": "DELTA_BINARY_PACKED",
        "time": "DELTA_BINARY_PACKED",
        "time_ns": "DELTA_BINARY_PACKED",
        "subject": "RLE_DICTIONARY",
        "subject_bytes": "PLAIN",
        "headers": "PLAIN",
        "data": "PLAIN",
    }
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        assert group.sorting_columns == (pq.SortingColumn(0),)
        for index, (name, encoding) in enumerate(encodings.items()):
            column = group.column(index)
            assert (column.path_in_schema, column.compression) == (name, "ZSTD")
            assert encoding in column.encodings
            assert column.has_offset_index
            assert column.has_column_index == column.is_stats_set == (name not in ("headers", "data"))
    broken = bytearray(chunk.read_bytes())
    broken[metadata.row_group(0).column(6).data_page_offset + 5_000] ^= 1
    with pytest.raises(OSError, match="CRC checksum"):
        pq.read_table(pa.BufferReader(broken), page_checksum_verification=True)
