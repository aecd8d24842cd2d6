"""Copies: another bucket has each object, hours wait for it with their seal, and removals reach it."""

import hashlib
import re
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dagster import build_sensor_context

from nats3_dagster.archive.health import store_health
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.lifecycle.remove import delete, left, to_delete
from nats3_dagster.archive.metrics_snapshot import archive_measures
from nats3_dagster.archive.proof.manifest_repair import repair_manifests
from nats3_dagster.archive.proof.repair import plan_repair, repair_all
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.archive.read.points import by_sequence
from nats3_dagster.archive.read.references import reference
from nats3_dagster.archive.recovery.rebuild import rebuild
from nats3_dagster.archive.stored import copies, copy_check, folder
from nats3_dagster.catalog.removal.copies import CopyLag
from nats3_dagster.chunks.footer_cache import FooterCache
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.sensors import upkeep_sensors
from nats3_dagster.defs.sensors.upkeep_sensors import copy_sensor
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.errors import ChunkError, ObjectMissing, OperatorError, StoreError
from nats3_dagster.model import Archive, ArchiveSpec, Chunk, Selection
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.objects import Bucket, bucket_exists, create_bucket
from nats3_dagster.query import engine
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.small_chunks import (
    HOUR,
    check_whole,
    compact,
    live,
    messages,
    rows,
    seal,
    small,
    swept,
)
from nats3_dagster_tests.support.stored import made, store
from nats3_dagster_tests.support.wire import Wire


def objects(workspace: Workspace, bucket: str) -> dict[str, bytes]:
    return {key: bytes(workspace.bucket(bucket).get(key)) for key, _ in workspace.bucket(bucket).list()}


def lag(workspace: Workspace, archive: Archive, bucket: str) -> tuple[int, int]:
    """The objects that the copy is missing, and those that it has to lose."""
    found: CopyLag | None = workspace.catalog.copies.lags(archive).get(bucket)
    return (found.objects, found.removals) if found else (0, 0)


def copied_to_what_is_away(workspace: Workspace, other: str) -> Archive:
    """The archive with a copy whose bucket is gone again."""
    archive = change(workspace, "logs", {"copies": (other,)}, create_bucket=True).after
    assert workspace.settings.store.folder
    (workspace.settings.store.folder / other).rmdir()
    return archive


def test_a_copy_has_each_object_before_its_hour_is_sealed(workspace: Workspace, bucket: str) -> None:
    other = f"copy-{uuid.uuid4().hex[:12]}"
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 2)
    assert (lag(workspace, archive, other), workspace.catalog.copies.lags(archive)) == ((0, 0), {})

    # An archive that has chunks gets a copy: what exists is missing there. The bucket is away: captures go on, no
    # hour is sealed, and the error says how many objects wait.
    archive = copied_to_what_is_away(workspace, other)
    assert lag(workspace, archive, other) == (3, 0)
    store(workspace, archive, 7, messages(11, 15))
    with pytest.raises(StoreError, match=f"copy of archive logs in the bucket '{other}' is missing 4 objects"):
        list(seal_hours(workspace, archive, [HOUR]))
    assert not any(one.valid for one in workspace.catalog.seals.select(archive))

    # It is back: the seal copies what is missing of its hour, and puts its manifest into both.
    create_bucket(workspace.settings.store, other)
    seal(workspace, archive)
    assert (lag(workspace, archive, other), [one.valid for one in workspace.catalog.seals.select(archive)]) == (
        (0, 0),
        [True],
    )
    assert objects(workspace, other) == objects(workspace, bucket)

    # Merged chunks are in the copy before the hour is sealed again; what the sweep removes goes from the copy too.
    compact(workspace, archive)
    assert (len(live(workspace, archive)), lag(workspace, archive, other)) == (1, (0, 0))
    assert swept(workspace) == 5  # three chunks and two manifests
    assert lag(workspace, archive, other) == (0, 5)
    (done,) = copies.copy(workspace, archive)
    assert (done.objects, done.removed) == (0, 5)
    assert objects(workspace, other) == objects(workspace, bucket)
    assert lag(workspace, archive, other) == (0, 0)

    # Without the setting nothing is done there.
    archive = change(workspace, "logs", {"copies": ()}).after
    store(workspace, archive, 8, messages(16, 20))
    assert lag(workspace, archive, other) == (0, 0)


