"""Tables of measurements on a terminal of 80 columns: no name and no number is cut or left out."""

from argparse import Namespace
from collections.abc import Callable

import pytest

from nats3_dagster_tests.bench import __main__ as rows
from nats3_dagster_tests.bench import api, compaction, exports, points, profile, query, spark_sources, subjects
from nats3_dagster_tests.bench.tables import new_table, print_table

LONG = {"name": "deliver_consumer_r3", "size": 1024, "msgs_per_s": 1_234_567, "mb_per_s": 1234.5}
RATIOS = {"of_limit": 0.123, "of_work": 0.123, "of_natspy": 12.345, "peak_mb": 1_234}
COMPACTED = {"all messages of an hour, as a replay reads them": (123_456_789.0, 123_456_789)}
PARTS = {"copies, malloc": 123.45, "Spark, driver": 123.45}
SECONDS = [12.345] * 3


def answers() -> api.Answers:
    given = api.Answers()
    given.seconds = dict.fromkeys(("GET /chunks from the middle", "GET /load/job/progress"), [0.1] * 12_345)
    return given


# Each module's table, what it is made of, and texts that must be in it whole.
PRINTED: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "rows": (
        lambda: rows.print_results([LONG | RATIOS, LONG | RATIOS | {"name": "take_alone"}]),
        ("deliver_consumer_r3", "take_alone", "1024 B", "1,234,567", "1234.5", "0.123", "12.345", "1,234"),
    ),
    "api": (
        lambda: api.print_results(answers(), Namespace(clients=50, seconds=30), 12.3),
        ("GET /chunks from the middle", "GET /load/job/progress", "12,345", "24,690", "100.0"),
    ),
    "compaction": (
        lambda: compaction.print_results(COMPACTED, COMPACTED, "a title"),
        ("messages", "replay", "123,456,789"),
    ),
    "exports": (
        lambda: exports.print_results({row: [1_234_567.0] for row in exports.ROWS}, 1_234),
        (*exports.ROWS, "1,234,567"),
    ),
    "points": (
        lambda: points.print_results({"a message at a time": SECONDS}, 1_000_000),
        ("a message at a time", "12.3"),
    ),
    "subjects": (
        lambda: subjects.print_results({"last, in the oldest chunk": SECONDS}, 1_000_000),
        ("last, in the oldest chunk", "12.3"),
    ),
    "profile": (
        lambda: profile.print_results("capture", {f"capture {size} B": PARTS for size in (256, 1024, 65_536)}),
        ("copies, malloc", "Spark, driver", "all", "123.45", "50%", "246.90", "65536"),
    ),
    "query": (
        lambda: query.print_results(
            {row: [query.Ran(0.012345, 123_456_789_012, 12_345)] for row in query.STATEMENTS},
            1_000_000,
            123_456_789_012,
        ),
        (*query.STATEMENTS, "123,456.79", "100.0%", "81,004,455", "12,345"),
    ),
    "spark_sources": (
        lambda: spark_sources.print_results({row: [1_234_567.0] for row in spark_sources.ROWS}, 256, 1_234),
        (*spark_sources.ROWS, "1,234,567"),
    ),
}


@pytest.mark.parametrize("name", PRINTED)
def test_every_table_of_a_benchmark_is_whole_in_80_columns(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show, texts = PRINTED[name]
    show()
    out = capsys.readouterr().out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80, out
    assert [text for text in texts if text not in out] == [], out


def test_what_does_not_fit_is_printed_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    table = new_table("a title", "row", "first", "second")
    table.add_row("of_one_word", "1,234,567", "7,654,321")
    table.add_row("of many words that go on", "1", "2")
    print_table(table)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "of_one_word 1,234,567 7,654,321" in lines
    assert "of many 1 2" in lines
    assert "go on" in lines
