"""Archives in other clouds, from their creation to an erasure, on servers that speak as the clouds do."""

import hashlib
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from dagster import AssetKey
from pydantic import SecretStr

from nats3_dagster.archive.keep import erasure
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.archive.recovery.rebuild import rebuild
from nats3_dagster.archive.stored import copies, folder
from nats3_dagster.archive.stored.presence import holder
from nats3_dagster.catalog import migrate
from nats3_dagster.defs.project.project import load
from nats3_dagster.errors import AccessRefused, StoreError
from nats3_dagster.model import Archive, ArchiveSpec, ReplaySpec, Selection, SeqRange
from nats3_dagster.objects import Outlet, OutletOptions, create_bucket, delete_version, get_version, list_versions
from nats3_dagster.objects.clouds import azure_login, google_login
from nats3_dagster.tables import tables
from nats3_dagster.tables.catalogs import opened
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.servers import clouds
from nats3_dagster_tests.support.small_chunks import check_whole, compact, live, rows, small, swept
from nats3_dagster_tests.support.stored import made
from nats3_dagster_tests.support.tables import numbers, put, seqs, synced, tabled
from nats3_dagster_tests.support.tables import rows as made_rows
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

CLOUDS = ["az", "gs"]


@pytest.fixture(params=CLOUDS)
def there(request: pytest.FixtureRequest, workspace: Workspace) -> str:
    """The name of a new bucket of a cloud."""
    request.getfixturevalue(request.param)
    name = f"{request.param}://test-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, name)
    return name


