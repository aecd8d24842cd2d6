"""`format("jetstream")` as Spark's workers call it, on a real server and without a JVM."""

import logging
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import Nats3Error, OperatorError, SourceError, StreamChanged, UnknownStream
from nats3_dagster.hours import parse_time
from nats3_dagster.pipeline.pyspark_features import READ_LIMITS, arrow_schema
from nats3_dagster.pipeline.sources import jetstream
from nats3_dagster.pipeline.sources.columns import Columns
from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource
from nats3_dagster_tests.support.wire import Wire

Load = Callable[..., JetStreamDataSource]
HEADERS = b"NATS/1.0\r\nA: %d\r\na: x\r\nA: y\r\n\r\n"


@pytest.fixture
def load(nats: NatsServer) -> Load:
    """A source of the stream EV, as it is after Spark has carried it to a worker."""

    def make(**options: str) -> JetStreamDataSource:
        source = JetStreamDataSource(CaseInsensitiveDict({"url": nats.url, "stream": "EV", **options}))
        return pickle.loads(pickle.dumps(source))

    return make


@pytest.fixture
def events(wire: Wire) -> Wire:
    """A hundred messages, every other one with headers."""
    wire.create_stream("EV", "ev.>", "other.>")
    wire.publish([(f"ev.{n % 3}", HEADERS % n if n % 2 else b"", b"%d" % n * n) for n in range(1, 101)])
    return wire


def rows(source: JetStreamDataSource, *, schema: StructType | None = None) -> list[dict[str, Any]]:
    """What all partitions of a batch give."""
    schema = schema or source.schema()
    reader = source.reader(schema)
    return given(reader, reader.partitions(), schema)


def given(reader: Any, partitions: Any, schema: StructType) -> list[dict[str, Any]]:
    """What partitions give, in a worker."""
    batches = [
        batch
        for each in partitions
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(each)))
    ]
    for batch in batches:
        assert batch.schema.equals(arrow_schema(schema))
    return pa.Table.from_batches(batches, arrow_schema(schema)).to_pylist()


def seqs(source: JetStreamDataSource) -> list[int]:
    return [row["seq"] for row in rows(source)]


def refused(work: Callable[[], Any], error: type[Nats3Error] = OperatorError) -> str:
    with pytest.raises(error) as caught:
        work()
    return str(caught.value)


# Batches


