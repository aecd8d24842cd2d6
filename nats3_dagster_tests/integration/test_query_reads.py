"""What a query reads: the row groups and columns that the statement needs, and never another answer for it."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.stored.ranged import TAIL_BYTES
from nats3_dagster.chunks.footer_cache import FooterCache
from nats3_dagster.errors import ChunkError, Conflict, Nats3Error, ObjectMissing
from nats3_dagster.hours import format_time, hour_of
from nats3_dagster.model import Archive, Incarnation, Selection
from nats3_dagster.query import engine
from nats3_dagster.query.table import COLUMNS, ArchiveDataset, Scanned
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import LOGS, state
from nats3_dagster_tests.support.points import SECOND, T0, add_chunk, create, message

LATER = Incarnation("LOGS", LOGS.created_ns + 3600 * SECOND)


@pytest.fixture
def wide(workspace: Workspace, bucket: str) -> Archive:
    """One chunk of four row groups of 100 messages, whose payloads do not compress: 200 KB in each group."""
    archive = create(workspace, bucket)
    noise = random.Random(4)
    rows = [message(seq, b"logs.%d" % (seq % 3), noise.randbytes(2_000)) for seq in range(1, 401)]
    add_chunk(workspace, archive, rows, group_rows=100)
    return archive


def fetched(workspace: Workspace, sql: str, selection: Selection | None = None) -> tuple[list[tuple[Any, ...]], int]:
    """The rows, and the bytes that were fetched for them beside the footer."""
    workspace._footers = FooterCache()
    with engine.run(workspace, sql, selection or Selection(), over_gaps=True) as result:
        rows = list(result.rows)
        return rows, result.scanned.fetched_bytes - TAIL_BYTES


@pytest.mark.parametrize(
    ("sql", "row", "least", "most"),
    [
        ("SELECT count(*) FROM logs", (400,), -TAIL_BYTES, -TAIL_BYTES),
        ("SELECT max(seq) FROM logs WHERE seq <= 350", (350,), -TAIL_BYTES, -TAIL_BYTES),
        ("SELECT count(*), max(hour) FROM logs", (400, hour_of(T0 + SECOND)), -TAIL_BYTES, -TAIL_BYTES),
        (
            "SELECT max(time_ns), min(logs.TIME_NS) FROM logs",
            (T0 + 400 * SECOND, T0 + SECOND),
            -TAIL_BYTES,
            -TAIL_BYTES,
        ),
        ("SELECT max(epoch_us(time)), min(time_ns) FROM logs", ((T0 + 400 * SECOND) // 1000, T0 + SECOND), 100, 20_000),
        ("SELECT count(time_ns), max(time_ns) FROM logs", (400, T0 + 400 * SECOND), 100, 20_000),
        ("SELECT max(time_ns) FILTER (seq < 9) FROM logs", (T0 + 8 * SECOND,), 100, 20_000),
        ("SELECT max(time_ns) FROM (SELECT time_ns FROM logs LIMIT 9)", (T0 + 9 * SECOND,), 100, 20_000),
        ("SELECT max(subject) FROM logs", ("logs.2",), 100, 20_000),
        ("SELECT max(time_ns) FROM logs WHERE time < '2099-01-01'", (T0 + 400 * SECOND,), 100, 20_000),
        ("SELECT sum(octet_length(data)) FROM logs WHERE seq BETWEEN 101 AND 200", (200_000,), 200_000, 210_000),
        ("SELECT sum(octet_length(data)) FROM logs WHERE seq BETWEEN 150 AND 250", (202_000,), 400_000, 410_000),
        ("SELECT sum(octet_length(data)) FROM logs WHERE seq = 500", (None,), -TAIL_BYTES, -TAIL_BYTES),
        (f"SELECT count(data) FROM logs WHERE time_ns > {T0 + 350 * SECOND}", (50,), 60_000, 210_000),
        ("SELECT sum(octet_length(data)) FROM logs", (800_000,), 600_000, 810_000),
    ],
)
def test_only_the_columns_and_row_groups_of_the_statement_are_fetched(
    workspace: Workspace, wide: Archive, sql: str, row: tuple[Any, ...], least: int, most: int
) -> None:
    rows, taken = fetched(workspace, sql)
    assert rows == [row]
    assert least <= taken <= most


@pytest.mark.parametrize(("first", "last", "is_known"), [(1, 400, True), (2, 400, False), (1, 399, False)])
def test_a_count_of_times_reads_only_chunks_that_they_cut(
    workspace: Workspace, wide: Archive, first: int, last: int, is_known: bool
) -> None:
    times = Selection(from_ns=T0 + first * SECOND, to_ns=T0 + last * SECOND + 1)
    rows, taken = fetched(workspace, "SELECT count(*) FROM logs", times)
    assert rows == [(last - first + 1,)]
    assert (taken == -TAIL_BYTES) == is_known


@pytest.mark.parametrize("sequences", [None, "150-750"])
def test_extremes_of_times_are_those_of_the_messages(workspace: Workspace, bucket: str, sequences: str | None) -> None:
    archive = create(workspace, bucket)
    noise = random.Random(7)
    times = [T0 + noise.randrange(3000 * SECOND) for _ in range(900)]
    for first in range(1, 900, 300):
        rows = [message(seq, b"a", time_ns=times[seq - 1]) for seq in range(first, first + 300)]
        add_chunk(workspace, archive, rows, group_rows=100)
    asked = Selection.parse(sequences=sequences) if sequences else Selection()
    taken = times[149:750] if sequences else times
    answers = list[list[tuple[Any, ...]]]()
    for kept in ("", " WHERE seq > 0"):  # from the catalog where it knows, and from the chunks
        sql = "SELECT min(time_ns), max(time_ns), min(time), max(time) FROM logs" + kept
        with engine.run(workspace, sql, asked, over_gaps=True) as result:
            answers.append(list(result.rows))
    assert answers[0] == answers[1]
    assert answers[0][0][:2] == (min(taken), max(taken))


def rows_of(workspace: Workspace, archive: Archive, noise: random.Random) -> list[dict[str, Any]]:
    """Rows of six chunks in two lives of the stream: with gaps, times that step back, subjects that are no text."""
    rows = list[dict[str, Any]]()
    for number in range(6):
        life, hour = (LOGS, number) if number < 4 else (LATER, number - 1)
        first = (number if number < 4 else number - 4) * 200 + 1
        messages = [
            message(
                first + seq,
                noise.choice([b"a.1", b"a.2", b"b", b"b.\xff", b"c'\"."]),
                noise.choice([b"", b"x", b"\xff\0", b"%d" % seq]),
                time_ns=T0 + hour * 3600 * SECOND + noise.randrange(3000 * SECOND),
                headers=noise.choice([None, b"NATS/1.0\r\nN: 1\r\n\r\n"]),
            )
            for seq in (sorted(noise.sample(range(200), 185)) if number != 2 else range(185))
        ]
        chunk = add_chunk(workspace, archive, messages, covers=(first, first + 199), incarnation=life, group_rows=37)
        assert len(rows) % 37 == 0
        rows += [
            {
                **row,
                "subject": row["subject"].decode("utf-8", "replace").replace("\ufffd", "%FF"),
                "subject_bytes": row["subject"] if b"\xff" in row["subject"] else None,
                "hour": chunk.meta.hour,
                "incarnation": life.token,
            }
            for row in messages
        ]
    return rows


def conditions(rows: list[dict[str, Any]], noise: random.Random) -> str:
    """A WHERE of conditions as people write them, of values that the messages have, or nearly."""

    # Mostly of messages at the ends of row groups.
    edges = [row for at in range(0, len(rows), 37) for row in rows[max(0, at - 1) : at + 1]]

    def value(name: str) -> Any:
        return noise.choice(noise.choice([rows, edges, edges]))[name]

    def moment() -> str:
        return f"'{format_time(value('time_ns') + noise.choice([-1, 0, 1, 1000]))}'"

    kinds: list[Callable[[], str]] = [
        lambda: f"seq {noise.choice(['<', '<=', '=', '<>', '>=', '>'])} {value('seq')}",
        lambda: f"seq BETWEEN {value('seq')} AND {value('seq')}",
        lambda: f"seq IN ({value('seq')}, {value('seq')}, 9999)",
        lambda: f"NOT seq < {value('seq')}",
        lambda: f"seq + 1 > {value('seq')}",
        lambda: f"time {noise.choice(['<', '<=', '=', '>=', '>'])} {moment()}",
        lambda: f"time BETWEEN {moment()} AND {moment()}",
        lambda: f"time_ns {noise.choice(['<', '<=', '=', '>=', '>'])} {value('time_ns')}",
        lambda: f"hour {noise.choice(['=', '<', '>', '<>'])} '{value('hour')}'",
        lambda: f"hour IN ('{value('hour')}', '{value('hour')}')",
        lambda: f"incarnation = '{value('incarnation')}'",
        lambda: "subject {} '{}'".format(noise.choice("=<>"), value("subject").replace("'", "''")),
        lambda: "subject IN ('b', '{}')".format(value("subject").replace("'", "''")),
        lambda: "subject LIKE 'a.%'",
        lambda: f"subject_bytes IS {noise.choice(['', 'NOT '])}NULL",
        lambda: f"headers IS {noise.choice(['', 'NOT '])}NULL",
        lambda: "data = 'x'::BLOB",
        lambda: "data <> '\\xFF\\x00'::BLOB",
        lambda: "octet_length(data) > 1",
        lambda: f"date_trunc('hour', time) = date_trunc('hour', TIMESTAMPTZ {moment()})",
        lambda: f"seq > (SELECT min(seq) + {noise.randrange(300)} FROM logs)",
        lambda: f"seq IN (SELECT seq FROM logs WHERE subject = '{noise.choice(['b', 'a.1'])}' AND data = 'x'::BLOB)",
    ]
    parts = [f"({noise.choice(kinds)()})" for _ in range(noise.randint(1, 3))]
    return noise.choice([" AND ", " AND ", " OR "]).join(parts)


def test_what_is_left_out_never_changes_an_answer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_STORE_URL", f"file://{tmp_path}")
    (tmp_path / "cold").mkdir()
    with Workspace(Settings.load()) as workspace:
        _compare(workspace, random.Random(92), 60)


def _compare(workspace: Workspace, noise: random.Random, statements: int) -> None:
    archive = create(workspace, "cold")
    workspace.catalog.coverage.begin(archive, state(LATER))
    rows = rows_of(workspace, archive, noise)
    everything = pa.Table.from_pylist([{**row, "time": row["time_ns"] // 1000} for row in rows], COLUMNS)
    with duckdb.connect() as plain:
        plain.execute("SET TimeZone = 'UTC'")
        plain.register("logs", everything)
        for _ in range(statements):
            columns = ", ".join(noise.sample([*COLUMNS.names, "count(*) OVER ()"], noise.randint(1, 4)))
            sql = f"SELECT {columns} FROM logs WHERE {conditions(rows, noise)} ORDER BY ALL"
            expected = plain.execute(sql).fetchall()
            with engine.run(workspace, sql, Selection(), over_gaps=True) as result:
                assert list(result.rows) == expected, sql


def refused(workspace: Workspace, sql: str) -> Nats3Error:
    with pytest.raises(Nats3Error) as error, engine.run(workspace, sql, Selection(), over_gaps=True) as result:
        list(result.rows)
    return error.value


def test_a_damaged_page_that_is_read_names_the_chunk(
    workspace: Workspace, wide: Archive, s3_client: Any, bucket: str
) -> None:
    (chunk,) = workspace.catalog.chunks.select(wide)
    key = chunk.meta.key
    data = bytearray(s3_client.get_object(Bucket=bucket, Key=key)["Body"].read())
    data[len(data) // 2] ^= 1
    s3_client.put_object(Bucket=bucket, Key=key, Body=bytes(data))
    error = refused(workspace, "SELECT max(data) FROM logs")
    assert (type(error), error.hint) == (ChunkError, Next.OBJECT_DAMAGED())
    assert error.what.startswith(f"{key}: The chunk cannot be read: ")
    assert fetched(workspace, "SELECT count(DISTINCT subject) FROM logs")[0] == [(3,)]
    data = data[: len(data) - 1000]
    s3_client.put_object(Bucket=bucket, Key=key, Body=bytes(data))
    workspace._footers = FooterCache()
    assert key in refused(workspace, "SELECT count(subject) FROM logs").what


def test_a_chunk_that_retention_removes_meanwhile_is_said(
    workspace: Workspace, wide: Archive, s3_client: Any, bucket: str
) -> None:
    (chunk,) = workspace.catalog.chunks.select(wide)
    table = ArchiveDataset(ArchiveSelection(workspace, wide, Selection()), Scanned(), over_gaps=True)
    scan = table.scanner(["data"])
    s3_client.delete_object(Bucket=bucket, Key=chunk.meta.key)
    with pytest.raises(ObjectMissing, match=chunk.meta.key):
        list(table.batches([], [chunk], ["data"], None))
    workspace.catalog.chunks.retire(wide, [chunk.id])
    with pytest.raises(Conflict) as error:
        scan.to_reader().read_all()
    assert error.value.what == f"{chunk.meta.key} was taken out of the archive and removed before it was read"