def test_a_stream_is_archived_there_and_comes_back(
    workspace: Workspace, wire: Wire, there: str, nats3: Command
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([(f"ev.{n % 3}", b"NATS/1.0\r\nA: b\r\n\r\n" if n % 2 else b"", b"%d" % n) for n in range(300)])
    nats3.ok("store", "create", "--name", "a", "--stream", "EV", "--bucket", there, "--prefix", "team/x")
    archived(workspace, wire, "EV", there)
    archive = workspace.catalog.archives.get("a")
    assert [one.error for one in verify_chunks(workspace, chunks_to_verify(workspace, archive)) if one.error] == []
    shown = nats3.ok("store", "get", "a", "-o", "json").json
    assert shown["bucket"] == there
    assert nats3.ok("message", "get", "a", "--seq", "7", "-o", "raw").out == "6"
    done = replayed(workspace, ReplaySpec("a", "back.{{wildcard(1)}}", Selection(subjects=("ev.*",))))
    assert (done.state, done.published) == ("succeeded", 300)
    assert [m.data for m in wire.messages("BACK")] == [b"%d" % n for n in range(300)]
    report = nats3("doctor", "--bucket", there)
    assert "of 8 concurrent create-only PUTs one wins" in report.out, report


def test_a_store_that_creates_an_object_twice_is_refused(
    workspace: Workspace, wire: Wire, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    with clouds.careless_gcs() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        said = nats3.refused(
            "store", "create", "--name", "a", "--stream", "EV", "--bucket", "gs://careless", "--create-bucket"
        )
    assert said.startswith(
        "1 Error: Google Cloud Storage created an object of the bucket 'gs://careless' a second time"
    )
    assert workspace.catalog.archives.all() == ()


def _owned(workspace: Workspace, name: str) -> Archive:
    """An archive of six small chunks in a sealed hour, without a stream."""
    archive = made(workspace, name, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 6)
    return archive


def test_hours_are_sealed_merged_and_swept(workspace: Workspace, there: str) -> None:
    archive = _owned(workspace, there)
    before = rows(workspace, archive)
    compact(workspace, archive)
    assert swept(workspace) > 0
    check_whole(workspace, archive)
    assert rows(workspace, archive).equals(before)
    assert len(live(workspace, archive)) == 1


@pytest.mark.parametrize("first", ["", *CLOUDS])
def test_copies_are_in_other_clouds(
    workspace: Workspace, bucket: str, first: str, request: pytest.FixtureRequest
) -> None:
    for cloud in CLOUDS:
        request.getfixturevalue(cloud)
    names = [bucket, *(f"{cloud}://{bucket}" for cloud in CLOUDS)]
    for name in names[1:]:
        create_bucket(workspace.settings.store, name)
    own = f"{first}://{bucket}" if first else bucket
    archive = _owned(workspace, own)
    others = tuple(name for name in names if name != own)
    archive = change(workspace, "logs", {"copies": others}).after
    copies.copy(workspace, archive)
    listed = [dict(workspace.bucket(name).list()) for name in archive.spec.buckets]
    assert len(listed[0]) > 6
    assert listed[1:] == [listed[0]] * 2
    # One that the first bucket lost is read from a copy.
    chunk = live(workspace, archive)[0]
    workspace.bucket(own).delete(chunk.meta.key)
    assert holder(workspace, chunk).name in others


def keep_version(cloud: str, name: str, key: str, data: bytes) -> None:
    """Let the bucket keep an earlier version of an object: a snapshot in Azure, a generation at Google."""
    if cloud == "az":
        azure_login.service().get_blob_client(name, key).create_snapshot()
        return
    bucket = google_login.client().bucket(name)
    bucket.versioning_enabled = True
    bucket.patch()
    bucket.blob(key).upload_from_string(data)


def test_an_erasure_ends_when_no_version_has_the_messages(workspace: Workspace, there: str) -> None:
    archive = _owned(workspace, there)
    chunk, store = live(workspace, archive)[0], workspace.settings.store
    key, data = chunk.meta.key, bytes(workspace.bucket(there).get(chunk.meta.key))
    cloud, _, name = there.partition("://")
    keep_version(cloud, name, key, data)
    kept = [one for one in list_versions(store, there, "of/logs") if one.key == key]
    assert len(kept) == 2
    assert {get_version(store, there, one.key, one.version_id) for one in kept} == {data}

    life = chunk.meta.incarnation
    done = erasure.erase(workspace, archive, {life: (SeqRange(3, 4),)}, reason="case 18", chosen_by=["sequences"])
    assert (done.problem, done.finished, done.left) == (None, 1, ())
    assert {row["seq"] for row in rows(workspace, archive).to_pylist()} == {*range(1, 31)} - {3, 4}
    assert key not in {one.key for one in list_versions(store, there, "")}
    check_whole(workspace, archive)

    # Another program has kept the object, and puts it into the folder under a name of its own.
    assert erasure.prove(workspace, archive).traces == ()
    mine = f"{key.partition('/date=')[0]}/mine"
    workspace.bucket(there).put_new(mine, data, hashlib.sha256(data).hexdigest())
    assert [trace.key for trace in erasure.prove(workspace, archive).traces] == [mine]


def test_what_soft_delete_keeps_leaves_an_erasure_open(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """gcp-storage-emulator has soft delete, for a week in new buckets as Google's."""
    store, name = workspace.settings.store, "gs://soft"
    with clouds.careless_gcs() as variables:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        create_bucket(store, name)
        archive = _owned(workspace, name)
        meta = live(workspace, archive)[0].meta
        keep_for(7 * 86_400)
        wanted = {meta.incarnation: (SeqRange(3, 4),)}
        done = erasure.erase(workspace, archive, wanted, reason="case 18", chosen_by=["sequences"])
        assert (done.finished, [one.key for one in done.left]) == (0, [meta.key])
        kept = re.fullmatch(r"soft delete of the bucket keeps it until (\S+)", done.left[0].why)
        assert kept
        assert timedelta(days=6.9) < datetime.fromisoformat(kept[1]) - datetime.now(UTC) < timedelta(days=7)
        assert not workspace.bucket(name).exists(meta.key)
        (version,) = [one for one in list_versions(store, name, "of/logs") if one.key == meta.key]
        with pytest.raises(AccessRefused, match="Soft delete of the bucket 'gs://soft' keeps it"):
            delete_version(store, name, version.key, version.version_id)
        assert [one.key for one in erasure.prove(workspace, archive).traces] == [meta.key]

        # What goes now is kept no longer: the first chunk alone leaves both erasures open.
        keep_for(0)
        wanted = {meta.incarnation: (SeqRange(6, 6),)}
        done = erasure.erase(workspace, archive, wanted, reason="case 19", chosen_by=["sequences"])
        assert [one.key for one in done.left] == [meta.key]


def test_an_erasure_ends_when_soft_delete_does(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with clouds.careless_gcs() as variables:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        create_bucket(workspace.settings.store, "gs://soft")
        archive = _owned(workspace, "gs://soft")
        meta = live(workspace, archive)[0].meta
        keep_for(3)
        wanted = {meta.incarnation: (SeqRange(3, 4),)}
        erasure.erase(workspace, archive, wanted, reason="case 18", chosen_by=["sequences"])

        def ended() -> bool:
            erasure.carry_out(workspace, archive)
            return archive.name not in workspace.catalog.erasures.unfinished_archives()

        eventually(ended, "the erasure has ended")
        assert erasure.prove(workspace, archive).traces == ()


def keep_for(seconds: int) -> None:
    """Let the bucket keep what is deleted from now on."""
    bucket = google_login.client().bucket("soft")
    bucket.soft_delete_policy.retention_duration_seconds = seconds
    bucket.patch()


def test_a_catalog_is_made_again_from_there(workspace: Workspace, there: str, empty_postgres_url: str) -> None:
    archive = _owned(workspace, there)
    before = rows(workspace, archive)
    migrate(empty_postgres_url)
    settings = workspace.settings.model_copy(update={"postgres_url": SecretStr(empty_postgres_url)})
    with Workspace(settings) as again:
        list(rebuild(again, there, "of/logs"))
        archive = again.catalog.archives.get("logs")
        assert archive.spec.bucket == there
        assert rows(again, archive).equals(before)


@pytest.mark.slow
def test_spark_captures_and_reads_there(workspace: Workspace, wire: Wire, there: str) -> None:
    """In a session whose workers find the login themselves."""
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(500)])
    create(workspace, ArchiveSpec(name="a", stream="EV", bucket=there))
    command = [sys.executable, "-c", _IN_SPARK, *hours_of(wire, "EV")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[-2:] == ["500", "124750"]


_IN_SPARK = """
import sys
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.pipeline.session import session
from nats3_dagster.pipeline.sources import register
from nats3_dagster.settings import Settings
with session() as spark:
    for hour in sys.argv[1:]:
        run_capture(spark, Settings.load(), "a", hour)
    register(spark)
    read = spark.read.format("nats3").options(archive="a").load()
    print(read.count(), read.selectExpr("sum(cast(cast(data as string) as int))").first()[0])
"""


def test_an_archive_there_is_a_table(workspace: Workspace, there: str) -> None:
    archive = tabled(workspace, there)
    assert seqs(workspace) == numbers((1, 20))
    put(workspace, archive, made_rows(21, 30))
    workspace.catalog.chunks.retire(archive, [live(workspace, archive)[0].id])
    done = synced(workspace)
    assert (done.added, done.removed, done.chunks) == (1, 1, 2)
    assert seqs(workspace) == numbers((11, 30))
    assert tables.verify(workspace, tables.find(workspace, "logs")).faults == ()
    _, _, name = there.partition("://")
    at = {"gs": f"gs://{name}/", "az": f"abfss://{name}@{clouds.ACCOUNT}.dfs.core.windows.net/"}[there[:2]]
    with opened(workspace.settings, "nats3") as catalog:
        found = catalog.load_table("nats3.logs")
        assert found.metadata_location.startswith(at)
        listed = [task.file.file_path for task in found.scan().plan_files()]
    assert sorted(listed) == sorted(f"{at}{chunk.meta.key}" for chunk in live(workspace, archive))
    assert tables.drop(workspace, tables.find(workspace, "logs"))


def test_dagster_shows_its_kind(workspace: Workspace, there: str) -> None:
    _owned(workspace, there)
    node = load().resolve_asset_graph().get(AssetKey(["logs", "chunks"]))
    kind = {"gs": "gcs", "az": "azure"}[there[:2]]
    assert node.tags["dagster/storage_kind"] == kind
    assert kind in node.kinds
    assert "s3" not in node.kinds


def test_files_of_exports_go_there(workspace: Workspace, there: str) -> None:
    scheme, _, name = there.partition("://")
    outlet = Outlet(OutletOptions(scheme, name, "a/b"))
    assert (outlet.get("x"), outlet.size("x"), list(outlet.list("x"))) == (None, None, [])
    assert outlet.create("x/one", b"1")
    assert not outlet.create("x/one", b"2")
    outlet.put("x/k=%2E two", b"22")
    assert sorted(workspace.bucket(there).list()) == [("a/b/x/k=%2E two", 2), ("a/b/x/one", 1)]
    assert (outlet.get("x/one"), outlet.size("x/k=%2E two")) == (b"1", 2)
    assert sorted(outlet.list("x")) == ["x/k=%2E two", "x/one"]
    outlet.put("y", b"before")
    outlet.move("x/one", "y")
    outlet.delete("x/k=%2E two")
    outlet.delete("x/k=%2E two")
    assert [(key, workspace.bucket(there).get(key)) for key, _ in workspace.bucket(there).list()] == [("a/b/y", b"1")]
    with pytest.raises(StoreError, match="is not at the destination any more"):
        outlet.move("x/one", "y")
    with pytest.raises(StoreError, match="bucket '.*://no-such-bucket' does not exist"):
        Outlet(OutletOptions(scheme, "no-such-bucket", "")).put("x", b"1")
