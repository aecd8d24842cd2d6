"""Tables on terminals of several widths: whole columns are left out, and no id, name or time is ever cut or folded."""

import re
from collections.abc import Sequence

import pytest

from nats3_dagster.cli.load import load_views
from nats3_dagster.cli.store.store_views import run_rows
from nats3_dagster.documents.replays import Replay, ReplayProgress
from nats3_dagster_tests.support.terminal import on_terminal

# Every list that a command shows, with long names and numbers of 16 digits.
LISTS = """
from nats3_dagster.cli.chunk import chunk_views
from nats3_dagster.cli.installation import dev_commands, doctor_command
from nats3_dagster.cli.load import load_views
from nats3_dagster.cli.store import store_views
from nats3_dagster.cli.terminal.output import Format, Prose, show, show_one

TIME, BIG = "2026-11-21T07:56:44.123456789Z", 1_234_567_890_123_456
archive = dict(
    archive="orders_of_all_regions", stream="ORDERS", subjects=["orders.eu.>", "orders.us.>"],
    bucket="archive-of-orders",
    prefix="team/orders", messages=BIG, payload_bytes=BIG, stored_bytes=BIG, chunks=12_345, last_time=TIME, lag=4_321,
    paused=False, source="recreated",
)
load = dict(
    replay="0123456789abcdef", archive="orders_of_all_regions", state="interrupted", read_subject="orders.>",
    write_subject="replay.orders.>", targets=["REPLAYED_ORDERS"], chunks=12_345, chunks_done=12_344, published=BIG,
    attempt=2, created=TIME, chunks_waiting=None,
)
chunk = dict(
    id=BIG, hour="2026-11-21-07:00", first_seq=BIG, last_seq=BIG + 1, messages=BIG, payload_bytes=BIG, stored_bytes=BIG,
    ratio=2.5, first_time=TIME, last_time=TIME,
)
run = dict(
    hour="2026-11-21-07:00", messages=BIG, payload_bytes=BIG, stored_bytes=BIG, ratio=2.5, messages_per_s=123_456,
    seconds=12.3, already_captured=BIG, lost=BIG, chunks=[1, 2],
    gaps=[{"sequences": BIG, "reason": reason} for reason in ("deleted", "expired", "unselected", "missing")],
)
finding = ("warn", "nats", Prose("after a power cut a stream may forget its newest messages, " * 5))
resynced = dict(
    archive="orders_of_all_regions", chunks=12_345, sealed=12_344, replay=1, exports=2, wiped=["orders/chunks"] * 3,
)
for items, columns in (
    ([archive], store_views.LIST), ([load], load_views.LIST), ([chunk], chunk_views.LIST), ([run], store_views.RUN),
    ([finding], doctor_command._COLUMNS), ([resynced], dev_commands._RESYNCED),
):
    show(Format.table, items, columns)
    print("===")
"""


def shown_on(width: int) -> list[str]:
    return on_terminal(width, LISTS).split("===\n")[:-1]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (
            60,
            [
                "NAME STATE LAG STREAM",
                "ID STATE ARCHIVE",
                "ID HOUR",
                "HOUR MESSAGES",
                "AREA FOUND, AND WHAT TO DO",
                "ARCHIVE CHUNKS SEALED REPLAY EXPORTS",
            ],
        ),
        (
            80,
            [
                "NAME STATE LAG STREAM",
                "ID STATE ARCHIVE PUBLISHED",
                "ID HOUR SEQUENCES",
                "HOUR MESSAGES GAPS",
                "AREA FOUND, AND WHAT TO DO",
                "ARCHIVE CHUNKS SEALED REPLAY EXPORTS",
            ],
        ),
        (
            160,
            [
                "NAME STATE LAG STREAM MESSAGES LAST MESSAGE STORED SIZE CHUNKS SUBJECTS",
                "ID STATE ARCHIVE PUBLISHED CREATED CHUNKS INTO SUBJECTS",
                "ID HOUR SEQUENCES MESSAGES STORED SIZE FIRST LAST RATIO",
                "HOUR MESSAGES GAPS LOST CHUNKS STORED SIZE RATIO SECONDS MSG/S",
                "AREA FOUND, AND WHAT TO DO",
                "ARCHIVE CHUNKS SEALED REPLAY EXPORTS WIPED",
            ],
        ),
    ],
)
def test_columns_are_left_out_by_importance_and_nothing_is_folded(
    whole: list[list[str]], width: int, titles: Sequence[str]
) -> None:
    seen: list[str] = []
    for table, (_, expected) in zip(shown_on(width), whole, strict=True):
        head, row, *more = table.splitlines()
        assert max(map(len, (head, row, *more))) <= width
        seen.append(" ".join(head.split()))
        for cell, entire in zip(cells(row), cells(expected), strict=False):
            is_prose = len(entire) > 60
            assert entire.startswith(cell) if is_prose else cell == entire
    assert seen == list(titles)


