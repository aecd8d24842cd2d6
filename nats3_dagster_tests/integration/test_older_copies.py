"""Postgres, NATS or the bucket put back to an earlier state: what docs/operate.md says of it, sentence by sentence,
where no other file has it. test_adoption, test_restored, test_seal, test_repair and test_folder have the rest."""

from collections import Counter
from typing import Any

import pytest

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.archive.stored import folder
from nats3_dagster.chunks import ChunkReader
from nats3_dagster.chunks.manifest import Manifest, ManifestChunk, ManifestPart
from nats3_dagster.errors import ObjectMissing, StoreError
from nats3_dagster.model import Archive, ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.objects import Bucket
from nats3_dagster.objects.drivers.folder_driver import FolderDriver
from nats3_dagster.objects.drivers.s3_driver import S3Driver
from nats3_dagster.replay.begin import begin
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.adoption import archive_of, gaps, other_history, publish, stored
from nats3_dagster_tests.support.captures import capture, plan, read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire


def captured(settings: Settings, wire: Wire, bucket: str) -> None:
    """An archive of 100 messages in one chunk, in a catalog that no connection is left to."""
    publish(wire, 1, 100)
    with Workspace(settings) as workspace:
        capture(workspace, archive_of(workspace, bucket), wire)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts requests of buckets, and objects that are read to their last message."""
    counts: Counter[str] = Counter()
    puts = ((FolderDriver, "put"), (S3Driver, "put"))
    for kind, name in ((Bucket, "list"), (Bucket, "get"), *puts, (ChunkReader, "verify")):
        real = getattr(kind, name)

        def counted(*arguments: Any, real: Any = real, name: str = name, **more: Any) -> Any:
            counts[name] += 1
            return real(*arguments, **more)

        monkeypatch.setattr(kind, name, counted)
    return counts


def test_of_an_older_catalog_the_stream_is_read_again_and_no_object_twice(
    settings: Settings, wire: Wire, bucket: str, put_back: Any, calls: Counter[str]
) -> None:
    captured(settings, wire, bucket)
    restored = put_back()
    publish(wire, 101, 150)
    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.get("events")
        assert capture(workspace, archive, wire).messages == 50
        (first, second) = workspace.catalog.chunks.select(archive)
        workspace.catalog.chunks.retire(archive, [first.id])
    workspace, before = restored(), dict(calls)
    archive = workspace.catalog.archives.get("events")
    assert capture(workspace, archive, wire).messages == 50
    # The same sequences make the same bytes under the same key, which is there.
    assert calls["put"] == before["put"]
    assert calls["list"] == before.get("list", 0)
    again = workspace.catalog.chunks.select(archive)
    assert [chunk.meta.key for chunk in again] == [first.meta.key, second.meta.key]
    # What was retired after the backup is there again.
    assert len(stored(workspace, archive)) == 150


@pytest.mark.parametrize("removed", ["one by one", "all"])
def test_of_an_older_catalog_what_the_stream_has_no_longer_costs_a_listing_and_a_read_of_each_object(
    settings: Settings, wire: Wire, bucket: str, put_back: Any, calls: Counter[str], removed: str
) -> None:
    captured(settings, wire, bucket)
    restored = put_back()
    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.get("events")
        for first in (101, 151):
            publish(wire, first, first + 49)
            capture(workspace, archive, wire)
    if removed == "all":
        wire.api("STREAM.PURGE.EV")
    else:
        for seq in (110, 170):
            wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    publish(wire, 201, 210)
    workspace = restored()
    archive = workspace.catalog.archives.get("events")
    calls.clear()
    capture(workspace, archive, wire)
    # Listed are the hours from that of the chunk before to the next one: clocks differ.
    assert (calls["list"] in (2, 3), calls["verify"]) == (True, 2), calls
    assert stored(workspace, archive) == {n: b"%d" % n for n in range(1, 211)}
    assert gaps(workspace, archive) == {}


def test_where_the_stream_has_no_message_of_an_object_it_is_believed(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """NATS and Postgres are older together, and nothing is left that tells the two histories apart."""
    publish(wire, 1, 100)
    archive = archive_of(workspace, bucket)
    other_history(workspace, archive, plan(workspace, archive, wire), 100)
    wire.api("STREAM.PURGE.EV")
    publish(wire, 101, 110)
    assert capture(workspace, archive, wire).lost == 0
    former = {n: b"former%d" % n for n in range(1, 101)}
    assert stored(workspace, archive) == former | {n: b"%d" % n for n in range(101, 111)}


def test_of_an_older_bucket_what_is_gone_is_named_and_counts_once_it_is_put_back(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command
) -> None:
    publish(wire, 1, 100)
    archive = archive_of(workspace, bucket)
    capture(workspace, archive, wire)
    wire.create_stream("BACK", "back.>")
    (chunk,) = workspace.catalog.chunks.select(archive)
    store, key = workspace.bucket(bucket), chunk.meta.key
    data = bytes(store.get(key))
    store.delete(key)
    verified = nats3("chunk", "verify", "events", "-o", "json")
    assert (verified.status, [bad["key"] for bad in verified.json["bad"]]) == (1, [key])
    spec = ReplaySpec("events", "back.>", Selection(subjects=("ev.>",)))
    with pytest.raises(ObjectMissing, match=key):
        begin(workspace, spec)
    assert wire.state("BACK")["messages"] == 0
    store.create(key, data)
    assert [bad.error for bad in verify_chunks(workspace, chunks_to_verify(workspace, archive))] == [None]
    assert nats3.ok("chunk", "verify", "events", "-o", "json").json["bad"] == []
    assert begin(workspace, spec)[0].id


def test_a_manifest_of_which_nothing_can_be_taken_leads_nowhere_else(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command
) -> None:
    """In an hour without chunks: one that is no manifest, and one whose objects are gone."""
    publish(wire, 1, 10)
    archive = archive_of(workspace, bucket)
    capture(workspace, archive, wire)
    store, hour = workspace.bucket(bucket), "2026-01-01-10:00"
    gone = ManifestChunk("gone.parquet", "0" * 64, 10, 1, 5, 5, 5, 0, 0, None)
    part = ManifestPart(1, 1, 5, (gone,))
    named, key = Manifest("events", "EV", bucket, "", hour, 1, (part,)).encode()
    for data in (b"garbage", named):
        store.create(key, data)
        verified = nats3("chunk", "verify", "events")
        assert (verified.status, "nats3 chunk repair events" in verified.error) == (1, True)
        repaired = nats3("chunk", "repair", "events")
        assert f"delete the object {key}: nothing can be taken from it" in repaired.error
        assert "nats3 chunk" not in repaired.error
        store.delete(key)
        nats3.ok("chunk", "verify", "events")
    assert nats3.ok("chunk", "repair", "events", "-o", "json").json["repaired"] == 0


def test_a_capture_that_is_under_way_during_a_take_over_commits_and_the_next_one_is_refused(
    settings: Settings, wire: Wire, bucket: str, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nats3_dagster.catalog import migrate

    publish(wire, 1, 50)
    migrate(empty_postgres_url)
    with Workspace(settings) as workspace, monkeypatch.context() as patch:
        archive: Archive = archive_of(workspace, bucket)
        planned = plan(workspace, archive, wire)
        outcomes = read(workspace, planned)
        patch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
        with Workspace(Settings.load()) as second:
            other = create(second, ArchiveSpec("events", "EV", bucket), take_over=True)
            assert [result.messages for result in commit.commit(workspace, planned, outcomes)] == [50]
            with pytest.raises(StoreError, match="another owner"):
                folder.require(workspace, archive)
            capture(second, other, wire)
            assert stored(second, other) == stored(workspace, archive)
