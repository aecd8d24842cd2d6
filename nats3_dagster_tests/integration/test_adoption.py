"""Objects that the catalog does not know, as after it was restored from a backup: what they hold comes before any
absence is written down, if the stream has nothing against it."""

from collections import Counter
from typing import Any

import pytest

from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.proof.unlisted import adopt_unlisted, examine
from nats3_dagster.chunks import ChunkReader
from nats3_dagster.model import Archive
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.adoption import archive_of, gaps, other_history, publish, stored
from nats3_dagster_tests.support.captures import capture, plan, read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire


@pytest.mark.parametrize("subjects", [(), ("ev.x",), ("ev.>",)])
@pytest.mark.parametrize("removed", ["one by one", "all after the head", "the head"])
def test_messages_that_only_the_bucket_has_come_before_an_absence(
    workspace: Workspace, wire: Wire, bucket: str, subjects: tuple[str, ...], removed: str
) -> None:
    publish(wire, 1, 300)
    archive = archive_of(workspace, bucket, *subjects)
    read(workspace, plan(workspace, archive, wire))  # and the catalog forgets it
    if removed == "one by one":
        for seq in (2, 100, 101, 300):
            wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    elif removed == "the head":
        wire.api("STREAM.PURGE.EV", seq=201)
    else:
        wire.api("STREAM.PURGE.EV", filter="ev.x")
    publish(wire, 301, 320)
    result = capture(workspace, archive, wire)
    mine = [n for n in range(1, 321) if subjects != ("ev.x",) or n % 2 == 0]
    assert stored(workspace, archive) == {n: b"%d" % n for n in mine}
    assert result.lost == 0
    if subjects != ("ev.x",):
        assert gaps(workspace, archive) == {}


