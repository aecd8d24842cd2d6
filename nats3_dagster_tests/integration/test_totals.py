"""Totals: what Postgres counts while it is written, and never takes back."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest

from nats3_dagster.archive.captures.capture_log import KINDS, kind_of
from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog.archives import measures
from nats3_dagster.dev.process import wait_for
from nats3_dagster.errors import (
    CatalogError,
    Conflict,
    EngineError,
    Nats3Error,
    OperatorError,
    SourceError,
    StoreError,
    StreamChanged,
    UnknownConsumer,
    UnknownStream,
)
from nats3_dagster.hours import HOUR_NS as HOUR_LONG
from nats3_dagster.hours import hour_of
from nats3_dagster.model import LOSSES, Archive, CaptureEnd, ChunkResult, Gap, ReplaySpec, SeqRange
from nats3_dagster.model.erasure import ErasureRecord
from nats3_dagster_tests.support.catalog import HOUR_NS, LOGS, chunk, ids, ranges, spec, state


@pytest.fixture
def logs(catalog: Catalog) -> Archive:
    return catalog.archives.create(spec(), state(last=10_000))


def grown(catalog: Catalog, what: str) -> dict[str, int]:
    """A total by its label."""
    return {count.label: count.value for count in catalog.measures.grown() if count.what == what}


def test_a_chunk_is_counted_by_its_size(catalog: Catalog, logs: Archive) -> None:
    sizes = (1, 65_536, 65_537, 4**15, 4**15 + 1)
    catalog.chunks.commit(logs, [chunk(n * 10 + 1, n * 10 + 10, stored_bytes=size) for n, size in enumerate(sizes)])
    assert grown(catalog, "chunks") == {"65536": 2, "262144": 1, "1073741824": 1, "+Inf": 1}
    assert grown(catalog, "stored_bytes") == {"": sum(sizes)}
    assert (grown(catalog, "captured_messages"), grown(catalog, "captured_bytes")) == ({"": 50}, {"": 5000})


def test_a_loss_is_counted_when_it_is_recorded(catalog: Catalog, logs: Archive) -> None:
    absent = chunk(1, 10, 7, deleted=ranges((2, 4)), absent_reason="ttl")
    gaps = [
        Gap(LOGS, ranges((11 + 10 * n, 13 + 10 * n)), reason)
        for n, reason in enumerate(("expired", "deleted", "unselected", "missing"))
    ]
    catalog.chunks.commit(logs, [absent], gaps)
    expected = {"ttl": 3, "expired": 3, "missing": 3}
    assert grown(catalog, "lost") == expected
    # What yields to a chunk was lost by then, and its rest is not lost once more.
    catalog.chunks.commit(logs, [chunk(12, 12)])
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[-1].id])
    assert grown(catalog, "lost") == expected
    now = {c.label: c.value for c in catalog.measures.current("") if c.what == "missing"}
    assert now == {"ttl": 3, "expired": 2, "missing": 3}
    assert expected.keys() <= set(LOSSES)


@pytest.mark.parametrize(
    "statement",
    [
        "update nats3.total set value = value - 1",
        "update nats3.total set what = 'lost'",
        "delete from nats3.total",
    ],
)
def test_totals_only_grow(catalog: Catalog, logs: Archive, postgres_url: str, statement: str) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10)])
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.IntegrityError, match="totals only grow"):
        connection.execute(statement.encode())


def test_a_replay_is_counted_while_it_publishes(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [chunk(1, 100), chunk(101, 200)])
    chunks = catalog.chunks.select(logs)
    replays, replay = catalog.replays, "0" * 16
    replays.begin(replay, logs, ReplaySpec("logs"), (), ids(chunks))
    first = replays.start_attempt(replay)
    replays.record_progress(replay, first, 150, 0)
    assert grown(catalog, "published_messages") == {"": 150}
    catalog.replay_chunks.record(replay, first, [ChunkResult(chunks[0].id, 100, 100, 0, 0)])
    assert grown(catalog, "published_messages") == {"": 150}
    one = {what: grown(catalog, what)[""] for what in ("fetched_objects", "fetched_bytes", "published_bytes")}
    assert one == {"fetched_objects": 1, "fetched_bytes": chunks[0].meta.stored_bytes, "published_bytes": 100 * 100}
    # Killed. The next one finds what was published of the second chunk.
    second = replays.start_attempt(replay)
    replays.record_progress(replay, second, 0, 50)
    assert grown(catalog, "published_messages") == {"": 150}
    catalog.replay_chunks.record(replay, second, [ChunkResult(chunks[1].id, 100, 50, 50, 0)])
    replays.finish(replay, second, "succeeded")
    assert grown(catalog, "published_messages") == {"": 200}
    assert grown(catalog, "published_bytes") == {"": 200 * 100}
    ends = {(c.what, c.label): c.value for c in catalog.measures.replays()}
    assert ends == {("replays", "succeeded"): 1, ("attempts", "succeeded"): 1, ("attempts", "lost"): 1}


def test_a_replay_in_no_process_is_interrupted(catalog: Catalog, logs: Archive) -> None:
    catalog.chunks.commit(logs, [chunk(1, 100)])
    replay = "f" * 16
    catalog.replays.begin(replay, logs, ReplaySpec("logs"), (), ids(catalog.chunks.select(logs)))
    states = {count.label for count in catalog.measures.replays()}
    with catalog.replays.lock(replay):
        catalog.replays.start_attempt(replay)
        states |= {count.label for count in catalog.measures.replays() if count.what == "replays"}
    assert states == {"planned", "running"}

    def interrupted() -> bool:  # Postgres notices soon after that a connection has ended
        return {c.label for c in catalog.measures.replays() if c.what == "replays"} == {"interrupted"}

    assert wait_for(interrupted, 10)


def test_captures_are_kept_up_to_a_number(
    catalog: Catalog, logs: Archive, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "KEPT", 3)

    def note(*errors: tuple[str, str] | None) -> None:
        for error in errors:
            catalog.measures.add_captures(logs, datetime.now(UTC), [CaptureEnd("2026-01-01-00:00", error=error)])

    note(None, *[("store", "gone\0")] * 5)
    with psycopg.connect(postgres_url) as connection:
        kept = connection.execute("select id, error_kind from nats3.capture order by id").fetchall()
    assert kept == [(1, None), (4, "store"), (5, "store"), (6, "store")]
    assert (grown(catalog, "captures"), grown(catalog, "failures")) == ({"": 1}, {"store": 5})
    note(None)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select array_agg(id order by id) from nats3.capture").fetchone() == ([5, 6, 7],)


def test_every_error_has_a_kind() -> None:
    kinds = {
        StreamChanged: "stream",
        UnknownStream: "stream",
        UnknownConsumer: "stream",
        SourceError: "source",
        StoreError: "store",
        Conflict: "conflict",
        CatalogError: "catalog",
        EngineError: "engine",
        OperatorError: "operator",
        Nats3Error: "defect",
    }
    assert {error: kind_of(error("what")) for error in kinds} == kinds
    assert kind_of(ValueError()) == "defect"
    assert set(kinds.values()) == set(KINDS)


def test_what_is_kept_removed_and_copied_is_counted_as_it_is_now(catalog: Catalog) -> None:
    """Of each archive that is not deleted; what is none is left out."""
    first, second = (hour_of(HOUR_NS + n * HOUR_LONG) for n in range(2))
    hold_on = SeqRange(1, 10)
    logs = catalog.archives.create(spec(keep_s=60, copies=("copy",)), state())
    young = catalog.archives.create(spec("young", keep_s=100 * 365 * 86_400), state())
    gone = catalog.archives.create(spec("gone", keep_s=60), state())
    catalog.archives.create(spec("empty"), state())
    for archive in (logs, young, gone):
        metas = [
            replace(chunk(1, 10, archive=archive.name), hour=first),
            replace(chunk(11, 20, archive=archive.name), hour=second),
            replace(chunk(21, 30, archive=archive.name), hour=second),
        ]
        catalog.chunks.commit(archive, metas)
        catalog.chunks.retire(archive, [catalog.chunks.select(archive)[-1].id])
    catalog.holds.create(logs, "case", "a case", seqs=hold_on)
    catalog.holds.create(logs, "former", "a case")
    catalog.holds.release(logs, "former", "over")
    for name in ("one", "two"):
        catalog.holds.create(young, name, "a case", seqs=hold_on)
    for number, erased in enumerate((ranges((41, 43)), ranges((50, 51))), 1):
        record = ErasureRecord(uuid4(), number, None, catalog.now(), {LOGS.created_ns: erased})
        catalog.erasures.learn(logs, record, str(number) * 64)
    catalog.archives.delete("gone")
    whats = {"removed", "erased_objects", "holds", "overdue", "copy_missing", "copy_lag"}

    def kept() -> dict[tuple[str, str, str], int]:
        rows = [count for count in catalog.measures.current("") if count.what in whats]
        assert len({(row.archive, row.what, row.label) for row in rows}) == len(rows)
        return {(row.archive, row.what, row.label): row.value for row in rows}

    found = kept()
    lag = found.pop(("logs", "copy_lag", "copy"))
    assert 0 < lag < 60
    expected = {
        ("logs", "removed", "retired"): 10,
        ("logs", "removed", "erased"): 5,
        ("logs", "erased_objects", ""): 2,
        ("logs", "holds", ""): 1,
        # The first hour is held, and the retired chunk of the second one is gone.
        ("logs", "overdue", ""): 1,
        # The object of the retired chunk as well, until it is swept.
        ("logs", "copy_missing", "copy"): 3,
        ("young", "removed", "retired"): 10,
        ("young", "holds", ""): 2,
    }
    assert found == expected
    rows = catalog.erasures.all(logs)
    catalog.erasures.left_over(logs, 4)
    assert kept()["logs", "erased_objects", ""] == 8
    catalog.erasures.finish(logs, [rows[0].id])
    assert kept()["logs", "erased_objects", ""] == 4
    catalog.holds.release(logs, "case", "over")
    assert kept()["logs", "overdue", ""] == 2
    assert ("logs", "holds", "") not in kept()


def test_the_newest_capture_that_completed_counts(catalog: Catalog, logs: Archive) -> None:
    def completed() -> dict[str, int]:
        rows = [count for count in catalog.measures.current("") if count.what == "completed"]
        assert len({row.archive for row in rows}) == len(rows)
        return {row.archive: row.value for row in rows}

    begun = int(catalog.now().timestamp())
    failed = CaptureEnd("2026-11-21-07:00", error=("store", "S3 does not answer"))
    catalog.measures.add_captures(logs, catalog.now(), [failed])
    assert completed() == {}
    for _ in range(2):
        catalog.measures.add_captures(logs, catalog.now(), [CaptureEnd("2026-11-21-07:00", 5, 50)])
    (value,) = completed().values()
    assert begun <= value <= int(catalog.now().timestamp()) + 1
    catalog.measures.add_captures(logs, catalog.now(), [failed])
    assert completed() == {"logs": value}
    catalog.archives.delete("logs")
    assert completed() == {}
