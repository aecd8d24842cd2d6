"""The Spark data source `nats3`, asked as PySpark asks it but without a JVM: its plans, and what its readers give."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql.types import StructType

from nats3_dagster.errors import Nats3Error, ObjectMissing, OperatorError, Unknown
from nats3_dagster.hours import hour_of
from nats3_dagster.pipeline.sources.archive_source import OPTIONS, Nats3DataSource
from nats3_dagster.pipeline.sources.options import option_rows
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

HEADERS = b"NATS/1.0\r\nA: 1\r\nA: 2\r\na:  x \r\n\r\n"


@pytest.fixture
def events(workspace: Workspace, wire: Wire, bucket: str) -> Workspace:
    """An archive of 30 messages in three chunks of ten."""
    wire.create_stream("EV", "ev.>")
    for chunk in range(3):
        wire.publish((f"ev.{chunk}.{n % 2}", HEADERS if n % 5 == 0 else b"", b"%d-%d" % (chunk, n)) for n in range(10))
        archived(workspace, wire, "EV", bucket, "events")
    return workspace


def source(**options: str) -> Nats3DataSource:
    return Nats3DataSource(ds.CaseInsensitiveDict({"archive": "events", **options}))


def rows(**options: str) -> list[dict[str, Any]]:
    """What the executors give on for these options."""
    return [row for batch in batches(**options) for row in batch.to_pylist()]


def batches(**options: str) -> Iterator[pa.RecordBatch]:
    opened = source(**options)
    schema = opened.schema()
    reader: Any = opened.reader(schema)
    for partition in reader.partitions():
        yield from reader.read(partition)


def seqs(**options: str) -> list[int]:
    return [row["seq"] for row in rows(columns="seq", **options)]


def test_it_gives_each_message_with_all_that_the_archive_has_of_it(events: Workspace) -> None:
    read = rows()
    assert [row["seq"] for row in read] == list(range(1, 31))
    first = read[0]
    coverage = events.catalog.coverage.all(events.catalog.archives.get("events"))[0]
    assert first["headers"] == [("A", ["1", "2"]), ("a", ["x"])]
    assert read[1]["headers"] is None
    assert (first["subject"], first["subject_bytes"], first["data"]) == ("ev.0.0", None, b"0-0")
    assert first["hour"] == hour_of(first["time_ns"])
    assert int(first["time"].timestamp() * 1e6) == first["time_ns"] // 1000
    assert first["stream_created_ns"] == coverage.incarnation.created_ns
    assert rows(headers="binary")[0]["headers"] == HEADERS


def test_options_select(events: Workspace) -> None:
    cases: list[tuple[dict[str, str], Any]] = [
        ({"sequences": "5-12"}, range(5, 13)),
        ({"sequences": "7"}, [7]),
        ({"subjects": "ev.1.*"}, range(11, 21)),
        ({"subjects": "ev.0.1, ev.2.0"}, [2, 4, 6, 8, 10, 21, 23, 25, 27, 29]),
        ({"from": "-1h", "to": "2100-01-01"}, range(1, 31)),
        ({"to": "2020-01-01"}, []),
        ({"subjects": "nothing.>"}, []),
    ]
    for options, expected in cases:
        assert seqs(**options, failOnDataLoss="false") == list(expected), options


def test_hours_and_columns_in_the_order_that_was_asked_for(events: Workspace) -> None:
    hour = rows()[0]["hour"]
    assert len(seqs(hours=hour)) == 30
    batch = next(batches(columns="data,seq"))
    assert batch.schema.names == ["data", "seq"]
    assert rows(hours="2020-01-01-00:00", failOnDataLoss="false") == []


def test_small_chunks_share_a_partition_and_large_ones_do_not(events: Workspace) -> None:
    def sizes(**options: str) -> list[int]:
        opened = source(**options)
        return [len(group.chunks) for group in opened.reader(opened.schema()).partitions()]  # type: ignore[attr-defined]

    assert sizes() == [3]
    assert sizes(partitionBytes="1") == [1, 1, 1]


def test_what_is_not_captured_is_an_error_that_names_it(events: Workspace, wire: Wire) -> None:
    wire.publish([("ev.3.0", b"", b"new")] * 4)
    with pytest.raises(OperatorError, match="not in archive events: 31-34. Capture those hours .*failOnDataLoss"):
        seqs(sequences="25-34")
    assert seqs(sequences="25-34", failOnDataLoss="false") == list(range(25, 31))
    # A read without an end ends with the archive.
    assert seqs() == list(range(1, 31))


def test_a_loss_is_an_error_only_where_it_is_read(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.0", b"", b"x")] * 10)
    archived(workspace, wire, "EV", bucket, "events")
    wire.publish([("ev.0", b"", b"x")] * 10)
    wire.api("STREAM.PURGE.EV", seq=16)
    archived(workspace, wire, "EV", bucket, "events")
    with pytest.raises(OperatorError, match="not in archive events: 11-15"):
        seqs()
    assert seqs(failOnDataLoss="false") == [*range(1, 11), *range(16, 21)]
    assert seqs(sequences="1-8") == list(range(1, 9))
    assert seqs(sequences="17-20") == list(range(17, 21))
    with pytest.raises(OperatorError, match="13-15"):
        seqs(sequences="13-20")


def test_an_object_that_goes_after_the_plan_is_an_error_with_the_next_step(
    events: Workspace, s3_client: Any, bucket: str
) -> None:
    opened = source()
    reader: Any = opened.reader(opened.schema())
    (group,) = reader.partitions()
    s3_client.delete_object(Bucket=bucket, Key=group.chunks[1].meta.key)
    with pytest.raises(ObjectMissing, match="after this read was planned, load the archive again"):
        list(reader.read(group))
    # What is not read is not missed.
    assert seqs(sequences="21-30") == list(range(21, 31))


def test_bytes_that_are_not_those_of_the_catalog_are_an_error(events: Workspace, s3_client: Any, bucket: str) -> None:
    opened = source()
    reader: Any = opened.reader(opened.schema())
    (group,) = reader.partitions()
    key = group.chunks[0].meta.key
    body = s3_client.get_object(Bucket=bucket, Key=key)["Body"].read()
    s3_client.put_object(Bucket=bucket, Key=key, Body=body[:-9] + b"x" + body[-8:])
    with pytest.raises(Nats3Error, match="has SHA-256"):
        list(reader.read(group))


def test_subjects_that_are_not_utf_8(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(b"ev.\xff", b"", b"1"), (b"ev.a", b"", b"2")])
    archived(workspace, wire, "EV", bucket, "events")
    assert [(r["subject"], r["subject_bytes"]) for r in rows()] == [("ev.%FF", b"ev.\xff"), ("ev.a", None)]
    assert seqs(subjects="ev.%FF") == [1]


def test_what_is_wrong_is_an_error_before_anything_is_read(events: Workspace) -> None:
    cases = [
        ({"archive": "event"}, "There is no archive event. Did you mean events?"),
        ({"archve": "x"}, "archve is not an option of nats3. Did you mean archive?"),
        ({"sequences": "9-5"}, "The option sequences of nats3 is malformed: 9-5 is not a sequence range"),
        ({"sequences": "a-b"}, "The option sequences of nats3 is malformed: 'a-b'"),
        ({"hours": "yesterday"}, "The option hours of nats3 is malformed: 'yesterday' is not an hour"),
        ({"from": "soon"}, "The option from of nats3 is malformed: 'soon' is not a time"),
        ({"subjects": "a..b"}, "The option subjects of nats3 is malformed: 'a..b' is not a subject filter"),
        ({"headers": "json"}, "Write one of map, binary"),
        ({"failOnDataLoss": "perhaps"}, "Write true or false"),
        ({"partitionBytes": "0"}, "Write a size from 1 byte on"),
        ({"columns": "seq,subjet"}, "columns of nats3 names 'subjet', which it does not have. Did you mean subject?"),
        ({"columns": "seq,seq"}, "The option columns of nats3 names seq twice"),
    ]
    for options, error in cases:
        with pytest.raises(OperatorError) as raised:
            source(**options).schema()
        assert error in str(raised.value)


def test_without_a_name_and_with_a_schema_that_does_not_fit(events: Workspace) -> None:
    with pytest.raises(OperatorError, match="The option archive of nats3 is not given"):
        Nats3DataSource(ds.CaseInsensitiveDict()).schema()
    with pytest.raises(Unknown):
        source(archive="other").schema()
    with pytest.raises(OperatorError, match="nats3 has no column 'sequence'"):
        source().reader(StructType().add("sequence", "long"))
    with pytest.raises(OperatorError, match="The column seq of nats3 is bigint, and the schema says int"):
        source().reader(StructType().add("seq", "integer"))
    assert source().reader(StructType().add("seq", "long", nullable=False))
    with pytest.raises(OperatorError, match="cannot be written"):
        source().writer(StructType(), overwrite=False)


def test_its_docstring_has_the_table_of_its_options() -> None:
    lines = [line.strip() for line in (Nats3DataSource.__doc__ or "").splitlines()]
    rows_ = option_rows(OPTIONS)
    start = lines.index(rows_[0])
    assert lines[start : start + len(rows_)] == rows_
    page = (Path(__file__).parents[2] / "docs" / "spark-archive.md").read_text()
    assert "\n".join(rows_) in page
