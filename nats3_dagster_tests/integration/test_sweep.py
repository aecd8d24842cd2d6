"""The sweep: objects of retired chunks go after their time of grace, once, and nothing else goes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import psycopg
import pytest

from nats3_dagster.archive import status
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import Swept, sweep, sweepable
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.errors import Conflict, StoreError
from nats3_dagster.model import Archive, ChunkMeta
from nats3_dagster.objects import Bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, chunk, spec, state
from nats3_dagster_tests.support.commands import Command, Ran
from nats3_dagster_tests.support.recovery import HOURS, new_archive, put
from nats3_dagster_tests.support.servers.s3_proxy import Fault, Handler, S3Proxy, refuse
from nats3_dagster_tests.support.waiting import eventually

BODY = b"x" * 10


def store(workspace: Workspace, s3_client: Any, archive: Archive, *metas: ChunkMeta) -> None:
    for meta in metas:
        s3_client.put_object(Bucket=meta.bucket, Key=meta.key, Body=BODY)
    workspace.catalog.chunks.commit(archive, metas)


def keys(s3_client: Any, bucket: str) -> set[str]:
    listed = {item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket).get("Contents", [])}
    return {key for key in listed if "/_" not in key}


def age(postgres_url: str, seconds: int = 4000) -> None:
    """Let what was retired or sealed so far be older."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("set session_replication_role = replica")  # rows are immutable to everybody else
        by = f"interval '{seconds} s'"
        connection.execute(f"update nats3.chunk set deleted_at = deleted_at - {by} where deleted_at is not null")  # type: ignore[arg-type]
        connection.execute(f"update nats3.archive set deleted_at = deleted_at - {by} where deleted_at is not null")  # type: ignore[arg-type]
        connection.execute(f"update nats3.seal set sealed_at = sealed_at - {by}, superseded_at = superseded_at - {by}")  # type: ignore[arg-type]


@pytest.fixture
def metas(bucket: str) -> list[ChunkMeta]:
    return [chunk(n, n + 9, bucket=bucket) for n in (1, 11, 21, 31)]


@pytest.fixture
def logs(workspace: Workspace, bucket: str, s3_client: Any, metas: list[ChunkMeta]) -> Archive:
    """An archive with four chunks in the store."""
    archive = workspace.catalog.archives.create(spec(bucket=bucket), state())
    folder.claim(workspace, archive)
    store(workspace, s3_client, archive, *metas)
    return archive


def retire(workspace: Workspace, archive: Archive, *metas: ChunkMeta) -> None:
    wanted = {meta.key for meta in metas}
    ids = [c.id for c in workspace.catalog.chunks.select(archive) if c.meta.key in wanted]
    assert workspace.catalog.chunks.retire(archive, ids) == len(metas)


def test_an_object_goes_once_its_grace_has_passed(
    workspace: Workspace, logs: Archive, metas: list[ChunkMeta], bucket: str, s3_client: Any, postgres_url: str
) -> None:
    retire(workspace, logs, metas[0], metas[1])
    assert sweep(workspace) == sweepable(workspace) == Swept(0, 0)
    held = status.holdings(workspace, "logs")
    assert (held.unswept.objects, held.unswept.bytes) == (2, sum(m.stored_bytes for m in metas[:2]))
    age(postgres_url)
    retire(workspace, logs, metas[2])
    due = Swept(2, held.unswept.bytes)
    assert sweepable(workspace) == due
    assert len(keys(s3_client, bucket)) == 4
    assert sweep(workspace) == due
    assert keys(s3_client, bucket) == {metas[2].key, metas[3].key}
    assert sweep(workspace) == Swept(0, 0)
    assert status.holdings(workspace, "logs").unswept.objects == 1


def test_a_sweep_takes_no_more_than_its_limit(
    workspace: Workspace, logs: Archive, metas: list[ChunkMeta], postgres_url: str
) -> None:
    retire(workspace, logs, *metas[:3])
    age(postgres_url)
    assert [sweep(workspace, 2).objects for _ in range(3)] == [2, 1, 0]


