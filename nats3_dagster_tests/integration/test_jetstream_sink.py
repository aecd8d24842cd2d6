"""Writing to a stream, as Spark's driver and tasks do it but without a JVM."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import OperatorError, TargetError, UnknownStream
from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource
from nats3_dagster.pipeline.sources.jetstream_writer import WRITE, JetStreamWriter
from nats3_dagster.pipeline.sources.options import option_rows
from nats3_dagster.pipeline.sources.sink_task import Written
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.servers.tcp_proxy import TcpProxy
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

MAP = MapType(StringType(), StringType())
MAPS = MapType(StringType(), ArrayType(StringType()))


def columns(**types: Any) -> StructType:
    schema = StructType()
    for name, type_ in types.items():
        schema.add(name, type_)
    return schema


def writer(url: str, schema: StructType, overwrite: bool = False, **options: str) -> JetStreamWriter:
    given = {"url": url, "stream": "EV", **options}
    made = JetStreamDataSource(CaseInsensitiveDict(given)).writer(schema, overwrite=overwrite)
    assert isinstance(made, JetStreamWriter)
    return made


PLAIN = StructType().add("subject", "string").add("data", "string")


def batch(*rows: tuple[Any, ...], names: tuple[str, ...] = ("subject", "data"), **types: Any) -> pa.RecordBatch:
    arrays = [pa.array(values, types.get(name)) for name, values in zip(names, zip(*rows, strict=True), strict=True)]
    return pa.record_batch(arrays, names=list(names))


def written(made: JetStreamWriter, *batches: pa.RecordBatch) -> Written:
    done = made.write(iter(batches))
    assert isinstance(done, Written)
    return done


@pytest.fixture
def ev(wire: Wire) -> Wire:
    wire.create_stream("EV", "ev.>")
    return wire


def test_the_tables_of_its_options_say_all_of_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark-write.md").read_text()
    for row in option_rows(WRITE):
        assert row in (JetStreamDataSource.__doc__ or ""), row
        assert row in page, row


def test_rows_are_messages_each_with_an_id(ev: Wire, nats: NatsServer) -> None:
    made = writer(nats.url, PLAIN, writeId="w")
    done = written(made, batch(("ev.a", "1"), ("ev.b", "2")), batch(("ev.a", "3")))
    assert (done.messages, done.duplicates, done.refused) == (3, 0, 0)
    made.commit([done, None])
    stored = list(ev.messages("EV"))
    assert [(m.subject, m.data) for m in stored] == [("ev.a", b"1"), ("ev.b", b"2"), ("ev.a", b"3")]
    first = stored[0].headers.decode()
    assert first.startswith("NATS/1.0\r\nNats-Expected-Stream: EV\r\nNats-Msg-Id: w:0:0:")
    assert stored[2].headers.startswith(b"NATS/1.0\r\nNats-Expected-Stream: EV\r\nNats-Msg-Id: w:0:2:")


def test_headers_of_each_form_and_ids_of_a_column(ev: Wire, nats: NatsServer) -> None:
    names = ("subject", "data", "headers", "msg_id")
    types = {"subject": "binary", "data": "binary", "msg_id": "string"}
    forms: list[tuple[DataType, pa.DataType, Any]] = [
        (MAP, pa.map_(pa.string(), pa.string()), [("A", "1")]),
        (MAPS, pa.map_(pa.string(), pa.list_(pa.string())), [("A", ["1", "2"])]),
        (BinaryType(), pa.binary(), b"NATS/1.0\r\nA:x\r\n\r\n"),
    ]
    for n, (form, type_, headers) in enumerate(forms):
        made = writer(nats.url, columns(**types, headers=form), expectedStream="false")
        rows = batch((b"ev.a", b"\x00", headers, f"{n}-1"), (b"ev.a", b"", None, f"{n}-2"), names=names, headers=type_)
        assert written(made, rows).messages == 2
    ids = [f"{form}-{n}" for form in range(3) for n in (1, 2)]
    blocks = ["A: 1\r\n", "", "A: 1\r\nA: 2\r\n", "", "A:x\r\n", ""]
    expected = [f"NATS/1.0\r\nNats-Msg-Id: {id_}\r\n{more}\r\n".encode() for id_, more in zip(ids, blocks, strict=True)]
    assert [m.headers for m in ev.messages("EV")] == expected


def test_a_task_that_is_tried_again_stores_each_row_once(ev: Wire, nats: NatsServer) -> None:
    made = writer(nats.url, PLAIN)
    rows = [(f"ev.{n % 3}", f"{n}") for n in range(5000)]

    def dies() -> Iterator[pa.RecordBatch]:
        yield batch(*rows[:2000])
        yield batch(*rows[2000:3000])
        eventually(lambda: ev.state("EV")["messages"], "the first rows")
        raise RuntimeError("the executor is lost")

    with pytest.raises(RuntimeError, match="the executor is lost"):
        made.write(dies())
    done = written(made, batch(*rows[:250]), batch(*rows[250:300]), batch(*rows[300:]))
    assert done.messages == 5000
    assert done.duplicates > 0
    assert [m.data for m in ev.messages("EV")] == [text.encode() for _, text in rows]
    # Another write of the same rows is another write.
    assert written(writer(nats.url, PLAIN), batch(*rows)).duplicates == 0


def test_other_rows_in_the_place_of_rows_are_not_taken_for_them(ev: Wire, nats: NatsServer) -> None:
    made = writer(nats.url, PLAIN)
    written(made, batch(("ev.a", "1"), ("ev.a", "2")))
    assert written(made, batch(("ev.a", "1"), ("ev.a", "3"))).duplicates == 1
    assert [m.data for m in ev.messages("EV")] == [b"1", b"2", b"3"]


def test_a_lost_connection_loses_and_doubles_nothing(ev: Wire, nats: NatsServer) -> None:
    rows = [(f"ev.{n % 3}", f"{n}") for n in range(9000)]
    with TcpProxy(nats.port) as proxy:
        made = writer(f"nats://127.0.0.1:{proxy.port}", PLAIN, maxPending="50")

        def batches() -> Iterator[pa.RecordBatch]:
            for at in range(0, 9000, 1500):
                if at in (3000, 6000):
                    proxy.reset()
                yield batch(*rows[at : at + 1500])

        done = made.write(batches())
    assert isinstance(done, Written)
    assert (done.messages, done.refused) == (9000, 0)
    assert sorted(m.data for m in ev.messages("EV")) == sorted(text.encode() for _, text in rows)


def test_a_server_that_stays_away_is_an_error_after_a_while(ev: Wire, nats: NatsServer) -> None:
    with TcpProxy(nats.port) as proxy:
        made = writer(f"nats://127.0.0.1:{proxy.port}", PLAIN, retryTimeout="1s")

        def batches() -> Iterator[pa.RecordBatch]:
            yield batch(*[("ev.a", "1")] * 2000)
            proxy.refusing = True
            proxy.reset()
            yield batch(("ev.a", "2"))

        with pytest.raises(TargetError, match="it was tried again for 1 s. What was acknowledged stays"):
            made.write(batches())
    assert {m.data for m in ev.messages("EV")} <= {b"1"}


def test_rows_that_cannot_be_messages_are_refused_and_the_others_written(ev: Wire, nats_factory: NatsFactory) -> None:
    server = nats_factory(config="max_payload: 4KB")
    names = ("subject", "data", "headers", "msg_id")
    with Wire(server.url) as wire:
        wire.create_stream("EV", "ev.>", max_msg_size=3000)
        made = writer(server.url, columns(subject="string", data="string", headers=MAP, msg_id="string"))
        rows: list[tuple[Any, ...]] = [
            ("ev.good", "1", [], "1"),
            ("ev.*", "", [], "2"),
            ("ev.a b", "", [], "3"),
            ("", "", [], "4"),
            (None, "", [], "5"),
            ("ev.a", None, [], "6"),
            ("ev.a", "x" * 4096, [], "7"),
            ("ev.a", "x" * 3500, [], "8"),
            ("ev.a", "", [("A B", "1")], "9"),
            ("ev.a", "", [("A", "1\r\nB: 2")], "10"),
            ("ev.a", "", [("nats-msg-id", "1")], "11"),
            ("ev.a", "", [], None),
            ("ev.a", "", [], "a\r\nb"),
            ("other.a", "", [], "14"),
            ("other.a", "", [], "15"),
            ("ev." + "a" * 5000, "", [], "16"),
            ("ev.last", "2", [("A", "1")], "17"),
        ]
        done = written(made, batch(*rows, names=names, headers=pa.map_(pa.string(), pa.string())))
        assert [(m.subject, m.data) for m in wire.messages("EV")] == [("ev.good", b"1"), ("ev.last", b"2")]
    assert (done.messages, done.refused, len(done.refusals)) == (2, 15, 15)
    reasons = [refusal.reason for refusal in done.refusals]
    for part in (
        "a subject with wildcards takes no messages",
        "hold white space",
        "subject is null",
        "data is null",
        "it exceeds max_payload, 4096 bytes",
        "message size exceeds maximum allowed",
        "'A B' is not a header's name",
        "a line end in it",
        "are made from msg_id and stream",
        "msg_id is null",
        "msg_id is no value of a header",
        "no stream captures the subject",
        "a subject has 3936 bytes at most",
    ):
        assert any(part in reason for reason in reasons), (part, reasons)
    with pytest.raises(TargetError, match=r"has 2 of the rows, and 15 were refused: .*'ev\.\*': a subject with wildc"):
        made.commit([done, None])


def test_refusals_are_bounded_and_may_be_only_reported(
    ev: Wire, nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    made = writer(nats.url, PLAIN, rejects="report")
    done = written(made, batch(*[("none.a", "")] * 250, *[("ev.*", "")] * 250, ("ev.a", "")))
    assert (done.messages, done.refused, len(done.refusals)) == (1, 500, 100)
    made.commit([done])
    assert "500 were refused" in caplog.text


def test_a_message_for_another_stream_is_refused_by_it(ev: Wire, nats: NatsServer) -> None:
    ev.create_stream("OTHER", "other.>")
    done = written(writer(nats.url, PLAIN), batch(("other.a", "1"), ("ev.a", "2")))
    assert (done.messages, done.refused) == (1, 1)
    assert "expected stream does not match" in done.refusals[0].reason
    assert ev.state("OTHER")["messages"] == 0
    with pytest.raises(TargetError, match="Stream OTHER took a message that was meant for EV"):
        written(writer(nats.url, PLAIN, expectedStream="false"), batch(("other.a", "1")))


def test_a_stream_that_is_full_is_named_by_its_own_words(wire: Wire, nats: NatsServer) -> None:
    wire.create_stream("EV", "ev.>", max_msgs=3, discard="new")
    done = written(writer(nats.url, PLAIN), batch(*[("ev.a", f"{n}") for n in range(5)]))
    assert (done.messages, done.refused) == (3, 2)
    assert done.refusals[0].reason == "maximum messages exceeded (10077)"


def test_a_write_with_an_id_of_its_own_is_known_again_and_others_leave_no_records(ev: Wire, nats: NatsServer) -> None:
    records = "NATS3_WRITES_EV"
    made = writer(nats.url, PLAIN)
    made.commit([written(made, batch(("ev.a", "1")))])
    assert ev.state(records)["messages"] == 0
    with pytest.raises(TargetError, match="it has ended"):  # a task that comes after the write
        made.write(iter([batch(("ev.a", "1"))]))
    failing = writer(nats.url, PLAIN)
    failing.abort([written(failing, batch(("ev.a", "2")))])
    assert ev.state(records)["messages"] == 0
    for duplicates in (0, 1):
        made = writer(nats.url, PLAIN, writeId="mine.2026")
        done = written(made, batch(("ev.a", "3")))
        made.commit([done])
        assert done.duplicates == duplicates
    assert ev.state("EV")["messages"] == 3
    assert ev.state(records)["messages"] >= 2


def test_what_is_wrong_is_an_error_before_anything_is_written(ev: Wire, nats: NatsServer) -> None:
    ev.create_stream("SHORT", "short.>", duplicate_window=2_000_000_000)
    ev.create_stream("MIRROR", mirror={"name": "EV"})
    ev.create_stream("QUIET", "quiet.>", no_ack=True)
    ev.create_stream("SEALED", "sealed.>")
    config = ev.api("STREAM.INFO.SEALED")["config"]
    ev.api("STREAM.UPDATE.SEALED", **{**config, "sealed": True})
    cases: list[tuple[dict[str, Any], StructType, str]] = [
        ({"maxPendng": "5"}, PLAIN, "maxpendng is not an option of df.write.format('jetstream'). Did you mean maxPen"),
        ({"retryTimeout": "soon"}, PLAIN, "The option retryTimeout of df.write.format('jetstream') is malformed"),
        ({"rejects": "skip"}, PLAIN, "Write one of fail, report"),
        ({"writeId": "a b"}, PLAIN, "without white space"),
        ({}, columns(subject="string"), "jetstream needs a column data, and there is none. Select one as data"),
        ({}, columns(subject="string", data="long"), "The column data is bigint; jetstream writes string or binary"),
        ({}, columns(subject="string", data="string", msgid="string"), "Did you mean msg_id?"),
        ({}, columns(subject="string", data="string", seq="long"), "jetstream does not write a column seq"),
        ({"overwrite": True}, PLAIN, 'Write with mode("append")'),
        ({"stream": "SHORT"}, PLAIN, "knows the ids of its messages for 2 s (duplicate_window), and a row may be publ"),
        ({"stream": "MIRROR"}, PLAIN, "Stream MIRROR is a mirror of EV"),
        ({"stream": "QUIET"}, PLAIN, "acknowledges nothing (no_ack)"),
        ({"stream": "SEALED"}, PLAIN, "Stream SEALED is sealed"),
        ({"stream": "EW"}, PLAIN, "There is no stream EW"),
    ]
    for options, schema, error in cases:
        with pytest.raises((OperatorError, UnknownStream)) as raised:
            writer(nats.url, schema, **options)
        assert error in str(raised.value), options
    assert writer(nats.url, PLAIN, stream="SHORT", retryTimeout="1s", ackTimeout="1s")
    assert writer(nats.url, PLAIN, stream="SHORT", allowDoubles="true")
    with pytest.raises(OperatorError, match="The option stream of jetstream is not given"):
        JetStreamDataSource(CaseInsensitiveDict({"url": nats.url})).writer(PLAIN, overwrite=False)