def test_every_column_of_every_message(load: Load, events: Wire) -> None:
    stored = list(events.messages("EV"))
    read = rows(load())
    assert [(r["seq"], r["subject"], r["data"]) for r in read] == [(m.seq, m.subject, m.data) for m in stored]
    for row, message in zip(read, stored, strict=True):
        assert row["time_ns"] == parse_time(message.time)
        assert (row["time"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) == row["time_ns"] // 1000
        expected = {"A": [str(message.seq), "y"], "a": ["x"]} if message.headers else None
        assert (dict(row["headers"]) if row["headers"] is not None else None) == expected
    assert [r["headers"] for r in rows(load(headers="binary"))] == [m.headers or None for m in stored]
    assert set(rows(load(headers="none"))[0]) == {"seq", "time", "time_ns", "subject", "data"}


def test_payloads_that_nobody_asks_for_are_not_sent(load: Load, events: Wire) -> None:
    stored = list(events.messages("EV"))
    before = events.api("CONSUMER.NAMES.EV")["total"]
    whole, light = load(columns="seq,size,headers,data"), load(columns="seq,size,headers")
    assert Columns(light.schema()).headers_only
    assert not Columns(whole.schema()).headers_only
    assert [{k: v for k, v in row.items() if k != "data"} for row in rows(whole)] == rows(light)
    assert [row["size"] for row in rows(light)] == [len(m.data) for m in stored]
    user = StructType([StructField("subject", StringType()), StructField("headers", BinaryType())])
    assert [r["headers"] for r in rows(load(), schema=user)] == [m.headers or None for m in stored]
    assert events.api("CONSUMER.NAMES.EV")["total"] == before


def test_a_message_with_a_size_header_of_its_own_keeps_it(load: Load, events: Wire) -> None:
    block = b"NATS/1.0\r\nNats-Msg-Size: 7\r\n\r\n"
    events.publish([("ev.own", block, b"abc"), ("ev.own", b"", b"")])
    (own, empty) = rows(load(columns="size,headers", subjects="ev.own"))
    assert (own["size"], dict(own["headers"])) == (3, {"Nats-Msg-Size": ["7"]})
    assert (empty["size"], empty["headers"]) == (0, None)


def test_partitions_are_contiguous_ranges(load: Load, events: Wire) -> None:
    def ranges(**options: str) -> list[str]:
        source = load(**options)
        return [str(p.seqs) for p in source.reader(source.schema()).partitions()]  # pyright: ignore

    assert ranges() == ["1-100"]
    assert ranges(numPartitions="3") == ["1-34", "35-68", "69-100"]
    assert ranges(messagesPerPartition="40", startSeq="11") == ["11-50", "51-90", "91-100"]
    assert len(ranges(numPartitions="1000")) == 100
    assert seqs(load(numPartitions="7")) == list(range(1, 101))


def test_a_range_and_filters(load: Load, events: Wire) -> None:
    events.publish([("other.a", b"", b"x")])
    assert seqs(load(startSeq="20", endSeq="22")) == [20, 21, 22]
    assert seqs(load(subjects="ev.1, other.>")) == [*range(1, 101, 3), 101]
    times = [m.time for m in events.messages("EV")]
    assert seqs(load(startTime=times[9], endTime=times[19])) == list(range(10, 20))
    assert seqs(load(startTime="-1d", endTime="-1h")) == []
    assert seqs(load(subjects="none.such")) == []


def test_a_loaded_frame_stays_as_it_is(load: Load, events: Wire) -> None:
    source = load()
    schema = source.schema()
    events.publish([("ev.later", b"", b"x")])
    assert len(rows(source)) == len(rows(source, schema=schema)) == 100
    assert len(rows(load())) == 101


def test_an_empty_stream(load: Load, wire: Wire) -> None:
    wire.create_stream("EV", "ev.>")
    assert rows(load()) == []
    wire.publish([("ev.a", b"", b"x")] * 3)
    wire.api("STREAM.PURGE.EV")
    assert rows(load()) == []


def test_subjects_that_are_not_utf_8(load: Load, wire: Wire) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(b"ev.\xff", b"", b"x"), (b"ev.a", b"NATS/1.0\r\nA: \xff\r\n\r\n", b"y")])
    (bad, good) = rows(load())
    assert (bad["subject"], good["subject"], dict(good["headers"])) == ("ev.%FF", "ev.a", {"A": ["\ufffd"]})


# What a stream no longer has


