"""Deleting an archive with its objects: it can be finished when it failed, and fails before it does harm."""

from typing import Any

import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.lifecycle import jobs
from nats3_dagster.archive.lifecycle.remove import Deleted, ToDelete, delete, to_delete
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import folder
from nats3_dagster.errors import OperatorError, StoreError
from nats3_dagster.model import Archive
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, chunk, spec, state


@pytest.fixture
def logs(workspace: Workspace, bucket: str, s3_client: Any) -> Archive:
    """An archive with three chunks and a manifest in the store."""
    archive = workspace.catalog.archives.create(spec(bucket=bucket), state())
    chunks = [chunk(n, n + 9, bucket=bucket) for n in (1, 11, 21)]
    for meta in chunks:
        s3_client.put_object(Bucket=bucket, Key=meta.key, Body=b"x")
    folder.claim(workspace, archive)
    workspace.catalog.chunks.commit(archive, chunks)
    assert len(list(seal_hours(workspace, archive, [HOUR]))) == 1
    return archive


def test_a_purge_that_failed_is_finished_by_the_next(
    workspace: Workspace, logs: Archive, bucket: str, s3_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Bucket.delete, list[str]()

    def denied(self: Bucket, key: str) -> None:
        calls.append(key)
        if len(calls) > 2:
            raise StoreError("The store does not let these credentials delete")
        real(self, key)

    with monkeypatch.context() as patched, pytest.raises(StoreError, match="credentials delete"):
        patched.setattr(Bucket, "delete", denied)
        delete(workspace, "logs", purge=True)
    assert workspace.catalog.archives.find("logs") is None
    assert to_delete(workspace, "logs", purge=True) == ToDelete(None, 4)  # the owner object is one
    assert delete(workspace, "logs", purge=True) == Deleted(0, 3)
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    with pytest.raises(OperatorError, match="There is no archive logs"):
        delete(workspace, "logs", purge=True)
    with pytest.raises(OperatorError, match="There is no archive logs"):
        delete(workspace, "logs")


@pytest.mark.parametrize("by_http", [False, True])
def test_a_purge_that_ended_before_the_owner_object_is_finished_by_the_next(
    workspace: Workspace, logs: Archive, bucket: str, s3_client: Any, by_http: bool
) -> None:
    fault_points.arm("delete.finished:raise")
    with pytest.raises(fault_points.InjectedFault):
        delete(workspace, "logs", purge=True)
    fault_points.arm("")
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 2  # the owner object, and the settings
    assert to_delete(workspace, "logs", purge=True) == ToDelete(None, 1)
    if by_http:
        jobs.delete(workspace, logs.job_id, purge=True)
    else:
        assert delete(workspace, "logs", purge=True) == Deleted(0, 0)
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    with pytest.raises(OperatorError, match="There is no"):
        jobs.delete(workspace, logs.job_id, purge=True)


def test_objects_of_a_deleted_archive_can_be_purged_later(workspace: Workspace, logs: Archive) -> None:
    assert delete(workspace, "logs") == Deleted(3, 0)
    assert delete(workspace, "logs", purge=True) == Deleted(0, 4)


def test_a_store_that_deletes_nothing_leaves_the_archive_there(workspace: Workspace, s3_client: Any) -> None:
    catalog = workspace.catalog
    archive = catalog.archives.create(spec(bucket="no-such-bucket"), state())
    catalog.chunks.commit(archive, [chunk(1, 10)])
    with pytest.raises(StoreError, match="no-such-bucket"):
        delete(workspace, "logs", purge=True)
    assert catalog.archives.get("logs") == archive
    assert len(catalog.chunks.select(archive)) == 1
