"""The folder of an archive in its bucket has one owner: two catalogs, a store that is not mounted, an older copy."""

import hashlib
import json
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from nats3_dagster.archive.health import store_health
from nats3_dagster.archive.lifecycle import jobs, remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.stored import folder, removal
from nats3_dagster.catalog import migrate
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.errors import Conflict, Nats3Error, ObjectMissing, StoreError
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, ArchiveSpec, StreamState
from nats3_dagster.pipeline import capture_run
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import capture
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.servers.s3_proxy import Handler, S3Proxy, refuse
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.s3

OWNER = "archive=events/_owner.json"


def spec(bucket: str) -> ArchiveSpec:
    return ArchiveSpec("events", "EV", bucket)


def publish(wire: Wire, count: int, *, new: bool = True) -> None:
    if new:
        wire.create_stream("EV", "ev.>")
    wire.publish([("ev.x", b"", b"%d" % n) for n in range(count)])


@pytest.fixture
def other(workspace: Workspace, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Another catalog beside the same NATS and store."""
    migrate(empty_postgres_url)
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
        settings = Settings.load()
    with Workspace(settings) as opened:
        yield opened


def objects(workspace: Workspace, bucket: str) -> list[str]:
    return [key for key, _ in workspace.bucket(bucket).list() if key.endswith(".parquet")]


def test_another_catalog_is_refused_and_removes_nothing(
    workspace: Workspace, other: Workspace, wire: Wire, bucket: str
) -> None:
    publish(wire, 10)
    archive = create(workspace, spec(bucket))
    capture(workspace, archive, wire)
    mine = objects(workspace, bucket)
    with pytest.raises(Conflict, match="belongs to an archive of another catalog"):
        create(other, spec(bucket))
    assert other.catalog.archives.all() == ()
    taken = create(other, spec(bucket), take_over=True)
    capture(other, taken, wire)  # the same bytes under the same keys
    assert objects(other, bucket) == mine
    # The first one notices, captures nothing more into it, and removes nothing of it.
    with pytest.raises(StoreError, match="another owner"):
        folder.require(workspace, archive)
    with pytest.raises(StoreError, match="another catalog"):
        remove.delete(workspace, "events", purge=True)
    assert workspace.catalog.archives.all() == (archive,)
    assert objects(workspace, bucket) == mine
    assert [(f.status, "another owner" in f.what) for f in store_health.check_folders(workspace)] == [("fail", True)]


def test_a_copy_of_a_catalog_is_not_told_from_the_original(
    workspace: Workspace, wire: Wire, bucket: str, postgres_url: str, postgres_session: Postgres
) -> None:
    """It has the ids of the original: both own the folder, and both write."""
    publish(wire, 10)
    archive = create(workspace, spec(bucket))
    capture(workspace, archive, wire)
    workspace.close()  # a database in use is no template
    name = conninfo_to_dict(postgres_url)["dbname"]
    with psycopg.connect(postgres_session.url(), autocommit=True) as connection:
        connection.execute(f"create database {name}_copy template {name}".encode())
    try:
        with Workspace(
            workspace.settings.model_copy(update={"postgres_url": SecretStr(postgres_session.url(f"{name}_copy"))})
        ) as copied:
            (same,) = copied.catalog.archives.all()
            assert same.job_id == archive.job_id
            assert folder.inspect(copied, same)
            wire.publish([("ev.x", b"", b"later")])
            capture(copied, same, wire)
            assert len(objects(copied, bucket)) == 2
    finally:
        with psycopg.connect(postgres_session.url(), autocommit=True) as connection:
            connection.execute(f"drop database {name}_copy with (force)".encode())
    with Workspace(workspace.settings) as opened:
        assert folder.inspect(opened, archive)


def test_two_catalogs_that_create_at_once(workspace: Workspace, other: Workspace, wire: Wire, bucket: str) -> None:
    """Both saw the folder free; the second is told when it claims it."""
    publish(wire, 10)
    create(workspace, spec(bucket))
    late = other.catalog.archives.create(spec(bucket), stream_of(other))
    with pytest.raises(Conflict, match="another catalog"):
        folder.claim(other, late)


@pytest.mark.parametrize("order", ["after", "between", "before"])
def test_a_store_that_ignores_conditions_has_one_owner_of_a_folder(
    workspace: Workspace,
    other: Workspace,
    wire: Wire,
    bucket: str,
    s3_server: S3Server,
    s3_client: Any,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
) -> None:
    """The first catalog claims the folder after the second one's PUT, between its look and its PUT, or before it."""
    publish(wire, 1)
    archive, late = (w.catalog.archives.create(spec(bucket), stream_of(w)) for w in (workspace, other))

    def put(handler: Handler) -> None:
        if order == "between":
            folder.claim(workspace, archive)
        s3_client.delete_object(Bucket=bucket, Key=OWNER)  # so that the condition holds
        answer = handler.forward()
        if order == "after":
            s3_client.delete_object(Bucket=bucket, Key=OWNER)
            folder.claim(workspace, archive)
        handler.reply(*answer)

    if order == "before":
        folder.claim(workspace, archive)
    with S3Proxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        monkeypatch.setenv("NATS3_POSTGRES_URL", other.settings.postgres)
        proxy.break_at(put, ("PUT",), times=1)
        with Workspace(Settings.load()) as proxied:
            if order == "between":
                folder.claim(proxied, late)
            else:
                with pytest.raises(Conflict, match="another catalog"):
                    folder.claim(proxied, late)
    owner, refused = (
        ((other, late), (workspace, archive)) if order == "between" else ((workspace, archive), (other, late))
    )
    folder.require(*owner)
    with pytest.raises(Nats3Error, match="another"):
        folder.require(*refused)


def stream_of(workspace: Workspace) -> StreamState:
    return stream_state(workspace.link, "EV")


def test_a_store_without_the_owner_takes_nothing(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command, spark: Any, settings: Settings
) -> None:
    publish(wire, 10)
    archive = create(workspace, spec(bucket))
    hour = hours_of(wire, "EV")[-1]
    capture_run.run_capture(spark, settings, "events", hour)
    store = workspace.bucket(bucket)
    kept = bytes(store.get(OWNER))
    assert json.loads(kept)["id"] == str(archive.job_id)
    store.delete(OWNER)  # as in the folder below a mount point, or a copy from before
    publish(wire, 5, new=False)
    before = list(store.list())
    with pytest.raises(StoreError, match="its owner object is missing"):
        capture_run.run_capture(spark, settings, "events", hour)
    assert list(store.list()) == before
    doctor = nats3("doctor", "-o", "json")
    assert "owner object is missing" in doctor.out
    nats3.ok("store", "claim", "events", "--yes")
    assert bytes(store.get(OWNER)) == kept
    assert capture_run.run_capture(spark, settings, "events", hour).messages == 5


def test_an_archive_that_is_made_again_owns_its_folder(workspace: Workspace, wire: Wire, bucket: str) -> None:
    publish(wire, 10)
    first = create(workspace, spec(bucket))
    capture(workspace, first, wire)
    remove.delete(workspace, "events")
    second = create(workspace, spec(bucket))
    assert json.loads(bytes(workspace.bucket(bucket).get(OWNER)))["id"] == str(second.job_id) != str(first.job_id)
    folder.require(workspace, second)
    remove.delete(workspace, "events", purge=True)
    assert list(workspace.bucket(bucket).list()) == []


def test_an_archive_whose_creation_ended_before_its_claim(workspace: Workspace, wire: Wire, bucket: str) -> None:
    publish(wire, 10)
    for _ in range(2):  # also where a deleted one of its name owns the folder
        archive = workspace.catalog.archives.create(spec(bucket), stream_of(workspace))
        folder.require(workspace, archive)
        assert json.loads(bytes(workspace.bucket(bucket).get(OWNER)))["id"] == str(archive.job_id)
        workspace.catalog.archives.delete("events")
    # Its folder is not released: it claims it itself.
    workspace.catalog.archives.create(spec(bucket), stream_of(workspace))
    assert removal.remove_dead(workspace, "events") == 0
    # With the settings of the one that owned it last.
    owner, settings = sorted(key for key, _ in workspace.bucket(bucket).list())
    assert owner == OWNER
    assert "/_settings-" in settings


@pytest.mark.parametrize("refusal", [(409, "Odd"), (403, "AccessDenied")])
def test_an_archive_is_not_there_where_its_owner_object_cannot_be_written(
    workspace: Workspace,
    wire: Wire,
    bucket: str,
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    refusal: tuple[int, str],
) -> None:
    """A second `store create` said that there is one already. Nothing says that an object was lost that never was."""
    publish(wire, 10)
    with S3Proxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        with Workspace(Settings.load()) as refused:
            proxy.break_at(refuse(*refusal), ("PUT",))
            with pytest.raises(StoreError) as caught:
                create(refused, spec(bucket))
            assert not isinstance(caught.value, ObjectMissing)
            assert "repair" not in str(caught.value)
            assert workspace.catalog.archives.all() == ()
            proxy.repair()
            archive = create(refused, spec(bucket))
            # What passes is not even seen, in a capture and a seal.
            proxy.break_at(refuse(409, "ConditionalRequestConflict"), ("PUT",), times=2)
            capture(refused, archive, wire)
            assert len(objects(workspace, bucket)) == 1


def test_no_archive_is_created_while_its_folder_is_released(
    workspace: Workspace, wire: Wire, bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would claim the folder between the last look and the DELETE, which then removed its owner object."""
    publish(wire, 1)
    create(workspace, spec(bucket))
    remove.delete(workspace, "events")
    refused: list[str] = []

    def at_the_delete(handler: Handler) -> None:
        if handler.path.endswith("_owner.json"):
            with pytest.raises(Conflict, match="creating or purging archive events") as error:
                create(workspace, spec(bucket))
            refused.append(str(error.value))
        handler.reply(*handler.forward())

    with S3Proxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        monkeypatch.setattr("nats3_dagster.archive.lifecycle.create.PATIENCE_S", 0.0)
        proxy.break_at(at_the_delete, ("DELETE",))
        with Workspace(Settings.load()) as proxied:
            removal.remove_dead(proxied, "events")
    assert len(refused) == 1
    assert [*workspace.bucket(bucket).list()] == []
    archive = create(workspace, spec(bucket))
    assert folder.inspect(workspace, archive)


@pytest.mark.parametrize(("step", "deleted"), [("delete.claimed", 0), ("delete.deleted", 2)])
def test_a_take_over_during_a_removal_loses_one_batch_at_most(
    workspace: Workspace,
    other: Workspace,
    wire: Wire,
    bucket: str,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    deleted: int,
) -> None:
    publish(wire, 10)
    archive = create(workspace, spec(bucket))
    keys = [f"archive=events/{n}.parquet" for n in range(5)]
    for key in keys:
        workspace.bucket(bucket).create(key, b"of a retired chunk")
    monkeypatch.setattr(removal, "BATCH", 2)

    def take_over(name: str) -> None:
        if name == step and other.catalog.archives.find("events") is None:
            create(other, spec(bucket), take_over=True)

    monkeypatch.setattr(removal, "fault_point", take_over)
    with pytest.raises(StoreError, match="belongs to an archive of another catalog"):
        removal.remove_objects(workspace, bucket, keys)
    assert objects(workspace, bucket) == keys[deleted:]
    # The rest is claimed by no process: once the folder is had back, a capture may put it again.
    folder.claim(workspace, archive, take_over=True)
    with psycopg.connect(postgres_url) as connection:
        ((left,),) = connection.execute("select count(*) from nats3.removal where removed_at is null").fetchall()
    assert left == 0
    assert removal.remove_objects(workspace, bucket, keys) == 5
    assert objects(workspace, bucket) == []


def test_an_owner_that_cannot_be_read_is_an_error(workspace: Workspace, wire: Wire, bucket: str) -> None:
    publish(wire, 10)
    archive = create(workspace, spec(bucket))
    for bad in (b"", b"{}", b"[]", b'{"format": 2}', b"\xff"):
        workspace.bucket(bucket).put_again(OWNER, bad, hashlib.sha256(bad).hexdigest())
        with pytest.raises(StoreError, match="does not name the owner"):
            folder.require(workspace, archive)


def retire_all(workspace: Workspace, archive: Archive) -> None:
    chunks = workspace.catalog.chunks
    chunks.retire(archive, [chunk.id for chunk in chunks.select(archive)])


def test_objects_of_an_archive_purged_and_made_again_are_swept(
    workspace: Workspace, wire: Wire, bucket: str, postgres_url: str
) -> None:
    publish(wire, 10)
    capture(workspace, create(workspace, spec(bucket)), wire)
    keys = objects(workspace, bucket)
    remove.delete(workspace, "events", purge=True)
    again = create(workspace, spec(bucket))
    capture(workspace, again, wire)
    assert objects(workspace, bucket) == keys
    retire_all(workspace, again)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("alter table nats3.chunk disable trigger user")
        connection.execute("update nats3.chunk set deleted_at = deleted_at - interval '2 days'")
        connection.execute("update nats3.removal set removed_at = removed_at - interval '2 days' + interval '1 ms'")
        connection.execute("update nats3.archive set deleted_at = deleted_at - interval '2 days'")
        connection.execute("alter table nats3.chunk enable trigger user")
    assert removal.sweep(workspace).objects == len(keys)
    assert objects(workspace, bucket) == []


def test_what_an_archive_kept_at_its_end_is_not_swept(
    workspace: Workspace, wire: Wire, bucket: str, postgres_url: str
) -> None:
    """Deleted without its objects, and made again: the later one has the same keys, and retires them."""
    publish(wire, 10)
    capture(workspace, create(workspace, spec(bucket)), wire)
    jobs.delete(workspace, workspace.catalog.archives.get("events").job_id)
    again = create(workspace, spec(bucket))
    capture(workspace, again, wire)
    retire_all(workspace, again)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("alter table nats3.chunk disable trigger user")
        connection.execute("update nats3.chunk set deleted_at = deleted_at - interval '2 days'")
        connection.execute("update nats3.archive set deleted_at = deleted_at - interval '2 days'")
    assert removal.sweep(workspace).objects == 0