def test_a_deleted_archive_keeps_what_it_had_and_not_what_was_retired_before(
    workspace: Workspace, logs: Archive, metas: list[ChunkMeta], bucket: str, s3_client: Any, postgres_url: str
) -> None:
    retire(workspace, logs, metas[0])
    delete(workspace, "logs")
    age(postgres_url)
    assert sweep(workspace).objects == 1
    assert keys(s3_client, bucket) == {meta.key for meta in metas[1:]}
    assert delete(workspace, "logs", purge=True).objects == 3  # who asks for it gets it at once


def test_a_manifest_goes_once_another_one_counts(
    workspace: Workspace, logs: Archive, metas: list[ChunkMeta], bucket: str, s3_client: Any, postgres_url: str
) -> None:
    assert len(list(seal_hours(workspace, logs, [HOUR]))) == 1
    (first,) = keys(s3_client, bucket) - {meta.key for meta in metas}
    age(postgres_url)
    assert sweep(workspace) == Swept(0, 0)
    store(workspace, s3_client, logs, chunk(41, 50, bucket=bucket))
    assert len(list(seal_hours(workspace, logs, [HOUR]))) == 1
    assert sweep(workspace) == Swept(0, 0)
    age(postgres_url)
    assert sweep(workspace).objects == 1
    assert first not in keys(s3_client, bucket)
    assert len(keys(s3_client, bucket)) == 6


def test_an_object_that_is_live_again_stays(
    workspace: Workspace, logs: Archive, metas: list[ChunkMeta], bucket: str, s3_client: Any, postgres_url: str
) -> None:
    """The archive was made again, and captured the same bytes under the same key."""
    retire(workspace, logs, metas[0], metas[1])
    delete(workspace, "logs", purge=False)
    age(postgres_url)
    again = workspace.catalog.archives.create(spec(bucket=bucket), state())
    begun = workspace.catalog.now()
    store(workspace, s3_client, again, metas[0])
    # A capture has put it and not committed it when the sweep comes: the capture is refused, and not its messages lost.
    s3_client.put_object(Bucket=bucket, Key=metas[1].key, Body=BODY)
    assert sweep(workspace).objects == 1
    assert metas[0].key in keys(s3_client, bucket)
    with pytest.raises(Conflict, match="was removed from the store while this ran"):
        workspace.catalog.chunks.commit(again, [metas[1]], begun=begun)
    store(workspace, s3_client, again, metas[1])
    age(postgres_url)
    assert sweep(workspace) == Swept(0, 0)
    assert {metas[0].key, metas[1].key} < keys(s3_client, bucket)


