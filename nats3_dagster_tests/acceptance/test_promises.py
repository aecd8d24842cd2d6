"""The two promises, from outside: what was published comes back, once, byte for byte and in order."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import OperatorError, StreamChanged, TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.probe import await_stored
from nats3_dagster.model import ReplaySpec, Selection, SeqRange
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.pipeline.replay_run import run_replay
from nats3_dagster.replay.messages.headers import original_headers
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.runs import (
    archive_events,
    begin_replay,
    came_back,
    capture_all,
    hours_of,
    strange_messages,
)
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.nats

EVENTS = Selection(subjects=("ev.>",))


def test_what_went_in_comes_back_after_the_stream_is_gone(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    sent = strange_messages(3000)
    wire.publish(sent)
    archive_events(settings, bucket)
    assert sum(r.messages for r in capture_all(spark, settings, wire)) == len(sent)
    again = capture_all(spark, settings, wire)
    assert [(r.chunks, r.gaps) for r in again] == [((), ())] * len(again)
    assert sum(r.found for r in again) == len(sent)

    wire.api("STREAM.DELETE.EV")
    wire.create_stream("BACK", "back.>", **({"allow_batched": True} if _version(settings) >= (2, 14) else {}))
    done = run_replay(spark, settings, begin_replay(settings, ReplaySpec("events", "back.>", EVENTS)))
    assert (done.selected, done.published, done.found, done.duplicates) == (len(sent), len(sent), 0, 0)
    assert [came_back(m) for m in wire.messages("BACK")] == sent


@pytest.mark.parametrize("batched", [False, pytest.param(True, marks=pytest.mark.needs_nats("2.14"))])
def test_a_stream_that_was_sourced_comes_back_elsewhere(
    batched: bool, spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    """Each of its messages says where the server took it from, which a server allows nobody else to say."""
    wire.create_stream("EV", "ev.>")
    wire.publish(strange_messages(500))
    wire.create_stream("ALL", sources=[{"name": "EV"}])
    while wire.state("ALL")["messages"] < 500:
        time.sleep(0.01)
    archive_events(settings, bucket, stream="ALL")
    capture_all(spark, settings, wire, stream="ALL")
    wire.create_stream("BACK", "back.>", **({"allow_batched": True} if batched else {}))
    done = run_replay(spark, settings, begin_replay(settings, ReplaySpec("events", "back.>", EVENTS)))
    assert (done.selected, done.published) == (500, 500)
    sent, back = list(wire.messages("ALL")), list(wire.messages("BACK"))
    assert all(b"\r\nNats-Stream-Source: EV" in m.headers for m in sent)
    assert original_headers(pa.array([m.headers for m in back])).to_pylist() == [m.headers for m in sent]
    assert [(m.subject.replace("back.", "ev.", 1), m.data) for m in back] == [(m.subject, m.data) for m in sent]


@pytest.mark.needs_nats("2.10")
def test_a_replay_goes_on_in_a_stream_that_stores_other_subjects(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(1000)])
    archive_events(settings, bucket)
    capture_all(spark, settings, wire)
    # The duplicate window is over when the replay goes on, so a message that is sent again is stored again.
    config = {
        "subjects": ["back.>"],
        "storage": "file",
        "duplicate_window": 100_000_000,
        "discard": "new",
        "subject_transform": {"src": "back.>", "dest": "stored.>"},
    }
    wire.create_stream("BACK", **config)
    replay = begin_replay(settings, ReplaySpec("events", "back.>", EVENTS))
    # A stream that is full as a whole is refused before the first message (catalog says how many are left); a subject
    # that is full is found out in the middle.
    wire.api("STREAM.UPDATE.BACK", name="BACK", **config, max_msgs_per_subject=400, discard_new_per_subject=True)
    with pytest.raises(TargetError, match="maximum messages per subject exceeded"):
        run_replay(spark, settings, replay)
    with Link(settings.nats) as link:
        await_stored(link, "BACK", "back.>")  # what the server had read before the refusal is refused as well
    wire.api("STREAM.UPDATE.BACK", name="BACK", **config)
    done = run_replay(spark, settings, replay)
    assert (done.attempt, done.published, done.found, done.duplicates) == (2, 600, 400, 0)
    assert [(m.subject, m.data) for m in wire.messages("BACK")] == [("stored.a", b"%d" % n) for n in range(1000)]


@pytest.mark.parametrize("order", ["subject", "none"])
def test_other_orders_lose_and_double_nothing(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str, order: str
) -> None:
    wire.create_stream("EV", "ev.>")
    sent = strange_messages(2000)
    wire.publish(sent)
    archive_events(settings, bucket)
    capture_all(spark, settings, wire)
    wire.create_stream("BACK", "back.>")
    run_replay(spark, settings, begin_replay(settings, ReplaySpec("events", "back.>", EVENTS, order=order)))  # type: ignore[arg-type]
    back = [came_back(m) for m in wire.messages("BACK")]
    assert sorted(back) == sorted(sent)
    if order == "subject":
        for subject in {s for s, _, _ in sent}:
            assert [m for m in back if m[0] == subject] == [m for m in sent if m[0] == subject]


def test_two_captures_at_once_make_one_archive(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    sent = strange_messages(4000)
    wire.publish(sent)
    archive_events(settings, bucket)
    hour = hours_of(wire, "EV")[-1]
    with ThreadPoolExecutor(2) as pool:
        results = [f.result() for f in [pool.submit(run_capture, spark, settings, "events", hour) for _ in range(2)]]
    capture_all(spark, settings, wire)
    with Catalog.connect(settings.postgres) as catalog:
        chunks = [c.meta for c in catalog.chunks.select(catalog.archives.get("events"))]
    assert sum(c.messages for c in chunks) == len(sent)
    assert all(one.covers.last < other.covers.first for one, other in pairwise(chunks))
    # Whoever came second found everything done and said so.
    assert sorted(bool(r.messages) for r in results) == [False, True]


def test_deleted_messages_are_accounted_for_and_expired_ones_are_gaps(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(100)])
    archive_events(settings, bucket)
    for seq in (1, 50, 51, 52, 100):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    result = capture_all(spark, settings, wire)[-1]
    assert result.messages == 95
    # 1 moved the stream's head before the capture: nothing tells that from an expiry. The others were inside.
    assert {(g.reason, g.ranges) for g in result.gaps} == {("expired", ((1, 1),))}
    assert [c.deleted for c in result.chunks] == [((50, 52), (100, 100))]

    wire.publish([("ev.a", b"", b"more")] * 10)
    wire.api("STREAM.PURGE.EV", seq=106)
    result = capture_all(spark, settings, wire)[-1]
    assert (result.messages, result.lost) == (5, 5)
    with pytest.raises(OperatorError, match="Sequences of the selection are not in archive events"):
        begin_replay(settings, ReplaySpec("events", into_own_stream=True))


def test_a_filtered_archive_covers_what_it_does_not_select(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{'a' if n % 3 else 'b'}", b"", b"%d" % n) for n in range(90)])
    archive_events(settings, bucket, subjects=("ev.b",))
    assert capture_all(spark, settings, wire)[-1].messages == 30
    wire.publish([("ev.a", b"", b"x")] * 5)
    result = capture_all(spark, settings, wire)[-1]
    assert [(g.reason, g.ranges) for g in result.gaps] == [("unselected", ((91, 95),))]
    result = capture_all(spark, settings, wire)[-1]
    assert (result.gaps, result.found) == ((), 95)


def test_postgres_refuses_a_second_chunk_over_the_same_sequences(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 10)
    archive_events(settings, bucket)
    capture_all(spark, settings, wire)
    with psycopg.connect(settings.postgres) as connection, pytest.raises(psycopg.errors.ExclusionViolation):
        columns = [
            row[0]
            for row in connection.execute(
                "SELECT column_name FROM information_schema.columns"
                " WHERE table_schema = 'nats3' AND table_name = 'chunk'"
                " AND column_name NOT IN ('id', 'key') AND is_generated = 'NEVER'"
            )
        ]
        names = ", ".join(columns)
        connection.execute(f"INSERT INTO nats3.chunk (key, {names}) SELECT key || 'x', {names} FROM nats3.chunk")  # type: ignore[arg-type]


def test_a_stream_made_again_is_an_error_until_it_is_adopted(
    spark: SparkSession, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"first life")] * 10)
    archive_events(settings, bucket)
    capture_all(spark, settings, wire)
    wire.publish([("ev.a", b"", b"lost with its stream")] * 3)
    with Workspace(settings) as workspace:
        open_source(workspace, workspace.catalog.archives.get("events"))  # as a sensor does
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"second life")] * 4)
    hour = hours_of(wire, "EV")[0]
    with pytest.raises(StreamChanged, match="made again.*adopt the new one"):
        run_capture(spark, settings, "events", hour)
    assert run_capture(spark, settings, "events", hour, adopt=True).messages == 4
    with Catalog.connect(settings.postgres) as catalog:
        (lost,) = catalog.gaps.select(catalog.archives.get("events"))
    assert (lost.ranges, lost.reason) == ((SeqRange(11, 13),), "missing")
    wire.create_stream("BACK", "back.>")
    run_replay(spark, settings, begin_replay(settings, ReplaySpec("events", "back.>", EVENTS, over_gaps=True)))
    assert [m.data for m in wire.messages("BACK")] == [b"first life"] * 10 + [b"second life"] * 4


def _version(settings: Settings) -> tuple[int, ...]:
    from nats3_dagster.jetstream.server import server_info

    with Link(settings.nats) as link:
        return server_info(link).version