def test_of_an_object_of_another_filter_only_messages_are_taken(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """An archive of ev.x was killed before its commit, deleted, and made again without a filter."""
    publish(wire, 1, 500)
    read(workspace, plan(workspace, archive_of(workspace, bucket, "ev.x"), wire))
    delete(workspace, "events")
    archive = archive_of(workspace, bucket)
    wire.api("STREAM.PURGE.EV", seq=501)
    publish(wire, 501, 520)
    result = capture(workspace, archive, wire)
    assert sorted(stored(workspace, archive)) == [*range(2, 501, 2), *range(501, 521)]
    assert result.lost == 250
    assert set(gaps(workspace, archive)) <= {"expired"}


def test_an_object_that_a_killed_capture_put_again_after_a_purge_is_adopted(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """The new archive's capture made the object of the former one again, under the same key, and was killed."""
    publish(wire, 1, 300)
    capture(workspace, archive_of(workspace, bucket), wire)
    delete(workspace, "events", purge=True)
    archive = archive_of(workspace, bucket)
    read(workspace, plan(workspace, archive, wire))
    wire.api("STREAM.PURGE.EV", seq=201)
    publish(wire, 301, 320)
    result = capture(workspace, archive, wire)
    assert sorted(stored(workspace, archive)) == [*range(1, 321)]
    assert result.lost == 0


@pytest.mark.parametrize("remaining", ["first", "last", "middle"])
def test_an_object_of_an_abandoned_history_is_refused_and_named(
    workspace: Workspace, wire: Wire, bucket: str, remaining: str, nats3: Command
) -> None:
    """NATS and the catalog were restored, and the stream gave the sequences to other messages. One of them is left."""
    publish(wire, 1, 100)
    archive = archive_of(workspace, bucket)
    planned = plan(workspace, archive, wire)
    meta = other_history(workspace, archive, planned, 100)
    kept = {"first": 1, "last": 100, "middle": 43}[remaining]
    for seq in range(1, 101):
        if seq != kept:
            wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    capture(workspace, archive, wire)
    assert stored(workspace, archive) == {kept: b"%d" % kept}
    (item,) = examine(workspace, archive)
    assert item.key == meta.key
    assert f"another message at sequence {kept}" in item.reason
    assert adopt_unlisted(workspace, archive) == 0
    verified = nats3.ok("chunk", "verify", "events", "-o", "json")
    assert verified.json["unlisted"] == {
        "objects": 1,
        "stored_bytes": meta.stored_bytes,
        "messages": 0,
        "missing": 0,
    }
    assert f"another message at sequence {kept}" in verified.err


def test_one_message_after_the_histories_part_is_enough_to_refuse_an_object(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """It is neither at an end of the object nor at one of the samples."""
    publish(wire, 1, 120)
    archive = archive_of(workspace, bucket)
    meta = other_history(workspace, archive, plan(workspace, archive, wire), 100, same=90)
    for seq in {*range(91, 101)} - {95}:
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    capture(workspace, archive, wire)
    assert stored(workspace, archive) == {n: b"%d" % n for n in (*range(1, 91), 95, *range(101, 121))}
    (item,) = examine(workspace, archive)
    assert (item.key, item.missing) == (meta.key, 0)
    assert "another message at sequence 95" in item.reason


@pytest.mark.parametrize("subjects", [(), ("ev.x",)])
def test_what_was_written_down_wrongly_is_adopted_later(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command, subjects: tuple[str, ...]
) -> None:
    """The object came after its absence was written down: it was put back, or its put was late."""
    publish(wire, 1, 200)
    archive = archive_of(workspace, bucket, *subjects)
    store = workspace.bucket(bucket)
    read(workspace, plan(workspace, archive, wire))
    objects = {key: bytes(store.get(key)) for key, _ in list(store.list())}
    for key in objects:
        if key.endswith(".parquet"):
            store.delete(key)
    wire.api("STREAM.PURGE.EV", seq=51)
    wire.api("STREAM.PURGE.EV", filter="ev.x", seq=101)
    publish(wire, 201, 210)
    capture(workspace, archive, wire)
    assert 2 not in stored(workspace, archive)
    for key, data in objects.items():
        if key.endswith(".parquet"):
            store.create(key, data)
    verified = nats3.ok("chunk", "verify", "events", "-o", "json")
    mine = [n for n in range(1, 211) if not subjects or n % 2 == 0]
    lacking = len(mine) - len(stored(workspace, archive))
    assert verified.json["unlisted"]["missing"] == lacking > 0
    assert "nats3 chunk adopt events" in verified.err
    adopted = nats3.ok("chunk", "adopt", "events", "-o", "json")
    assert (adopted.json["adopted"], adopted.json["missing"]) == (lacking, 0)
    assert stored(workspace, archive) == {n: b"%d" % n for n in mine}
    assert nats3.ok("chunk", "verify", "events", "-o", "json").json["unlisted"]["missing"] == 0


def three_chunks(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of sequences 1 to 100, to 200, and to 300."""
    publish(wire, 1, 100)
    archive = archive_of(workspace, bucket)
    capture(workspace, archive, wire)
    for first in (101, 201):
        publish(wire, first, first + 99)
        capture(workspace, archive, wire)
    return archive


@pytest.mark.parametrize("subjects", [(), ("ev.x",)])
@pytest.mark.parametrize("removed", ["one by one", "the head", "nothing"])
def test_what_a_deleted_archive_kept_is_adopted_when_it_is_asked_for(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command, subjects: tuple[str, ...], removed: str
) -> None:
    """Its successor begins with what the stream has. What was retired before stays out."""
    former = three_chunks(workspace, wire, bucket)
    retired = next(c for c in workspace.catalog.chunks.select(former) if c.meta.covers.first == 101)
    workspace.catalog.chunks.retire(former, [retired.id])
    delete(workspace, "events")
    gone = {"one by one": {2, 3, 150, 300}, "the head": set(range(1, 251)), "nothing": set[int]()}[removed]
    if removed == "the head":
        wire.api("STREAM.PURGE.EV", seq=251)
    for seq in gone if removed == "one by one" else ():
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    archive = archive_of(workspace, bucket, *subjects)
    publish(wire, 301, 320)
    capture(workspace, archive, wire)
    mine = {n for n in range(1, 321) if not subjects or n % 2 == 0}
    assert stored(workspace, archive).keys() == mine - gone
    kept = gone - set(range(101, 201))
    verified = nats3.ok("chunk", "verify", "events", "-o", "json")
    assert verified.json["unlisted"]["missing"] == len(mine & kept)
    assert ("nats3 chunk adopt events" in verified.err) == bool(kept)
    adopted = nats3.ok("chunk", "adopt", "events", "-o", "json")
    assert (adopted.json["adopted"], adopted.json["missing"]) == (len(mine & kept), 0)
    assert stored(workspace, archive) == {n: b"%d" % n for n in mine - (gone - kept)}
    assert gaps(workspace, archive) == ({"missing": 100} if removed == "the head" else {})
    assert nats3.ok("chunk", "adopt", "events", "-o", "json").json["adopted"] == 0
    delete(workspace, "events", purge=True)
    assert list(workspace.bucket(bucket).list()) == []


def test_adoption_lists_the_bucket_once_and_reads_an_object_once(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_chunks(workspace, wire, bucket)
    delete(workspace, "events")
    wire.api("STREAM.PURGE.EV")
    archive = archive_of(workspace, bucket)
    publish(wire, 301, 310)
    capture(workspace, archive, wire)
    calls: Counter[str] = Counter()
    for kind, name in ((Bucket, "list"), (ChunkReader, "verify")):
        real = getattr(kind, name)

        def counted(*arguments: Any, real: Any = real, name: str = name) -> Any:
            calls[name] += 1
            return real(*arguments)

        monkeypatch.setattr(kind, name, counted)
    assert nats3.ok("chunk", "adopt", "events", "-o", "json").json["adopted"] == 300
    # And once the records of erasures, which are none.
    assert calls == {"list": 2, "verify": 3}
