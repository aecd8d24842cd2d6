"""The two promises, from outside: what was published comes back, once, byte for byte and in order."""

import random
import re
from collections.abc import Callable, Iterator

import psycopg
import pytest
from pyspark.sql import SparkSession

from nats3_dagster.capture import CaptureResult, check_source
from nats3_dagster.catalog import Catalog
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import hour_of, parse_time
from nats3_dagster.jetstream.connection import Link
from nats3_dagster.model import ArchiveSpec, ReplaySpec
from nats3_dagster.pipeline.capture import run_capture
from nats3_dagster.pipeline.replay import create_replay, run_replay
from nats3_dagster.settings import Settings
from nats3_dagster_tests.wire import Message, Wire

ADDED = re.compile(rb"(?:Nats3-(?:Replay|Stream|Incarnation|Sequence|Time)|Nats-Msg-Id): [^\r]*\r\n")


@pytest.fixture
def wire(nats: NatsServer) -> Iterator[Wire]:
    with Wire(nats.url) as client:
        yield client


def strange_messages(count: int, seed: int = 7) -> list[tuple[str, bytes, bytes]]:
    """Everything that clients get wrong: repeated keys, `Status`, bytes that are no UTF-8, empty values, large blocks."""
    rng = random.Random(seed)
    blocks = [
        b"", b"", b"", b"NATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n", b"NATS/1.0\r\nStatus: 404\r\n\r\n", b"NATS/1.0\r\nX:\r\n\r\n",
        b"NATS/1.0\r\nBytes: \xff\xfe\x80\r\n\r\n", b"NATS/1.0\r\nBig: " + b"x" * 60_000 + b"\r\n\r\n",
        b"NATS/1.0\r\nNoSpace:y\r\nTrailing: z  \r\n\r\n",
    ]  # fmt: skip
    weights = [30, 30, 30, 10, 5, 5, 5, 0.1, 5]
    subjects = ["ev.a", "ev.b.c", "ev.ü.x", "ev.b.d", "ev." + "long" * 20]
    return [
        (rng.choice(subjects), rng.choices(blocks, weights)[0], rng.randbytes(rng.choice([0, 1, 10, 100, 300, 5000])))
        for _ in range(count)
    ]


def archive(settings: Settings, bucket: str, name: str = "events", stream: str = "EV", **spec: object) -> ArchiveSpec:
    made = ArchiveSpec(name=name, stream=stream, bucket=bucket, **spec)  # type: ignore[arg-type]
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        catalog.create_archive(made, check_source(link, made))
    return made


def capture_all(spark: SparkSession, settings: Settings, wire: Wire, name: str = "events", stream: str = "EV") -> CaptureResult:
    """Capture the hours in which the stream's messages lie (two, when the test crosses an hour)."""
    state = wire.state(stream)
    hours = sorted({hour_of(parse_time(state[end])) for end in ("first_ts", "last_ts")})
    return [run_capture(spark, settings, name, hour) for hour in hours][-1]


def came_back(message: Message) -> tuple[str, bytes, bytes]:
    """A replayed message without what the replay added; a block with nothing else was none."""
    added, old = re.fullmatch(rb"NATS/1\.0\r\n((?:[^\r]*\r\n)*?)((?:(?!Nats3-|Nats-Msg-Id)[^\r]*\r\n)*\r\n)", message.headers).groups()
    assert ADDED.sub(b"", added) == b"", added
    return message.subject, b"" if old == b"\r\n" else b"NATS/1.0\r\n" + old, message.data


