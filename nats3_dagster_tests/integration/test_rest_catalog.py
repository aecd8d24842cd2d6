"""A table in a REST catalog: created, synced, verified and dropped through HTTP."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nats3_dagster.errors import TableError
from nats3_dagster.model import Archive
from nats3_dagster.tables import tables
from nats3_dagster.tables.follow import follow
from nats3_dagster.tables.tables import verify
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.servers.rest_catalog import RestCatalog
from nats3_dagster_tests.support.tables import live, logs, numbers, put, rows, seqs, synced


@pytest.fixture
def rest(workspace: Workspace, tmp_path: Path) -> Iterator[RestCatalog]:
    store = workspace.settings.store
    found = RestCatalog(
        tmp_path,
        **{
            "s3.endpoint": store.endpoint or "",
            "s3.region": store.region or "",
            "s3.access-key-id": store.access_key_id or "",
            "s3.secret-access-key": store.secret_access_key or "",
        },
    )
    yield found
    found.close()


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive of two chunks of 10 messages."""
    found = logs(workspace, bucket)
    put(workspace, found, rows(1, 10))
    put(workspace, found, rows(11, 20))
    return found


def test_a_table_from_its_creation_to_its_end(
    nats3: Command, workspace: Workspace, archive: Archive, rest: RestCatalog
) -> None:
    with rest.serving():
        made = nats3.ok("table", "create", "logs", "--catalog", rest.uri, "-o", "json").json
        assert (made["catalog"], made["added"], made["commits"]) == (rest.uri, 2, 1)
        workspace.catalog.chunks.retire(archive, [live(workspace, archive)[0].id])
        put(workspace, archive, rows(21, 30))
        assert nats3.ok("table", "sync", "logs", "-o", "json").json["removed"] == 1
        assert nats3.ok("table", "verify", "logs", "-o", "json").json["differences"] == 0
        assert seqs(workspace) == numbers((11, 30))
        assert seqs(workspace, row_filter="hour >= '2026-11-21' and seq > 25") == numbers((26, 30))
        assert nats3.ok("table", "drop", "logs", "--yes", "-o", "json").json["dropped"] is True
        assert nats3.ok("table", "create", "logs", "--catalog", rest.uri, "-o", "json").json["added"] == 2
    assert rest.commits >= 3


def test_two_syncs_at_once_add_each_chunk_once(workspace: Workspace, archive: Archive, rest: RestCatalog) -> None:
    with rest.serving():
        tables.create(workspace, "logs", catalog=rest.uri)
        with ThreadPoolExecutor(3) as threads:
            done = [sync.result() for sync in [threads.submit(synced, workspace) for _ in range(3)]]
        assert sum(one.commits for one in done) == 1
        assert seqs(workspace) == numbers((1, 20))
        assert verify(workspace, tables.find(workspace, "logs")).faults == ()


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_a_catalog_that_refuses(
    workspace: Workspace, archive: Archive, rest: RestCatalog, status: int, nats3: Command
) -> None:
    with rest.serving():
        tables.create(workspace, "logs", catalog=rest.uri)
        rest.refusing = status
        said = nats3.refused("table", "sync", "logs")
        assert said.startswith(f"1 Error: The Iceberg catalog {rest.uri}, or its store, failed: ")
        assert "\n" not in said.strip()
        assert isinstance(follow(workspace)["logs"], TableError)
        rest.refusing = None
        assert follow(workspace) == {}
        assert seqs(workspace) == numbers((1, 20))


def test_a_commit_whose_answer_is_lost_is_known_by_the_next_sync(
    workspace: Workspace, archive: Archive, rest: RestCatalog
) -> None:
    """A gateway that gives up answers 502 to a commit that was made: to make it again would add its files twice."""
    with rest.serving():
        tables.create(workspace, "logs", catalog=rest.uri)
        put(workspace, archive, rows(21, 30))
        commits, rest.losing = rest.commits, 1
        with pytest.raises(TableError, match="CommitStateUnknownException"):
            synced(workspace)
        assert synced(workspace).commits == 0
        assert rest.commits == commits + 1
        assert seqs(workspace) == numbers((1, 30))
        assert verify(workspace, tables.find(workspace, "logs")).faults == ()


def test_a_catalog_that_is_down(nats3: Command, workspace: Workspace, archive: Archive, rest: RestCatalog) -> None:
    with rest.serving():
        tables.create(workspace, "logs", catalog=rest.uri)
    said = nats3.refused("table", "sync", "logs")
    assert said.startswith(f"1 Error: The Iceberg catalog {rest.uri}, or its store, failed: ConnectionError")
    assert workspace.catalog.tables.all()[0].error
    with rest.serving():
        assert follow(workspace) == {}
        assert seqs(workspace) == numbers((1, 20))
