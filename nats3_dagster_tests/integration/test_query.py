"""SQL over archives: the rows are those of the messages, few chunks are read for them, and nothing else is."""

import csv
import io
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nats3_dagster.errors import Nats3Error, ObjectMissing, OperatorError
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, Gap, Incarnation, Selection, SeqRange
from nats3_dagster.pipeline.sources import header_maps
from nats3_dagster.query import engine
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.stored import LIFE, Made, hour_key, made, store
from nats3_dagster_tests.support.terminal import on_terminal


def message(seq: int) -> Made:
    headers = b"NATS/1.0\r\nN: %d\r\nTag: a\r\nTag: b:c\r\n\r\n" % seq if seq % 2 else None
    return Made(seq, f"logs.p{seq % 3}", json.dumps({"n": seq}).encode(), headers)


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs` of 300 messages in three hours, 100 in each."""
    found = made(workspace, bucket, "logs", last=300)
    for hour, first in ((10, 1), (11, 101), (12, 201)):
        store(workspace, found, hour, [message(seq) for seq in range(first, first + 100)])
    return found


def asked(
    workspace: Workspace, sql: str, selection: Selection | None = None, **more: Any
) -> tuple[list[tuple[Any, ...]], int]:
    """The rows, and how many chunks were read."""
    with engine.run(workspace, sql, selection or Selection(), **more) as result:
        rows = list(result.rows)
        return rows, result.scanned.chunks


def refused(workspace: Workspace, sql: str, selection: Selection | None = None, **more: Any) -> Nats3Error:
    with pytest.raises(Nats3Error) as error:
        asked(workspace, sql, selection, **more)
    return error.value


def test_a_row_has_all_of_a_message(workspace: Workspace, archive: Archive) -> None:
    sql = "SELECT *, time::VARCHAR FROM logs WHERE seq = 101"
    ((seq, _, time_ns, subject, exact, headers, data, hour, life, time),), chunks = asked(workspace, sql)
    assert (seq, time_ns, subject, exact) == (101, 1_795_258_800_101_000_000, "logs.p2", None)
    assert (headers, data) == (message(101).headers, b'{"n": 101}')
    assert (hour, life, time) == (hour_key(11), LIFE.token, "2026-11-21 11:00:00.101+00")
    assert chunks == 1


@pytest.mark.parametrize(
    ("where", "count", "chunks"),
    [
        ("true", 300, 3),
        ("seq BETWEEN 100 AND 101", 2, 2),
        ("seq > 1000", 0, 0),
        ("hour = '2026-11-21-12:00'", 100, 1),
        ("time >= '2026-11-21 11:00:00Z' AND time < '2026-11-21 12:00:00Z'", 100, 1),
        ("time_ns < 1795258800000000000", 100, 1),
        ("subject = 'other'", 0, 0),
        ("subject IN ('logs.p1', 'x')", 100, 3),
        ("seq = 1 OR hour = '2026-11-21-12:00'", 101, 2),
        ("as_json(data) ->> 'n' = '7'", 1, 3),
    ],
)
def test_only_chunks_are_read_that_may_have_what_the_statement_asks_for(
    workspace: Workspace, archive: Archive, where: str, count: int, chunks: int
) -> None:
    assert asked(workspace, f"SELECT count(data) FROM logs WHERE {where}") == ([(count,)], chunks)


def test_a_condition_is_the_same_where_it_is_pushed_down(workspace: Workspace, bucket: str) -> None:
    """Filters that DuckDB hands to Arrow have failed for some types, and chosen other rows for others."""
    found = made(workspace, bucket, "bytes", last=40)
    of = {seq: b"\x00\xff%d" % seq if seq % 5 else b"" for seq in range(1, 41)}
    store(workspace, found, 10, [replace(message(seq), data=data) for seq, data in of.items()])
    for condition in (
        r"data = '\x00\xFF7'::BLOB",
        "data = ''::BLOB",
        r"data > '\x00\xFF7'::BLOB",
        r"data IN ('\x00\xFF7'::BLOB, ''::BLOB) AND subject <> 'logs.p1'",
        "headers IS NULL AND subject_bytes IS NULL",
        "time = '2026-11-21 10:00:00.007+00'",
        "seq IN (1, 7, 301) OR seq::VARCHAR LIKE '3%'",
        "(seq < 10 OR seq > 30) AND NOT subject = 'logs.p0'",
    ):
        pushed, _ = asked(workspace, f"SELECT seq FROM bytes WHERE {condition} ORDER BY seq")
        rows = "WITH rows AS MATERIALIZED (SELECT * FROM bytes)"
        above, _ = asked(workspace, f"{rows} SELECT seq FROM rows WHERE {condition} ORDER BY seq")
        assert pushed == above, condition
        assert pushed, condition


@pytest.mark.parametrize(
    ("selection", "count", "chunks"),
    [
        (Selection.parse(hours=[hour_key(10), hour_key(12)]), 200, 2),
        (Selection.parse(sequences="50-150"), 101, 2),
        (Selection.parse(from_time="2026-11-21T12:00:00.250Z"), 51, 1),
        (Selection.parse(subjects=["*.p1"]), 100, 3),
        (Selection.parse(subjects=["nothing.>"]), 0, 0),
        (Selection.parse(subjects=["logs.p0", "logs.p1"], sequences="1-9"), 6, 1),
    ],
)
def test_the_selection_narrows_it(
    workspace: Workspace, archive: Archive, selection: Selection, count: int, chunks: int
) -> None:
    rows = asked(workspace, "SELECT count(data) FROM messages", selection, archive="logs")
    assert rows == ([(count,)], chunks)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*), min(seq), max(seq) FROM logs", [(300, 1, 300)]),
        ("SELECT count(*) FROM logs WHERE seq BETWEEN 100 AND 101", [(2,)]),
        ("SELECT hour, count(*) FROM logs GROUP BY 1 ORDER BY 1", None),
    ],
)
def test_what_the_catalog_knows_is_not_read(
    workspace: Workspace, archive: Archive, sql: str, rows: list[tuple[Any, ...]] | None
) -> None:
    """Of chunks without absent sequences: the others say by their column which ones they have."""
    if rows is None:
        chunks = workspace.catalog.chunks.select(archive)
        sums = Counter[str]()
        for chunk in chunks:
            sums[chunk.meta.hour] += chunk.meta.messages
        rows = sorted(sums.items())
    assert asked(workspace, sql) == (rows, 0)
    assert asked(workspace, sql.replace("count(*)", "count(data)"))[0] == rows


def test_archives_are_joined_by_their_names(workspace: Workspace, archive: Archive, bucket: str) -> None:
    life = Incarnation("S", LIFE.created_ns + 1)
    other = made(workspace, bucket, "copies", last=3, life=life)
    store(workspace, other, 10, [Made(n, "x", b"%d" % n) for n in (1, 2, 3)], life=life)
    sql = """
        WITH big AS (SELECT seq, data FROM copies WHERE seq > 1)
        SELECT a.seq, as_text(big.data) FROM logs a JOIN big ON as_text(big.data) = as_json(a.data) ->> 'n' ORDER BY 1
    """
    assert asked(workspace, sql)[0] == [(2, "2"), (3, "3")]
    assert asked(workspace, "WITH logs AS (SELECT 1) SELECT count(*) FROM logs") == ([(1,)], 0)


def test_two_archives_are_never_taken_for_one(workspace: Workspace, archive: Archive, bucket: str) -> None:
    made(workspace, bucket, "Logs")
    what = refused(workspace, "SELECT * FROM logs, Logs").what
    assert what in ("logs and Logs are one name in SQL", "Logs and logs are one name in SQL")


def test_headers_and_payloads_have_macros(workspace: Workspace, archive: Archive) -> None:
    sql = """
        SELECT header(headers, 'N'), header_values(headers, 'Tag'), header_map(headers)['Tag'], as_json(data) -> 'n'
        FROM logs WHERE seq IN (5, 6) ORDER BY seq
    """
    rows, _ = asked(workspace, sql)
    assert rows == [("5", ["a", "b:c"], ["a", "b:c"], "5"), (None, [], None, "6")]


def test_a_bad_byte_in_a_header_block_hides_no_header(workspace: Workspace, bucket: str) -> None:
    """The maps are those of Spark's source, whatever bytes a client wrote."""
    noise = Random(7)
    parts = [
        b"A: ",
        b"B:",
        b"\r\n",
        b":",
        b"a",
        b" ",
        b"\t",
        b"\0",
        b"'",
        b"\\x0D\\x0A",
        b"\xff",
        b"\xe9",
        "é日\U0001f600".encode(),
        b"\xe3\x81",
        b"\xf0\x9f",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe0\x80",
    ]
    blocks = [b"NATS/1.0\r\nBad: \xff\r\nN: %d\r\nN: 2\r\n\r\n" % n for n in range(1, 6)] + [
        b"NATS/1.0\r\n" + b"".join(noise.choices(parts, k=noise.randint(0, 14))) + b"\r\n\r\n" for _ in range(300)
    ]
    archive = made(workspace, bucket, "logs", last=len(blocks))
    store(workspace, archive, 10, [Made(n, "logs.a", b"", block) for n, block in enumerate(blocks, 1)])
    rows, _ = asked(workspace, "SELECT header_map(headers) FROM logs ORDER BY seq")
    assert [row[0] for row in rows] == [header_maps.parsed(block) for block in blocks]
    sql = "SELECT header(headers, 'N'), header_values(headers, 'N'), header(headers, 'Bad') FROM logs WHERE seq < 6"
    rows, _ = asked(workspace, sql + " ORDER BY seq")
    assert rows == [(str(n), [str(n), "2"], "\ufffd") for n in range(1, 6)]


def test_what_was_lost_is_never_left_out_silently(workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs", last=300)
    store(workspace, archive, 10, [message(seq) for seq in range(51, 101)])
    store(workspace, archive, 12, [message(seq) for seq in range(201, 301)])
    workspace.catalog.chunks.commit(archive, [], [Gap(LIFE, (SeqRange(1, 50),), "expired")])
    error = refused(workspace, "SELECT count(*) FROM logs")
    assert isinstance(error, OperatorError)
    assert error.what == "Sequences of the selection are not in archive logs: 1-50, 101-200"
    assert asked(workspace, "SELECT count(*) FROM logs", over_gaps=True)[0] == [(150,)]
    # What the statement cannot ask for lacks nothing.
    assert asked(workspace, "SELECT count(*) FROM logs WHERE seq > 200")[0] == [(100,)]
    assert asked(workspace, "SELECT count(*) FROM logs WHERE time >= '2026-11-21 12:30:00Z'")[0] == [(0,)]
    assert "101-200" in refused(workspace, "SELECT count(*) FROM logs WHERE time >= '2026-11-21 11:00:00Z'").what
    # Nothing is there of it, and no chunk says so.
    assert refused(workspace, "SELECT count(*) FROM logs WHERE seq < 10").what.endswith(": 1-50")
    selection = Selection(sequences=SeqRange(51, 100))
    assert asked(workspace, "SELECT count(*) FROM logs", selection)[0] == [(50,)]


def test_a_loss_counts_where_no_chunk_is_near(workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs", last=300, last_ns=hour_start(hour_key(15)))
    store(workspace, archive, 10, [message(seq) for seq in range(51, 101)])
    store(workspace, archive, 14, [message(seq) for seq in range(201, 301)])
    losses = [
        Gap(LIFE, (SeqRange(1, 30),), "expired"),
        Gap(LIFE, (SeqRange(31, 50),), "deleted"),
        Gap(LIFE, (SeqRange(101, 200),), "ttl"),
    ]
    workspace.catalog.chunks.commit(archive, [], losses)
    count = "SELECT count(*) FROM logs"
    for selection, lost in (
        (Selection(), "1-30, 101-200"),
        (Selection.parse(sequences="10-99"), "10-30"),
        (Selection.parse(sequences="5-9"), "5-9"),
        (Selection.parse(sequences="150-160"), "150-160"),
        (Selection.parse(from_time="2026-11-21T11:20:00Z", to_time="2026-11-21T11:40:00Z"), "101-200"),
        (Selection.parse(hours=[hour_key(12)]), "101-200"),
    ):
        assert refused(workspace, count, selection).what.endswith(f" are not in archive logs: {lost}")
    for selection, messages in (
        (Selection.parse(sequences="31-100"), 50),
        (Selection.parse(sequences="31-50"), 0),
        (Selection.parse(from_time="2026-11-21T14:30:00Z"), 0),
        (Selection.parse(from_time="2026-11-21T15:00:00Z", to_time="2026-11-21T16:00:00Z"), 0),
    ):
        assert asked(workspace, count, selection)[0] == [(messages,)]


def test_an_object_that_is_gone_or_damaged_is_an_error(
    workspace: Workspace, archive: Archive, s3_client: Any, bucket: str
) -> None:
    chunk = workspace.catalog.chunks.select(archive)[1].meta
    data = bytearray(s3_client.get_object(Bucket=bucket, Key=chunk.key)["Body"].read())
    data[len(data) // 2] ^= 1
    s3_client.put_object(Bucket=bucket, Key=chunk.key, Body=bytes(data))
    assert chunk.key in refused(workspace, "SELECT time FROM logs").what
    s3_client.delete_object(Bucket=bucket, Key=chunk.key)
    error = refused(workspace, "SELECT seq, time FROM logs")
    assert (type(error), chunk.key in error.what) == (ObjectMissing, True)
    assert asked(workspace, "SELECT count(*) FROM logs WHERE seq <= 100")[0] == [(100,)]


def test_what_is_no_query_is_refused_in_duckdbs_words(workspace: Workspace, archive: Archive, tmp_path: Path) -> None:
    wrong = [
        ("DROP TABLE logs", "A query is one SELECT statement"),
        ("COPY (SELECT 1) TO '{folder}/x'", "A query is one SELECT statement"),
        ("SET enable_external_access = true", "A query is one SELECT statement"),
        ("SELECT 1; SELECT 2", "A query is one SELECT statement, and this is 2"),
        ("", "A query is one SELECT statement"),
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT nothing FROM logs", 'Binder Error: Referenced column "nothing" not found'),
        ("SELECT * FROM logz", "Catalog Error: Table with name logz does not exist"),
        ("SELECT (as_text(data))::INT FROM logs", "Conversion Error: Could not convert string"),
        ("SELECT * FROM read_text('{folder}/secret')", "Permission Error"),
        ("SELECT * FROM '{folder}/secret.csv'", "Permission Error"),
        ("SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')", ""),
        ("SELECT * FROM archive", "Catalog Error"),
    ]
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    for sql, what in wrong:
        error = refused(workspace, sql.format(folder=tmp_path))
        assert isinstance(error, OperatorError), sql
        assert error.what.startswith(what), sql
        assert not (tmp_path / "x").exists(), sql


def test_the_command_prints_for_people_and_programs(nats3: Command, workspace: Workspace, archive: Archive) -> None:
    sql = "SELECT subject, count(*) AS n, max(time) AS newest FROM messages GROUP BY subject ORDER BY 1"
    ran = nats3.ok("query", "logs", sql, "--hour", hour_key(10))
    assert ran.out.splitlines()[0].split() == ["subject", "n", "newest"]
    assert ran.out.splitlines()[2].split() == ["logs.p1", "34", "2026-11-21T10:00:00.100000Z"]
    assert ran.err.splitlines()[-1].startswith("3 rows; 1 of 1 chunk read, ")
    rows = nats3.ok("query", "logs", sql, "--hour", hour_key(10), "-o", "json").json
    assert rows[1] == {"subject": "logs.p1", "n": 34, "newest": "2026-11-21T10:00:00.100000Z"}
    assert nats3.ok("query", "SELECT seq, data, as_json(data) AS event FROM logs LIMIT 1", "-o", "json").json == [
        {"seq": 1, "data": "eyJuIjogMX0=", "event": {"n": 1}}
    ]
    out = nats3.ok("query", "SELECT seq, data, headers FROM logs WHERE seq < 3 ORDER BY seq", "-o", "csv").out
    assert list(csv.reader(io.StringIO(out))) == [
        ["seq", "data", "headers"],
        ["1", '{"n": 1}', "NATS/1.0\\x0D\\x0AN: 1\\x0D\\x0ATag: a\\x0D\\x0ATag: b:c\\x0D\\x0A\\x0D\\x0A"],
        ["2", '{"n": 2}', ""],
    ]
    assert nats3.ok("query", "SELECT 1 AS a, 2 AS a WHERE false", "-o", "json").json == []
    assert nats3.ok("query", "SELECT 1 AS a, 2 AS a", "-o", "yaml").out == "- a: 1\n  a_1: 2\n"


def test_statements_that_read_in_another_way(workspace: Workspace, archive: Archive, nats3: Command) -> None:
    """In each of them `messages` is the archive that is given."""
    pivoted = [(f"logs.p{n}", 100) for n in range(3)]
    for sql, rows in [
        ("-- by subject\nPIVOT (SELECT subject FROM messages) ON subject USING count(*)", [(100, 100, 100)]),
        ("WITH p AS (PIVOT messages ON subject USING count(*) GROUP BY hour) SELECT count(*) FROM p", [(3,)]),
        ("PIVOT messages ON subject IN ('logs.p1') USING count(*) GROUP BY hour ORDER BY hour LIMIT 1", None),
        ("UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b", [("a", 1), ("b", 2)]),
        ("SHOW TABLES", [("logs",), ("messages",)]),
        ("SELECT table_name FROM information_schema.tables ORDER BY 1", [("logs",), ("messages",)]),
        ("SUMMARIZE SELECT seq FROM messages", None),
        ("DESCRIBE messages", None),
        ("SHOW messages", None),
        ("SELECT subject, count(*) FROM messages GROUP BY 1 ORDER BY 1", pivoted),
    ]:
        got, _ = asked(workspace, sql, archive="logs")
        assert got == (rows or got), sql
        assert got, sql
    for sql in (
        "EXPLAIN SELECT seq FROM logs",
        "explain analyze SELECT max(data) FROM logs",
        "EXPLAIN PIVOT logs ON hour",
    ):
        plan = nats3.ok("query", sql).out
        assert ("PYTHON_ARROW_SCAN" in plan, "\\x0a" in plan) == (True, False), sql
    for sql in (
        "EXPLAIN DROP TABLE logs",
        "EXPLAIN ANALYZE COPY logs TO '/tmp/x'",
        "CREATE TABLE t AS PIVOT logs ON subject USING count(*)",
        "EXPLAIN (FORMAT JSON) CREATE TABLE t (a INT)",
    ):
        assert refused(workspace, sql).what.startswith("A query is one SELECT statement, or EXPLAIN, PIVOT"), sql


def test_values_are_given_beside_the_statement(nats3: Command, workspace: Workspace, archive: Archive) -> None:
    sql = "SELECT seq FROM logs WHERE seq BETWEEN ? AND ? AND subject = ? ORDER BY 1"
    values = ("--param", "5", "--param", "9", "--param", "logs.p0")
    assert nats3.ok("query", sql, *values, "-o", "csv").out == "seq\n6\n9\n"
    assert nats3.ok("query", "SELECT $1 AS a, $1 AS b", "--param", "' OR 1 --", "-o", "json").json == [
        {"a": "' OR 1 --", "b": "' OR 1 --"}
    ]
    assert nats3.refused("query", sql, *values[:4]).endswith("Give a value for each ? of the statement: --param")
    assert nats3.refused("query", "SELECT 1", "--param", "x").startswith("2 Error: Binder Error")


def test_rows_as_a_parquet_file(nats3: Command, workspace: Workspace, archive: Archive, tmp_path: Path) -> None:
    def stored(sql: str) -> pa.Table:
        file = tmp_path / "rows.parquet"
        command = [sys.executable, "-m", "nats3_dagster.cli", "query", sql, "-o", "parquet"]
        with file.open("wb") as out:
            subprocess.run(command, stdout=out, check=True)
        return pq.read_table(file)

    table = stored("SELECT seq, time, data, hour AS seq, make_timestamp_ns(time_ns) AS exact FROM logs ORDER BY 1")
    assert table.column_names == ["seq", "time", "data", "seq_1", "exact"]
    assert table["seq"].to_pylist() == [*range(1, 301)]
    assert table["data"][4].as_py() == message(5).data
    assert str(table.schema.field("exact").type) == "timestamp[ns]"
    assert stored("SELECT seq FROM logs WHERE false").num_rows == 0
    assert "Parquet has no such column" in nats3.refused("query", "SELECT INTERVAL 1 DAY", "-o", "parquet")
    assert "boom" in nats3("query", "SELECT if(seq = 300, error('boom'), seq) FROM logs", "-o", "parquet").error


def test_cells_of_strangers(nats3: Command, workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs", last=3)
    subjects = ["=HYPERLINK(1)", "a\x1b[2J", "+1"]
    store(workspace, archive, 10, [Made(n, subject, b"") for n, subject in enumerate(subjects, 1)])
    sql = "SELECT subject, -seq AS n FROM logs ORDER BY seq"
    # A program gets what is there, unless it is for a spreadsheet.
    assert nats3.ok("query", sql, "-o", "csv").out == "subject,n\n=HYPERLINK(1),-1\na\x1b[2J,-2\n+1,-3\n"
    escaped = nats3.ok("query", sql, "-o", "csv", "--escape-formulas").out
    assert escaped == "subject,n\n'=HYPERLINK(1),-1\na\x1b[2J,-2\n+1,-3\n"
    assert "is for CSV" in nats3.refused("query", sql, "--escape-formulas")
    commands = [["query", sql, "--no-progress", "-o", output] for output in ("table", "csv", "json", "yaml")]
    shown = on_terminal(80, f"from nats3_dagster.cli.main import main\nfor words in {commands!r}: main(words)")
    assert (shown.count("\x1b"), shown.count("[2J")) == (0, 4)
    words = ["query", sql, "-o", "parquet"]
    assert "nothing for a terminal" in on_terminal(80, f"from nats3_dagster.cli.main import main; main({words!r})")


def test_the_command_refuses_before_it_prints(nats3: Command, workspace: Workspace, archive: Archive) -> None:
    store(workspace, archive, 13, [message(seq) for seq in (303, 304)])
    assert nats3.refused("query", "SELECT count(*) FROM logs").startswith(
        "2 Error: Sequences of the selection are not in archive logs: 301-302. Capture those hours while the stream "
        "still has them, or take what there is with --over-gaps"
    )
    assert nats3.ok("query", "SELECT count(*) FROM logs", "--over-gaps", "-o", "csv").out == "count_star()\n302\n"
    assert nats3.refused("query", "logz", "SELECT 1").startswith("2 Error: There is no archive logz")
    assert nats3.refused("query", "SELECT * FROM logz").endswith("See the list of archives: nats3 store list")
    assert nats3.refused("query", " ").startswith("2 Error: There is no statement.")
    assert "is not a sequence range" in nats3.refused("query", "SELECT 1", "--sequences", "9-1")


def test_without_duckdb_the_extra_is_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert str(refused(workspace, "SELECT 1")) == "DuckDB is not installed. pip install nats3-dagster[query]"