def test_what_went_in_comes_back_after_the_stream_is_gone(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    sent = strange_messages(3000)
    wire.publish(sent)
    archive(settings, bucket)
    captured = capture_all(spark, settings, wire)
    assert captured.messages == len(sent)
    again = capture_all(spark, settings, wire)
    assert (again.chunks, again.gaps, again.found) == ((), (), len(sent))

    wire.api("STREAM.DELETE.EV")
    wire.create_stream("BACK", "back.>", **({"allow_batched": True} if _version(settings) >= (2, 14) else {}))
    done = run_replay(spark, settings, create_replay(settings, ReplaySpec("events", "ev.>", "back.>")))
    assert (done.selected, done.published, done.found, done.duplicates) == (len(sent), len(sent), 0, 0)
    back = [came_back(m) for m in wire.messages("BACK")]
    assert [("ev." + subject.removeprefix("back."), headers, data) for subject, headers, data in back] == sent


@pytest.mark.parametrize("order", ["subject", "none"])
def test_other_orders_lose_and_double_nothing(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str, order: str
) -> None:
    wire.create_stream("EV", "ev.>")
    sent = strange_messages(2000)
    wire.publish(sent)
    archive(settings, bucket)
    capture_all(spark, settings, wire)
    wire.create_stream("BACK", "back.>")
    run_replay(spark, settings, create_replay(settings, ReplaySpec("events", "ev.>", "back.>", order=order)))  # type: ignore[arg-type]
    back = [came_back(m) for m in wire.messages("BACK")]
    back = [("ev." + subject.removeprefix("back."), headers, data) for subject, headers, data in back]
    assert sorted(back) == sorted(sent)
    if order == "subject":
        for subject in {s for s, _, _ in sent}:
            assert [m for m in back if m[0] == subject] == [m for m in sent if m[0] == subject]


def test_deleted_messages_are_accounted_for_and_expired_ones_are_gaps(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(100)])
    archive(settings, bucket)
    for seq in (1, 50, 51, 52, 100):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    result = capture_all(spark, settings, wire)
    assert result.messages == 95
    # 1 moved the stream's head before the capture: nothing tells that from an expiry. The others were inside.
    assert {(g.reason, g.ranges) for g in result.gaps} == {("expired", ((1, 1),))}
    assert [c.deleted for c in result.chunks] == [((50, 52), (100, 100))]

    wire.publish([("ev.a", b"", b"more")] * 10)
    wire.api("STREAM.PURGE.EV", seq=106)
    result = capture_all(spark, settings, wire)
    assert (result.messages, result.lost) == (5, 5)
    with pytest.raises(OperatorError, match="lacks the sequences"):
        create_replay(settings, ReplaySpec("events", into_own_stream=True))


def test_a_filtered_archive_covers_what_it_does_not_select(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{'a' if n % 3 else 'b'}", b"", b"%d" % n) for n in range(90)])
    archive(settings, bucket, subjects=("ev.b",))
    assert capture_all(spark, settings, wire).messages == 30
    wire.publish([("ev.a", b"", b"x")] * 5)
    result = capture_all(spark, settings, wire)
    assert [(g.reason, g.ranges) for g in result.gaps] == [("unselected", ((91, 95),))]
    result = capture_all(spark, settings, wire)
    assert (result.gaps, result.found) == ((), 95)


def test_postgres_refuses_a_second_chunk_over_the_same_sequences(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 10)
    archive(settings, bucket)
    capture_all(spark, settings, wire)
    with psycopg.connect(settings.postgres) as connection, pytest.raises(psycopg.errors.ExclusionViolation):
        columns = [
            row[0]
            for row in connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'nats3' AND table_name = 'chunk'"
                " AND column_name NOT IN ('id', 'key') AND is_generated = 'NEVER'"
            )
        ]
        names = ", ".join(columns)
        connection.execute(f"INSERT INTO nats3.chunk (key, {names}) SELECT key || 'x', {names} FROM nats3.chunk")  # type: ignore[arg-type]


def test_a_stream_made_again_is_an_error_until_it_is_adopted(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    from nats3_dagster.errors import StreamChanged

    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"first life")] * 10)
    archive(settings, bucket)
    capture_all(spark, settings, wire)
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"second life")] * 4)
    hour = hour_of(parse_time(wire.state("EV")["first_ts"]))
    with pytest.raises(StreamChanged, match="made again.*--adopt"):
        run_capture(spark, settings, "events", hour)
    assert run_capture(spark, settings, "events", hour, adopt=True).messages == 4
    wire.create_stream("BACK", "back.>")
    run_replay(spark, settings, create_replay(settings, ReplaySpec("events", "ev.>", "back.>")))
    assert [m.data for m in wire.messages("BACK")] == [b"first life"] * 10 + [b"second life"] * 4


def _version(settings: Settings) -> tuple[int, ...]:
    from nats3_dagster.jetstream.admin import server_info

    with Link(settings.nats) as link:
        return server_info(link).version
