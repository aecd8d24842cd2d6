"""Frames: a selection as one Arrow table, complete or an error, and as the frames that others make of it."""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nats3_dagster import Archive
from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.read.frame import COLUMNS
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.uncovered import uncovered
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import EngineError, LostMessages, Nats3Error, OperatorError
from nats3_dagster.hours import HOUR_NS, format_time, hour_of, hour_start
from nats3_dagster.model import Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.dagster.stories import archive as create
from nats3_dagster_tests.support.stored import LIFE, Made, hour_key, made, store
from nats3_dagster_tests.support.wire import Wire

COUNT = 200


@pytest.fixture
def logs(workspace: Workspace, settings: Settings, bucket: str) -> Iterator[Archive]:
    """An archive of COUNT messages in two hours, with two chunks in the second."""
    found = made(workspace, bucket, "logs", last=COUNT)
    for hour, first, last in ((10, 1, 100), (11, 101, 150), (11, 151, COUNT)):
        messages = [Made(n, f"logs.{n % 2}", b"%d" % n, b"NATS/1.0\r\n\r\n") for n in range(first, last + 1)]
        store(workspace, found, hour, messages)
    with Archive.open("logs", settings) as opened:
        yield opened


def test_a_frame_has_the_columns_of_the_archive(logs: Archive) -> None:
    table = logs.read().to_arrow()
    assert table.schema == COLUMNS
    assert table.column("seq").to_pylist() == list(range(1, COUNT + 1))
    (row,) = table.slice(100, 1).to_pylist()
    start = hour_start(hour_key(11))
    assert row == {
        "seq": 101,
        "time": datetime.fromtimestamp(start // 10**9, UTC).replace(microsecond=101_000),
        "time_ns": start + 101_000_000,
        "subject": "logs.1",
        "subject_bytes": None,
        "hour": hour_key(11),
        "headers": b"NATS/1.0\r\n\r\n",
        "data": b"101",
        "stream_created_ns": LIFE.created_ns,
    }
    frame = logs.read(subjects=["logs.1"], sequences=(1, 9)).to_polars(["data", "hour", "seq"])
    assert isinstance(frame, pl.DataFrame)
    assert frame.rows() == [(b"%d" % n, hour_key(10), n) for n in (1, 3, 5, 7, 9)]
    panda = logs.read(hours=[hour_key(11)]).to_pandas(["time", "subject"])
    assert isinstance(panda, pd.DataFrame)
    assert (list(panda.columns), len(panda), str(panda["time"].dtype)) == (
        ["time", "subject"],
        100,
        "datetime64[us, UTC]",
    )


def test_an_hour_without_messages_is_a_frame_of_the_same_columns(logs: Archive) -> None:
    def empty(**more: object) -> pa.Table:
        return logs.read(hours=[hour_key(12)], **more).to_arrow()  # type: ignore[arg-type]

    assert (empty().schema, empty().num_rows) == (COLUMNS, 0)
    full, none = logs.read().to_polars(), logs.read(hours=[hour_key(12)]).to_polars()
    assert (none.schema, none.height) == (full.schema, 0)
    assert list(logs.read(hours=[hour_key(12)]).to_pandas().dtypes) == list(logs.read().to_pandas().dtypes)
    assert logs.read(hours=[hour_key(10)], subjects=["other"]).to_arrow(["seq"]).schema.names == ["seq"]


def test_a_frame_is_bounded_and_an_error_reads_nothing(logs: Archive) -> None:
    read = logs.read(sequences=(1, 160))
    size = read.to_arrow(["seq"]).nbytes
    read = logs.read(sequences=(1, 160))
    assert read.to_arrow(["seq"], max_bytes=size).num_rows == 160
    read = logs.read(sequences=(1, 160))
    before = read.token()
    with pytest.raises(OperatorError) as refused:
        read.to_arrow(["seq"], max_bytes=size - 1)
    assert str(refused.value) == (
        "The selection of archive logs has more than 1,279 bytes in the columns seq. Select fewer hours, subjects or "
        "columns, raise max_bytes, or read batch by batch"
    )
    assert read.token() == before
    assert read.to_arrow(["seq"]).num_rows == 160
    # It counts as read now, and a frame goes on after what was read.
    assert read.to_arrow().num_rows == 0
    half = logs.read()
    next(half.batches())
    half.done()
    assert half.to_arrow().column("seq").to_pylist() == list(range(101, COUNT + 1))


def test_what_cannot_be_a_frame_is_refused(logs: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {
        "A frame has no column 'sequence'. Choose from seq, time, time_ns": lambda: logs.read().to_arrow(["sequence"]),
        "The frame has no columns": lambda: logs.read().to_arrow([]),
        "max_bytes is 0": lambda: logs.read().to_arrow(max_bytes=0),
        "A read that follows has no end": lambda: logs.read(follow=True).to_arrow(),
    }
    for says, ask in refused.items():
        with pytest.raises(OperatorError, match=says):
            ask()
    for package, ask in {"polars": logs.read().to_polars, "pandas": logs.read().to_pandas}.items():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(EngineError) as missing:
            ask()
        assert str(missing.value) == f"This frame needs {package}, which is not installed. pip install {package}"
    assert logs.read().to_arrow().num_rows == COUNT


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(30)
def test_an_end_that_has_come_is_reached_and_the_open_hour_ends_with_the_archive(
    settings: Settings, workspace: Workspace, bucket: str, wire: Wire
) -> None:
    """One rule for hours, times and sequences."""
    start = hour_start(hour_of(time.time_ns())) - 2 * HOUR_NS
    hours = [hour_of(start + n * HOUR_NS) for n in range(3)]
    restore_stream(
        settings.nats,
        "EV",
        ["ev.>"],
        [Past(n + 1, start + n * HOUR_NS // 10, "ev.a", b"", b"x") for n in range(20)],
    )
    create(settings, bucket)
    found = workspace.catalog.archives.get("events")

    def capture(hour: str) -> None:
        planned = plan_hours(workspace, found, [hour])
        commit.commit(workspace, planned, captures.read(workspace, planned))

    def seqs(**selection: object) -> object:
        with Archive.open("events", settings) as opened:
            try:
                return opened.read(**selection).to_arrow(["seq"]).num_rows  # type: ignore[arg-type]
            except Nats3Error as error:
                return type(error), error.what

    def lost(text: str) -> object:
        return LostMessages, f"Sequences of the selection are not in archive events: {text}"

    capture(hours[0])
    second, third = format_time(start + HOUR_NS), format_time(start + 2 * HOUR_NS)
    # The second hour has ended, and no capture took it.
    assert seqs(hours=hours[:1]) == seqs(to_time=second) == seqs(sequences=(1, 10)) == seqs() == 10
    assert seqs(hours=hours[1:2]) == seqs(hours=hours[:2]) == seqs(to_time=third) == lost("11-20")
    assert seqs(from_time=second, to_time=third) == seqs(sequences=(5, 20)) == lost("11-20")
    # The open hour ends with the archive; the one before it does not.
    assert seqs(hours=hours) == seqs(hours=hours[1:]) == lost("11-20")
    assert seqs(hours=hours[1:2], over_gaps=True) == seqs(from_time=second, to_time=third, over_gaps=True) == 0
    capture(hours[1])
    wire.publish([("ev.a", b"", b"x")] * 7)
    ahead = format_time(start + 3 * HOUR_NS)
    assert seqs(hours=hours) == seqs(from_time=format_time(start)) == seqs(to_time=ahead) == 20
    assert seqs(hours=hours[2:]) == seqs(from_time=third) == seqs(from_time=third, to_time=ahead) == 0
    assert seqs(sequences=(15, 27)) == lost("21-27")
    # A replay of the open hour would count as one of the whole hour.
    selected = ArchiveSelection(workspace, found, Selection(hours=(hours[2],)))
    assert [str(r) for r in uncovered(selected, Held())] == ["21-27"]
    capture(hours[2])
    assert seqs(hours=hours[2:]) == seqs(from_time=third, to_time=ahead) == 7


def test_what_was_lost_is_an_error_unless_a_read_goes_over_gaps(logs: Archive, workspace: Workspace) -> None:
    store(workspace, workspace.catalog.archives.get("logs"), 12, [Made(250, "logs.x")], (240, 250), reason="expired")
    hours = [hour_key(11), hour_key(12)]
    with pytest.raises(LostMessages, match="201-249"):
        logs.read(hours=hours).to_arrow()
    assert logs.read(hours=hours, over_gaps=True).to_arrow().num_rows == 101
