"""Iceberg tables by the API: what one is like, and what a deleted archive leaves of its own."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.dev.process import free_port
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.tables import down, logs, numbers, put, rows, seqs, synced, tabled


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive of two chunks with a table that has both."""
    return tabled(workspace, bucket)


@pytest.mark.parametrize("prefix", ["", "/api/v1"])
def test_a_table_is_what_the_command_says(
    client: TestClient, nats3: Command, workspace: Workspace, archive: Archive, prefix: str
) -> None:
    put(workspace, archive, rows(21, 30))
    said = nats3.ok("table", "get", "logs", "-o", "json").json  # asks the Iceberg catalog, and keeps the answer
    answer = client.get(f"{prefix}/archive/logs/table")
    assert answer.status_code == 200, answer.text
    assert answer.json() == said
    assert (answer.json()["chunks"], answer.json()["lacking"]) == (2, 1)


def test_what_has_no_table(client: TestClient, workspace: Workspace, bucket: str) -> None:
    logs(workspace, bucket)
    for name, error in (("logs", "Archive logs has no table"), ("logz", "There is no archive logz")):
        answer = client.get(f"/archive/{name}/table")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        assert answer.json()["error"].startswith(error)
    assert client.get("/archive/logs/table", params={"full": 1}).status_code == 422


@pytest.mark.parametrize("purge", [False, True])
def test_a_deleted_job_leaves_a_table_without_files(
    client: TestClient, workspace: Workspace, archive: Archive, purge: bool
) -> None:
    params: dict[str, Any] = {"job_id": str(archive.job_id), "purge": purge}
    assert client.delete("/store/job", params=params).json()["chunks"] == 2
    assert seqs(workspace) == []
    left = client.get("/archive/logs/table").json()
    assert (left["archive_deleted"], left["chunks"], left["surplus"], left["error"]) == (True, 0, 0, None)


def test_an_iceberg_catalog_that_is_down_does_not_keep_a_job_from_being_deleted(
    client: TestClient, workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        down(patched, "nats3", free_port())
        assert client.delete("/store/job", params={"job_id": str(archive.job_id)}).status_code == 200
        left = client.get("/archive/logs/table").json()
        assert (left["surplus"], "The Iceberg catalog nats3, or its store" in left["error"]) == (2, True)
    assert seqs(workspace) == numbers((1, 20))
    synced(workspace)
    assert seqs(workspace) == []