@pytest.fixture(scope="module")
def whole() -> list[list[str]]:
    """The lines of each table on a terminal that is wide enough for all."""
    tables = [table.splitlines() for table in shown_on(500)]
    assert [len(lines) for lines in tables] == [2] * len(tables)
    return tables


def cells(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


def test_a_line_says_which_columns_are_left_out() -> None:
    text = " ".join(shown_on(60)[1].splitlines()[2:])
    left_out = "PUBLISHED, CREATED, CHUNKS, INTO, SUBJECTS, ATTEMPT, WAITING"
    assert text == f"Not shown in 60 columns: {left_out}. All is in -o json"


def test_one_thing_wraps_its_values_and_never_its_titles() -> None:
    key, words = "archive=logs/" + "k" * 100, "many words that go on and on " * 5
    program = f"""
from nats3_dagster.cli.terminal.output import Format, show_one
show_one(Format.table, {{}}, {{"a title of words": "short", "object": {key!r}, "problem": {words!r}}})
"""
    lines = on_terminal(60, program).splitlines()
    assert lines[0] == "a title of words  short"
    # The terminal folds what has no white space, so that it is copied whole.
    assert lines[1] == f"{'object':16}  {key}"
    assert lines[2].startswith("problem           many words")
    assert all(line.startswith(" " * 18) and len(line) <= 60 for line in lines[3:])
    assert " ".join(line[18:] for line in lines[2:]) == words.strip()


def test_a_date_stays_with_its_time() -> None:
    words = "complete from 1 to 2; 2026-11-22 02:04:24 to 2026-11-22 02:04:25"
    program = f"""
from nats3_dagster.cli.terminal.output import Format, show_one
show_one(Format.table, {{}}, {{"covered": {words!r}}})
"""
    assert on_terminal(43, program).splitlines() == [
        "covered  complete from 1 to 2;",
        "         2026-11-22 02:04:24 to",
        "         2026-11-22 02:04:25",
    ]


CLOSING = """
from nats3_dagster.cli.terminal.progress import bar, remark
remark("Still running: NATS at nats://127.0.0.1:29876, Postgres at 127.0.0.1:12345, S3 at http://127.0.0.1:23456. To "
       "stop them: nats3 dev stop")
with bar("replay 0123456789abcdef of a long name, that takes its place") as count:
    count(500_000, 1_000_000)
"""


def test_closing_words_break_between_words_and_a_bar_leaves_room_for_an_interrupt() -> None:
    """The terminal writes ^C after the bar: on a full line the bar would stand twice."""
    lines = on_terminal(80, CLOSING).splitlines()
    said = [line for line in lines if "replay" not in line and "\x1b" not in line]
    assert said[0] == "Still running: NATS at nats://127.0.0.1:29876, Postgres at 127.0.0.1:12345, S3"
    assert said[1] == "at http://127.0.0.1:23456. To stop them: nats3 dev stop"
    shown = [part for line in lines if "replay" in line for part in re.split(r"\r|\x1b\[[\d?]*[A-Za-z]", line) if part]
    assert shown
    assert max(map(len, shown)) <= 78


def test_the_table_of_many_hours_is_short() -> None:
    hours = [
        {
            "hour": f"2026-11-{20 + n // 24}-{n % 24:02d}:00",
            "messages": 10,
            "payload_bytes": 30,
            "stored_bytes": 20,
            "ratio": 1.5,
            "messages_per_s": 20.0,
            "seconds": 0.5,
            "already_captured": 1,
            "lost": 0,
            "chunks": [n],
            "gaps": [{"sequences": 3, "reason": "expired"}] if n == 7 else [],
        }
        for n in range(48)
    ]
    assert run_rows(hours[8:20]) == hours[8:20]
    whole, lossy = run_rows(hours)
    assert lossy == hours[7]
    assert whole["hour"] == "47 hours, 2026-11-20-00:00 to 2026-11-21-23:00"
    sums = ("messages", "stored_bytes", "seconds", "messages_per_s", "ratio", "already_captured")
    assert [whole[name] for name in sums] == [470, 940, 23.5, 20.0, 1.5, 47]
    assert whole["chunks"] == [n for n in range(48) if n != 7]


@pytest.mark.parametrize("state", ["running", "canceled", "succeeded"])
def test_a_replay_that_has_not_succeeded_has_published_at_least_so_many(state: str) -> None:
    """Its tasks may publish for seconds after a Ctrl-C, and what they published last is in no count."""
    numbers = dict.fromkeys(Replay.model_fields) | {"published": 870, "chunks": 1, "chunks_done": 0, "selected": 0}
    view = numbers | {"state": state, "replay": "0" * 16}
    progress = dict.fromkeys(ReplayProgress.model_fields) | view | {"messages_done": 870, "messages": 60_000}
    least, most = ("", "") if state == "succeeded" else ("at least ", "at most ")
    assert load_views.lines(view)["published"] == f"{least}870"
    assert load_views.progress_lines(progress)["published"] == f"{least}870"
    assert load_views.progress_lines(progress)["messages"] == f"{least}870 of {most}60,000"
    assert load_views.lines(view)["selected"] == (0 if state == "succeeded" else None)