def test_the_bucket_of_a_copy_is_there_or_made_at_once(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path, nats3: Command
) -> None:
    """Else nothing is sealed, and nobody who created the archive looks at that hour."""
    wire.create_stream("EV", "ev.>")
    first, second, third = (f"copy-{uuid.uuid4().hex[:12]}" for _ in range(3))
    given = ("--name", "logs", "--stream", "EV", "--bucket", bucket, "--copy", first)
    ran = nats3("store", "create", *given)
    assert (ran.status, ran.err.count(f"bucket of a copy '{first}' does not exist")) == (2, 1), ran
    assert "--create-bucket" in ran.err
    assert (workspace.catalog.archives.all(), bucket_exists(workspace.settings.store, first)) == ((), False)
    assert nats3("store", "create", *given, "--create-bucket").status == 0

    for more in ((), ("--create-bucket",)):
        ran = nats3("store", "set", "logs", "--copy", first, "--copy", second, *more)
        assert ran.status == (0 if more else 2), ran
        assert bucket_exists(workspace.settings.store, second) == bool(more)
        assert len(workspace.catalog.archives.get("logs").spec.copies) == (2 if more else 1)

    declared = f"archives:\n  - {{name: logs, stream: EV, bucket: {bucket}, copies: [{third}]"
    for more in ("", ", create_bucket: true"):
        (tmp_path / "archives.yaml").write_text(f"{declared}{more}}}\n")
        ran = nats3("store", "apply", "-f", str(tmp_path / "archives.yaml"), "--yes")
        assert ran.status == (0 if more else 2), ran
        assert bucket_exists(workspace.settings.store, third) == bool(more)


def test_what_is_missing_is_shown_and_copied_bit_by_bit(
    workspace: Workspace, bucket: str, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"copy-{uuid.uuid4().hex[:12]}"
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 2)
    archive = copied_to_what_is_away(workspace, other)
    assert "copies miss" not in str([one.what for one in store_health.check_folders(workspace)])
    monkeypatch.setattr(store_health, "COPY_LATE_S", -1)
    assert f"its copies miss 3 objects in {other}" in str([one.what for one in store_health.check_folders(workspace)])
    measured = archive_measures(workspace, workspace.catalog.archives.totals()).archives[0]
    assert (measured.copy_missing, [*measured.copy_lag_s]) == ({other: 3}, [other])

    # Ticks of the sensor: the copy is away, then it takes a part of what is missing, then the rest, then nothing.
    def tick() -> str:
        sensor: Any = copy_sensor()
        return str(sensor(build_sensor_context()))

    with pytest.raises(CannotTick, match=other):
        tick()
    create_bucket(workspace.settings.store, other)
    monkeypatch.setattr(upkeep_sensors, "COPIED_BYTES", 1)
    for missing in (2, 1, 0):
        assert f"Copied 1 objects into {other}" in tick()
        assert lag(workspace, archive, other) == (missing, 0)
    assert "Every copy has" in tick()
    assert nats3.ok("store", "copy", "logs", "-o", "json").json == [
        {"archive": "logs", "bucket": other, "objects": 0, "bytes": 0, "removed": 0, "verified": 0, "mended": 0}
    ]
    assert objects(workspace, other).keys() == objects(workspace, bucket).keys()


def test_what_is_not_as_it_was_written_is_not_copied(workspace: Workspace, bucket: str) -> None:
    other = f"copy-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, other)
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    archive = change(workspace, "logs", {"copies": (other,)}).after
    meta = store(workspace, archive, 7, messages(1, 5))
    data = bytes(workspace.bucket(bucket).get(meta.key))
    workspace.bucket(bucket).put_again(meta.key, b"x" * len(data), hashlib.sha256(b"x" * len(data)).hexdigest())
    with pytest.raises(StoreError, match="not as it was written, and was not copied"):
        copies.copy(workspace, archive)
    assert lag(workspace, archive, other) == (1, 0)
    assert meta.key not in objects(workspace, other)