def test_two_sweeps_at_once_remove_each_object_once(
    workspace: Workspace, logs: Archive, metas: list[ChunkMeta], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    retire(workspace, logs, *metas[:3])
    age(postgres_url)
    both, real = threading.Barrier(2), Bucket.delete
    deleted: list[str] = []
    found = type(workspace.catalog.removals).sweepable

    def together(self: Any, grace_s: int, **more: Any) -> Any:
        objects = found(self, grace_s, **more)
        if more.get("bucket") is None:
            both.wait(20)  # both have found the same objects
        return objects

    def counted(self: Bucket, key: str) -> None:
        deleted.append(key)
        real(self, key)

    monkeypatch.setattr(type(workspace.catalog.removals), "sweepable", together)
    monkeypatch.setattr(Bucket, "delete", counted)
    with ThreadPoolExecutor(2) as pool, Workspace(workspace.settings) as other:
        done = [future.result() for future in [pool.submit(sweep, w) for w in (workspace, other)]]
    assert sorted(one.objects for one in done) == [0, 3]
    assert len(deleted) == 3


def test_a_bucket_that_fails_does_not_stop_the_others(
    workspace: Workspace, logs: Archive, metas: list[ChunkMeta], bucket: str, s3_client: Any, postgres_url: str
) -> None:
    lost = workspace.catalog.archives.create(spec("other", bucket="a-bucket-that-is-gone"), state())
    meta = chunk(1, 10, archive="other", bucket="a-bucket-that-is-gone")
    workspace.catalog.chunks.commit(lost, [meta])
    retire(workspace, lost, meta)
    retire(workspace, logs, metas[0])
    age(postgres_url)
    with pytest.raises(StoreError, match="a-bucket-that-is-gone"):
        sweep(workspace)
    assert metas[0].key not in keys(s3_client, bucket)
    assert sweepable(workspace).objects == 1


def only_uploads(fault: Fault) -> Fault:
    """The fault for a list of uploads; other requests are forwarded."""
    return lambda request: fault(request) if "uploads" in request.path else request.reply(*request.forward())


def test_an_orphan_goes_once_it_is_old_and_the_archive_does_not_need_it(
    workspace: Workspace,
    bucket: str,
    s3_client: Any,
    s3_server: S3Server,
    nats3: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = new_archive(workspace, bucket)
    live = put(workspace, archive, HOURS[0], (1, 10))
    workspace.catalog.chunks.commit(archive, [live, put(workspace, archive, HOURS[0], (21, 30))])
    needless = put(workspace, archive, HOURS[0], (1, 5))
    needed = put(workspace, archive, HOURS[0], (8, 15))
    beside_lost = put(workspace, archive, HOURS[0], (21, 25))
    s3_client.delete_object(Bucket=bucket, Key=workspace.catalog.chunks.select(archive)[1].meta.key)
    manifest = f"archive=logs/date={HOURS[0][:10]}/hour=07/manifest-0009-0123456789ab.json.zst"
    s3_client.put_object(Bucket=bucket, Key=manifest, Body=b"x")
    upload = s3_client.create_multipart_upload(Bucket=bucket, Key="archive=logs/upload")["UploadId"]
    before = {item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]}

    def swept(*words: str) -> dict[str, str | None]:
        orphans = nats3.ok("store", "sweep", *words, "-o", "json").json["orphans"]
        return {one["key"]: one["kept"] for one in orphans or ()}

    def uploads() -> list[str]:
        return [one["UploadId"] for one in s3_client.list_multipart_uploads(Bucket=bucket).get("Uploads", ())]

    assert swept() == {}
    new = swept("--orphans")
    assert new == dict.fromkeys((needless.key, needed.key, beside_lost.key, manifest), "it is new")
    # The store's clock counts in seconds.
    words = ("--orphans", "--older-than", "0s", "--dry-run")
    # It was made last.
    eventually(lambda: swept(*words).get("archive=logs/upload", "") is None, "an upload that is old")
    assert {item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]} == before
    assert uploads() == [upload]
    old = swept("--orphans", "--older-than", "0s")
    assert (old[needless.key], old["archive=logs/upload"]) == (None, None)
    assert old[needed.key] == "the archive misses 5 of its messages"
    assert "is missing or damaged: repair the archive first" in (old[beside_lost.key] or "")
    assert old[manifest] == "it may be the truth of a newer catalog"
    left = {item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]}
    assert left == before - {needless.key}
    assert uploads() == []

    def swept_of(key: str) -> Ran | None:
        ran = nats3.ok("store", "sweep", "--orphans", "--older-than", "0s", "-o", "json")
        return ran if {one["key"]: one["kept"] for one in ran.json["orphans"]}.get(key, "") is None else None

    # A store that does not show its uploads stops nothing, and is named: these credentials may not, or it never does.
    for refusal, named in (
        ((403, "AccessDenied"), "s3:ListBucketMultipartUploads"),
        ((501, "NotImplemented"), "does not know"),
    ):
        needless = put(workspace, archive, HOURS[0], (1, 5 + refusal[0] // 500))
        with S3Proxy(s3_server.endpoint) as proxy:
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
            proxy.break_at(only_uploads(refuse(*refusal)), ("GET",))
            ran = eventually(lambda key=needless.key: swept_of(key), "a needless object that is old")
            assert [(one["archive"], one["part"]) for one in ran.json["unseen"]] == [
                ("logs", "uploads that did not end")
            ]
            assert named in ran.json["unseen"][0]["problem"]
            assert ran.json["unseen"][0]["problem"] in ran.err
            # Another archive is looked at, whatever is wrong with this one.
            proxy.break_at(refuse(403, "AccessDenied"), ("GET",))
            assert nats3("store", "sweep", "--orphans").status == 1
    # A capture that had put it and comes to its commit is refused, and captures again.
    with pytest.raises(Conflict, match="was removed from the store while this ran"):
        workspace.catalog.chunks.commit(archive, [needless], begun=archive.created_at)


def test_an_object_with_messages_is_named_whatever_its_name_is(
    workspace: Workspace, bucket: str, s3_client: Any, nats3: Command
) -> None:
    """Another program put it there. It stays: only its owner knows what it is for."""
    archive = new_archive(workspace, bucket)
    workspace.catalog.chunks.commit(archive, [put(workspace, archive, HOURS[0], (1, 10))])
    more = put(workspace, archive, HOURS[0], (8, 15))
    s3_client.copy_object(Bucket=bucket, Key="archive=logs/mine", CopySource={"Bucket": bucket, "Key": more.key})
    s3_client.delete_object(Bucket=bucket, Key=more.key)
    for name in ("archive=logs/notes.txt", "archive=logs/date=2026-11-21/hour=07/_SUCCESS"):
        s3_client.put_object(Bucket=bucket, Key=name, Body=BODY)
    reason = (
        "8 messages of the sequences 8-15: it has not the name of a chunk. The archive misses 5 of them: copy it to "
        f"{more.key}, and adopt that"
    )
    for words in (("--dry-run",), ()):
        ran = nats3.ok("store", "sweep", "--orphans", "--older-than", "0s", *words, "-o", "json")
        own = [one for one in ran.json["orphans"] if one["key"].endswith("/mine")]
        assert len(own) == len(ran.json["orphans"]) == 1
        assert own[0]["kept"] in (reason, "it is new")  # the store's clock counts in seconds
    verified = nats3.ok("chunk", "verify", "logs", "-o", "json")
    assert f"archive=logs/mine: {reason}" in verified.err
    assert verified.json["unlisted"]["objects"] == 1
    assert nats3.ok("chunk", "adopt", "logs", "-o", "json").json["adopted"] == 0
    # What it advises.
    s3_client.copy_object(Bucket=bucket, Key=more.key, CopySource={"Bucket": bucket, "Key": "archive=logs/mine"})
    s3_client.delete_object(Bucket=bucket, Key="archive=logs/mine")
    assert "misses 5 of" in nats3.ok("chunk", "verify", "logs").err


@contextmanager
def locking(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, locked: str) -> Iterator[Workspace]:
    """A workspace whose store refuses to delete the object of this key."""

    def lock(request: Handler) -> None:
        if unquote(request.path).split("?")[0].endswith(locked):
            request.reply(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
        else:
            request.reply(*request.forward())

    with S3Proxy(str(workspace.settings.store.endpoint)) as proxy:
        proxy.break_at(lock, ("DELETE",), times=1_000)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        with Workspace(Settings.load()) as behind:
            yield behind


def test_objects_that_the_store_does_not_let_go_stay_and_do_not_stop_the_others(
    workspace: Workspace,
    logs: Archive,
    metas: list[ChunkMeta],
    bucket: str,
    s3_client: Any,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a retention policy of the bucket."""
    retire(workspace, logs, *metas[:3])
    age(postgres_url)
    locked = metas[0].key

    with locking(workspace, monkeypatch, locked) as behind:
        for _ in range(2):
            with pytest.raises(StoreError, match="1 objects stay"):
                sweep(behind)
            assert keys(s3_client, bucket) == {locked, metas[3].key}
    assert sweep(workspace).objects == 1


def test_what_the_store_refused_comes_last(
    workspace: Workspace,
    logs: Archive,
    metas: list[ChunkMeta],
    bucket: str,
    s3_client: Any,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sweep of a limited number would else find the same locked objects each time, and remove nothing."""
    retire(workspace, logs, *metas[:3])
    age(postgres_url)
    locked = sorted(meta.key for meta in metas[:3])[0]

    with locking(workspace, monkeypatch, locked) as behind:
        with pytest.raises(StoreError, match="1 objects stay"):
            sweep(behind, limit=1)
        assert [sweep(behind, limit=1).objects for _ in range(2)] == [1, 1]
        with pytest.raises(StoreError, match="1 objects stay"):
            sweep(behind, limit=1)
    assert keys(s3_client, bucket) == {locked, metas[3].key}
    assert sweep(workspace, limit=1).objects == 1
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select count(*) from nats3.refused_removal").fetchall() == [(0,)]