def test_what_the_stream_no_longer_has_of_the_range_is_an_error(
    load: Load, events: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    events.api("STREAM.PURGE.EV", seq=31)
    assert seqs(load()) == list(range(31, 101))
    what = refused(lambda: rows(load(startSeq="10")), SourceError)
    assert what == ("Stream EV no longer has sequences 10-30. Set failOnDataLoss to false to read what there is")
    with caplog.at_level(logging.WARNING):
        assert seqs(load(startSeq="10", failOnDataLoss="false")) == list(range(31, 101))
    assert "Stream EV no longer has sequences 10-30; reading what there is" in caplog.text


def test_what_the_stream_loses_between_plan_and_read_is_an_error(
    load: Load, events: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    source, lenient = load(numPartitions="2"), load(numPartitions="2", failOnDataLoss="false", subjects="ev.>")
    schema = source.schema()
    reader, more = source.reader(schema), lenient.reader(schema)
    partitions, others = reader.partitions(), more.partitions()
    events.api("STREAM.PURGE.EV", seq=61)
    for partition, lost in zip(partitions, ("1-50", "51-60"), strict=True):
        what = refused(lambda each=partition: given(reader, [each], schema), SourceError)
        assert what.startswith(f"Stream EV no longer has sequences {lost}. ")
    with caplog.at_level(logging.WARNING):
        assert [row["seq"] for row in given(more, others, schema)] == list(range(61, 101))
    assert "no longer has sequences 51-60" in caplog.text


def test_single_deleted_messages_are_no_loss(load: Load, events: Wire) -> None:
    for seq in (40, 41, 100):
        events.api("STREAM.MSG.DELETE.EV", seq=seq)
    assert seqs(load(numPartitions="3")) == [n for n in range(1, 100) if n not in (40, 41)]


def test_a_stream_that_was_made_again_meanwhile(load: Load, events: Wire) -> None:
    source = load()
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    events.api("STREAM.DELETE.EV")
    events.create_stream("EV", "ev.>")
    events.publish([("ev.a", b"", b"x")] * 100)
    refused(lambda: given(reader, partitions, source.schema()), StreamChanged)


# Bad input


def test_bad_input_is_refused_before_there_is_a_partition(
    load: Load, events: Wire, nats_factory: Callable[..., NatsServer]
) -> None:
    assert "There is no stream EVE" in refused(lambda: load(stream="EVE").schema(), UnknownStream)
    assert "is not a stream name" in refused(lambda: load(stream="a.b").schema())
    assert refused(lambda: load().reader(StructType([StructField("dat", BinaryType())]))).startswith(
        "jetstream has no column 'dat', which the schema names. Did you mean data"
    )
    wrong = StructType([StructField("data", LongType())])
    assert "column data of jetstream is binary, and the schema says bigint" in refused(lambda: load().reader(wrong))
    for option in ("startSeq", "endSeq"):
        what = refused(lambda name=option: rows(load(**{name: "101"})))
        assert what.startswith(f"Stream EV ends at sequence 100, before {option} 101")
    events.create_stream("Q", "q.>", retention="workqueue")
    assert "Stream Q has workqueue retention" in refused(lambda: load(stream="Q").schema())
    closed = nats_factory("authorization {user: u, password: p}")
    login = {"url": closed.url, "user": "u", "password": "planted-7Zq"}
    what = refused(lambda: load(**login).schema(), SourceError)
    assert "refused the login" in what
    assert "planted" not in what
    assert "Nothing listens" in refused(lambda: load(url="nats://127.0.0.1:1").schema(), SourceError)


# Streaming


def streaming(source: JetStreamDataSource) -> Any:
    return source.streamReader(source.schema())


@pytest.fixture(params=["with read limits", "without"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader for a PySpark with read limits, and that for one without."""
    if request.param == "without":
        monkeypatch.setattr(jetstream, "READ_LIMITS", replace(READ_LIMITS, is_there=False))
    elif not READ_LIMITS.is_there:
        pytest.skip("needs PySpark 4.2: read limits")


def latest(reader: Any, start: Any, most: int | None = None) -> Any:
    """The end of the batch that begins at `start`, asked for as PySpark does."""
    if not jetstream.READ_LIMITS.is_there:
        return reader.latestOffset()
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    return reader.latestOffset(start, ReadMaxRows(most) if most else ReadAllAvailable())


def plan(reader: Any, start: Any) -> Any:
    """The partitions of the batch that begins at `start`."""
    return reader.partitions(start, latest(reader, start))


def test_offsets_are_sequences(load: Load, events: Wire) -> None:
    def start(starting: str) -> int:
        return streaming(load(startingOffsets=starting)).initialOffset()["seq"]

    times = [m.time for m in events.messages("EV")]
    assert [start(s) for s in ("earliest", "latest", "10", "101", times[49])] == [0, 100, 9, 100, 49]
    assert "ends at sequence 100, before startingOffsets 102" in refused(lambda: start("102"))
    events.api("STREAM.PURGE.EV", seq=31)
    assert start("earliest") == 30


@pytest.mark.needs_spark("4.2")
def test_batches_of_a_query_are_limited_and_can_be_read_again(load: Load, events: Wire) -> None:
    source = load(maxMessagesPerTrigger="40", numPartitions="2", columns="seq")
    reader = streaming(source)
    assert reader.getDefaultReadLimit().max_rows == 40
    assert not hasattr(streaming(load()).getDefaultReadLimit(), "max_rows")
    offset, read = reader.initialOffset(), []
    while (end := latest(reader, offset, 40)) != offset:
        batch = [row["seq"] for row in given(reader, reader.partitions(offset, end), source.schema())]
        # After a restart, of a reader that planned nothing.
        again = streaming(load(columns="seq"))
        assert [row["seq"] for row in given(again, again.partitions(offset, end), source.schema())] == batch
        again.stop()
        read.append(batch)
        offset = end
    assert [len(batch) for batch in read] == [40, 40, 20]
    assert [seq for batch in read for seq in batch] == list(range(1, 101))
    assert reader.partitions(offset, offset) == []
    assert reader.reportLatestOffset()["seq"] == 100
    reader.stop()


@pytest.mark.needs_spark("4.2")
def test_what_comes_later_is_not_available_now(load: Load, events: Wire) -> None:
    reader = streaming(load())
    reader.prepareForTriggerAvailableNow()
    events.publish([("ev.later", b"", b"x")])
    assert latest(reader, reader.initialOffset())["seq"] == 100
    assert latest(streaming(load()), reader.initialOffset())["seq"] == 101


@pytest.mark.usefixtures("either")
def test_a_query_that_is_behind_what_the_stream_has(load: Load, events: Wire) -> None:
    reader = streaming(load(columns="seq"))
    start = reader.initialOffset()
    events.api("STREAM.PURGE.EV", seq=31)
    end = latest(reader, start, 10)
    assert end["seq"] == (40 if jetstream.READ_LIMITS.is_there else 100)
    assert "no longer has sequences 1-30" in refused(lambda: reader.partitions(start, end), SourceError)
    lenient = streaming(load(columns="seq", failOnDataLoss="false"))
    assert [r["seq"] for r in given(lenient, lenient.partitions(start, end), load(columns="seq").schema())] == list(
        range(31, end["seq"] + 1)
    )


@pytest.mark.usefixtures("either")
def test_a_checkpoint_of_another_stream_is_refused(load: Load, events: Wire) -> None:
    events.create_stream("B", "b.>")
    reader = streaming(load())
    start = reader.initialOffset()
    other = streaming(load(stream="B"))
    what = refused(lambda: plan(other, start), SourceError)
    assert what.startswith("The checkpoint is of stream EV, and the option stream is B. Start the query with a new")
    events.api("STREAM.DELETE.EV")
    assert "was deleted since this was loaded" in refused(lambda: latest(reader, start), StreamChanged)
    events.create_stream("EV", "ev.>")
    assert "made again" in refused(lambda: plan(reader, start), StreamChanged)
    what = refused(lambda: plan(streaming(load()), start), StreamChanged)
    assert what.startswith("Stream EV was made again: the checkpoint is of the one of 20")
    reader.stop()


@pytest.mark.usefixtures("either")
def test_a_query_goes_on_after_the_server_was_away(load: Load, own_nats: NatsServer) -> None:
    with Wire(own_nats.url) as wire:
        wire.create_stream("EV", "ev.>")
    reader = streaming(load(url=own_nats.url))
    start = reader.initialOffset()
    own_nats.kill()
    own_nats.start()
    with Wire(own_nats.url) as wire:
        wire.publish([("ev.a", b"", b"x")])
    assert latest(reader, start)["seq"] == 1
    reader.stop()


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("more", [100, 0])
def test_a_checkpoint_of_what_the_server_forgot_is_refused(
    load: Load, own_nats: NatsServer, tmp_path: Path, more: int
) -> None:
    def publish(first: int, last: int) -> None:
        with Wire(own_nats.url) as wire:
            wire.publish([("ev.a", b"", b"%d" % n) for n in range(first, last + 1)])

    with Wire(own_nats.url) as wire:
        wire.create_stream("EV", "ev.>")
    publish(1, 80)
    own_nats.stop()
    shutil.copytree(own_nats.folder / "data", tmp_path / "earlier")
    own_nats.start()
    publish(81, 100)
    source = load(url=own_nats.url, columns="seq,data")
    reader = streaming(source)
    start = reader.initialOffset()
    end = latest(reader, start)
    assert end["seq"] == 100
    reader.stop()
    # The files of before, with the stream's own time of creation.
    own_nats.kill()
    shutil.rmtree(own_nats.folder / "data")
    shutil.copytree(tmp_path / "earlier", own_nats.folder / "data")
    own_nats.start()
    publish(1081, 1080 + more)
    again = streaming(load(url=own_nats.url, columns="seq,data"))
    reason = (
        "has a message of .* at sequence 100, and the query has read one of .*: the server forgot messages"
        if more
        else "ends at sequence 80, before 100, and the query has read one of .* newest messages"
    )
    with pytest.raises(StreamChanged, match=f"{reason}.*new checkpoint and startingOffsets"):
        plan(again, end)
    with pytest.raises(StreamChanged, match=reason):  # a batch that was planned before the restart
        again.partitions(start, end)
    again.stop()


@pytest.mark.usefixtures("either")
def test_an_offset_has_a_message_that_the_stream_still_has(load: Load, events: Wire) -> None:
    for seq in range(91, 101):
        events.api("STREAM.MSG.DELETE.EV", seq=seq)
    reader = streaming(load())
    start = reader.initialOffset()
    offset = latest(reader, start)
    assert (start["witness"], offset["seq"]) == (None, 100)
    assert 80 < offset["witness"]["seq"] <= 90
    assert latest(reader, offset) == offset
    events.publish([("ev.a", b"", b"x")])
    following = latest(reader, offset)
    assert following["witness"]["seq"] == 101
    # What the stream removes since says nothing.
    events.api("STREAM.PURGE.EV")
    assert latest(reader, following) == following
    events.publish([("ev.a", b"", b"x")])
    assert latest(reader, following)["seq"] == 102
    reader.stop()


# PySpark before 4.2


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PySpark 4.0 has."""
    monkeypatch.setattr(jetstream, "READ_LIMITS", replace(READ_LIMITS, is_there=False))


@pytest.mark.usefixtures("older")
def test_what_pyspark_does_not_have_is_said_where_it_is_asked_for(load: Load, events: Wire) -> None:
    what = refused(lambda: streaming(load(maxMessagesPerTrigger="40")))
    assert re.fullmatch(
        r"The option maxMessagesPerTrigger of jetstream needs PySpark 4\.2, and this is [\d.]+\. Leave it out, or use "
        r"a newer PySpark",
        what,
    )


@pytest.mark.usefixtures("older")
def test_the_first_batch_begins_before_its_end_also_where_its_end_is_asked_for_first(load: Load, events: Wire) -> None:
    """PySpark before 4.2 asks for the end of the first batch, and then where it begins."""
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    last = 100
    for starting, first in (("earliest", 0), ("latest", None), (later, None), ("40", 39)):
        reader = streaming(load(startingOffsets=starting))
        end = reader.latestOffset()
        events.publish([("ev.later", b"", b"x")])
        start = reader.initialOffset()
        assert (start["seq"], end["seq"]) == (last if first is None else first, last)
        reader.partitions(start, end)
        last += 1
        assert latest(reader, end)["seq"] == last
        reader.stop()


@pytest.mark.usefixtures("either")
def test_a_stream_without_messages_gives_an_empty_batch_until_there_are_some(load: Load, wire: Wire) -> None:
    wire.create_stream("EV", "ev.>")
    reader = streaming(load(columns="seq"))
    if jetstream.READ_LIMITS.is_there:
        start = reader.initialOffset()
        end = latest(reader, start)
    else:
        end = latest(reader, None)
        start = reader.initialOffset()
    assert reader.partitions(start, end) == []
    wire.publish([("ev.a", b"", b"x")] * 2)
    following = latest(reader, end)
    given_rows = given(reader, reader.partitions(end, following), load(columns="seq").schema())
    assert [row["seq"] for row in given_rows] == [1, 2]
    reader.stop()


@pytest.mark.usefixtures("older")
def test_a_batch_that_goes_back_is_refused_also_after_the_stream_has_grown_again(load: Load, events: Wire) -> None:
    reader = streaming(load())
    whole = reader.latestOffset()
    part = whole | {"seq": 80, "witness": None}
    assert "goes back from sequence 100 to 80" in refused(lambda: reader.partitions(whole, part), SourceError)
    reader.stop()