@pytest.mark.parametrize(
    "places", [("x",), ("other/x",), ("taken",), ("b23", "b23"), ("b21", "b22", "b23", "b24", "b25")]
)
def test_a_place_that_cannot_have_a_copy_is_refused(places: tuple[str, ...]) -> None:
    values: dict[str, Any] = {"name": "a", "stream": "S", "bucket": "taken", "copies": places}
    with pytest.raises(OperatorError) as raised:
        ArchiveSpec(**values)
    assert raised.value.field == "copies"


@contextmanager
def broken(workspace: Workspace, bucket: str) -> Iterator[None]:
    """The bucket is away meanwhile: its name leads to one that is not there."""
    whole = workspace.bucket(bucket)
    workspace._buckets[bucket] = Bucket(workspace.settings.store, f"{bucket}-gone")
    yield
    workspace._buckets[bucket] = whole


@pytest.fixture
def copied(workspace: Workspace, bucket: str) -> tuple[Archive, str]:
    """An archive of three chunks in a sealed hour, and its copy, which has them all."""
    other = f"copy-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, other)
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    archive = change(workspace, "logs", {"copies": (other,)}).after
    small(workspace, archive, 3)
    return archive, other


def harm(workspace: Workspace, chunk: Chunk, how: str) -> None:
    """Remove the object, or change a bit of it: of its first page, or of its footer."""
    bucket = workspace.bucket(chunk.meta.bucket)
    data = bytearray(bucket.get(chunk.meta.key))
    if how == "removed":
        bucket.delete(chunk.meta.key)
    else:
        data[len(data) // 8 if how == "page" else -40] ^= 1
        bucket.put_again(chunk.meta.key, bytes(data), hashlib.sha256(data).hexdigest())


def answers(workspace: Workspace, archive: Archive) -> list[Any]:
    """The same messages as each way of reading answers them."""
    with engine.run(workspace, "SELECT seq, data, headers FROM logs ORDER BY seq", Selection()) as result:
        by_query = list(result.rows)
    points = [by_sequence(workspace, archive, seq) for seq in (1, 8, 15)]
    return [rows(workspace, archive).to_pylist(), by_query, points]


@pytest.mark.parametrize("how", ["removed", "page", "footer"])
def test_a_chunk_is_read_and_repaired_from_its_copy(
    workspace: Workspace, copied: tuple[Archive, str], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    archive, other = copied
    before, chunk = answers(workspace, archive), live(workspace, archive)[1]
    with_copies = objects(workspace, archive.spec.bucket)
    harm(workspace, chunk, how)
    for footers in (workspace._footers, FooterCache()):  # known, and not known
        workspace._footers = footers
        caplog.clear()
        assert answers(workspace, archive) == before
        said = [record.getMessage() for record in caplog.records if record.name.endswith("any_bucket")]
        assert said
        assert all(f"Chunk {chunk.id} was read from its copy in the bucket {other}: " in one for one in said)

    # A verification does not pass over it, and a repair needs no stream: there is none.
    bad = [one for one in verify_chunks(workspace, chunks_to_verify(workspace, archive)) if one.error]
    assert [one.chunk.id for one in bad] == [chunk.id]
    (repaired,) = repair_all(workspace, archive, plan_repair(workspace, archive, bad, every=3))
    assert (repaired.chunk.id, repaired.messages, repaired.done) == (chunk.id, 5, True)
    assert objects(workspace, archive.spec.bucket) == with_copies
    check_whole(workspace, archive)


def test_a_bucket_that_is_lost_is_filled_from_its_copy(
    workspace: Workspace, copied: tuple[Archive, str], s3_client: Any
) -> None:
    archive, _ = copied
    before, kept = answers(workspace, archive), objects(workspace, archive.spec.bucket)
    store_of = workspace.settings.store
    for key in kept:
        workspace.bucket(archive.spec.bucket).delete(key)
    s3_client.delete_bucket(Bucket=archive.spec.bucket)
    workspace._footers = FooterCache()
    assert answers(workspace, archive) == before

    create_bucket(store_of, archive.spec.bucket)
    folder.claim(workspace, archive)
    assert [seal.hour for seal in repair_manifests(workspace, archive)] == [HOUR]
    bad = [one for one in verify_chunks(workspace, chunks_to_verify(workspace, archive)) if one.error]
    assert [one.done for one in repair_all(workspace, archive, plan_repair(workspace, archive, bad, every=3))] == [
        True
    ] * 3
    assert objects(workspace, archive.spec.bucket) == kept


def test_where_no_copy_helps_the_object_itself_is_named(workspace: Workspace, copied: tuple[Archive, str]) -> None:
    archive, other = copied
    chunk = live(workspace, archive)[1]
    harm(workspace, chunk, "removed")
    workspace.bucket(other).delete(chunk.meta.key)
    for call in (rows, answers):
        with pytest.raises(ObjectMissing, match=chunk.meta.key):
            call(workspace, archive)


def test_a_copy_is_read_again_and_mended(workspace: Workspace, copied: tuple[Archive, str], nats3: Command) -> None:
    """Where the first bucket has the object as it was written; else the copy stays as it is."""
    archive, other = copied
    chunks, (sealed,) = live(workspace, archive), workspace.catalog.seals.select(archive)
    right, there = objects(workspace, other), workspace.bucket(other)
    assert (check(workspace, archive), objects(workspace, other)) == ((4, 0), right)
    bad = b"x" * 10
    there.put_again(chunks[0].meta.key, bad, hashlib.sha256(bad).hexdigest())
    there.delete(chunks[1].meta.key)
    there.put_again(sealed.key, bad, hashlib.sha256(bad).hexdigest())
    (shown,) = nats3.ok("store", "copy", "logs", "--verify", "-o", "json").json
    assert (shown["bucket"], shown["objects"], shown["verified"], shown["mended"]) == (other, 0, 4, 3)
    assert objects(workspace, other) == right
    assert "MENDED" in nats3.ok("store", "copy", "logs", "--verify").out

    # The first bucket has lost it: nothing is put, and the others are mended all the same.
    harm(workspace, chunks[0], "page")
    there.put_again(chunks[0].meta.key, bad, hashlib.sha256(bad).hexdigest())
    there.delete(chunks[2].meta.key)
    with pytest.raises(ChunkError, match="is not as it was written, nor is it in the copy"):
        check(workspace, archive)
    assert objects(workspace, other) == right | {chunks[0].meta.key: bad}


def test_a_check_of_copies_leaves_what_others_do(workspace: Workspace, copied: tuple[Archive, str]) -> None:
    """What waits to be copied, and what was taken out of the archive after the check had listed it."""
    archive, other = copied
    store(workspace, archive, 9, messages(21, 25))
    assert check(workspace, archive) == (5, 0)
    assert lag(workspace, archive, other) == (1, 0)
    copies.copy(workspace, archive)
    listed = copy_check._objects(workspace, archive)
    first = next(listed)
    workspace.catalog.chunks.retire(archive, [chunk.id for chunk in live(workspace, archive)])
    workspace.bucket(other).delete(first.key)
    assert not copy_check._mend(workspace, archive, other, first)
    assert first.key not in objects(workspace, other)


def check(workspace: Workspace, archive: Archive) -> tuple[int, int]:
    """The objects that were read of the one copy, and those that were mended."""
    (found,) = copy_check.check_copies(workspace, archive)
    return found.objects, found.mended


def test_a_purge_reaches_the_copies(workspace: Workspace, copied: tuple[Archive, str]) -> None:
    """Also where a copy was away first: the next purge does the rest."""
    archive, other = copied
    with broken(workspace, other), pytest.raises(StoreError):
        delete(workspace, "logs", purge=True)
    assert objects(workspace, other)
    assert left(workspace, "logs") > 0
    delete(workspace, "logs", purge=True)
    assert (objects(workspace, archive.spec.bucket), objects(workspace, other)) == ({}, {})
    with pytest.raises(OperatorError, match="no archive"):
        to_delete(workspace, "logs", purge=True)


def test_an_archive_is_made_again_from_its_copy(
    workspace: Workspace, copied: tuple[Archive, str], nats3: Command
) -> None:
    """The first bucket and the catalog are lost. The folder of another copy belongs to the catalog that is gone."""
    archive, other = copied
    before = answers(workspace, archive)
    third = f"copy-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, third)
    archive = change(workspace, "logs", {"copies": (other, third)}).after
    copies.copy(workspace, archive)
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("truncate nats3.archive cascade")
    for key in objects(workspace, archive.spec.bucket):
        workspace.bucket(archive.spec.bucket).delete(key)

    (made_again,) = rebuild(workspace, other, "of/logs")
    assert (made_again.error, made_again.chunks) == (None, 3)
    again = workspace.catalog.archives.get("logs")
    assert (again.spec.bucket, again.spec.copies) == (other, (third,))
    assert answers(workspace, again) == before
    # Another program may have written the name of another bucket.
    assert "are not confirmed yet: nothing is copied" in nats3.refused("store", "copy", "logs")
    nats3.ok("hold", "delete", "logs", REBUILT, "--reason", "looked at", "--yes")
    assert "belongs to an archive of another catalog" in nats3.refused("store", "copy", "logs")
    nats3.ok("store", "claim", "logs", "--yes")
    nats3.ok("store", "copy", "logs")
    seal(workspace, again)
    assert {*objects(workspace, third)} >= {chunk.meta.key for chunk in live(workspace, again)}
    assert lag(workspace, again, third) == (0, 0)


def test_a_copy_is_in_another_store_by_a_profile(
    workspace: Workspace, bucket: str, own_s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nats3: Command
) -> None:
    """The environment has keys and an endpoint of S3, and none of them is for the copy."""
    config = tmp_path / "aws_config"
    config.write_text(
        f"[profile dr]\nregion = {own_s3.region}\nendpoint_url = {own_s3.endpoint}\n"
        f"aws_access_key_id = {own_s3.access_key}\naws_secret_access_key = {own_s3.secret_key}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("NATS3_S3_BUCKET_PROFILES", "far=dr")
    monkeypatch.setenv("NATS3_DELETE_GRACE", "0")
    create_bucket(own_s3.options, "far")
    with Workspace(Settings.load()) as work:
        archive = made(work, bucket, "logs")
        folder.claim(work, archive)
        change(work, "logs", {"copies": ("far",)})
        archive = work.catalog.archives.get("logs")
        small(work, archive)  # sealed, so the copy has all of it
        there = {key for key, _ in Bucket(own_s3.options, "far").list()}
        chunks = live(work, archive)
        assert {chunk.meta.key for chunk in chunks} <= there
        assert not bucket_exists(workspace.settings.store, "far")
        before = rows(work, archive)
        lost, damaged = chunks[1].meta, chunks[3].meta
        work.bucket(bucket).delete(lost.key)
        work.bucket(bucket).put_again(damaged.key, b"x", hashlib.sha256(b"x").hexdigest())
        assert rows(work, archive).equals(before)
        urls = [reference(work, archive, seq, 60) for seq in (1, lost.covers.first)]
        assert [one.bucket for one in urls] == [bucket, "far"]
        with urllib.request.urlopen(urls[1].url) as answer:
            assert hashlib.sha256(answer.read()).hexdigest() == lost.sha256
        nats3.ok("chunk", "repair", "logs")
        # Without a look at the copy.
        assert rows(workspace, archive).equals(before)
        compact(work, archive)
        (new,) = live(work, archive)
        assert Bucket(own_s3.options, "far").exists(new.meta.key)
        swept(work)
        nats3.ok("store", "copy", "logs")
        assert not Bucket(own_s3.options, "far").exists(chunks[0].meta.key)
        said = nats3("doctor", "--bucket", "far").out
        assert f"Bucket far is in {own_s3.options.place}: profile dr" in said
        assert f"Bucket far of {own_s3.options.place}: writes, reads, lists and deletes" in said


def test_a_bucket_without_a_profile_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {
        "far": "Write BUCKET=PROFILE",
        "far=": "Write BUCKET=PROFILE",
        "a=x,a=y": "each bucket once",
        "far=nowhere": "There is no AWS profile nowhere",
    }
    for value, says in words.items():
        monkeypatch.setenv("NATS3_S3_BUCKET_PROFILES", value)
        with pytest.raises(OperatorError, match=re.escape(says)):
            assert Settings.load().store
