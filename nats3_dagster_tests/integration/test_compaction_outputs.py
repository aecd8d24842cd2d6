"""A compaction beside what is made of an archive: its table, its exports, and a catalog that is made again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.recovery.rebuild import rebuild
from nats3_dagster.archive.status import contents
from nats3_dagster.archive.stored import folder
from nats3_dagster.catalog import migrate
from nats3_dagster.exports import declare
from nats3_dagster.exports.hour_export import export_hour
from nats3_dagster.exports.hours import attempt, select_hours, state_of
from nats3_dagster.exports.status import find
from nats3_dagster.model import Archive, ExportSpec
from nats3_dagster.settings import Settings
from nats3_dagster.tables import tables
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.exports import perform
from nats3_dagster_tests.support.small_chunks import (
    HOUR,
    bounds,
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
from nats3_dagster_tests.support.tables import numbers, seqs, synced


@pytest.fixture
def logs(workspace: Workspace, bucket: str) -> Archive:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    return archive


def test_a_table_has_each_row_once_before_and_after(workspace: Workspace, logs: Archive) -> None:
    small(workspace, logs)
    tables.create(workspace, "logs")
    synced(workspace)
    assert seqs(workspace) == numbers((1, 30))
    compact(workspace, logs)
    # Until the next sync it lists the old objects, which are there.
    assert seqs(workspace) == numbers((1, 30))
    done = synced(workspace)
    assert (done.added, done.removed, done.commits) == (1, 6, 1)
    assert seqs(workspace) == numbers((1, 30))
    swept(workspace)
    assert seqs(workspace) == numbers((1, 30))
    assert synced(workspace, full=True).commits == 0


def test_an_export_of_the_hour_is_not_made_again(workspace: Workspace, logs: Archive, tmp_path: Path) -> None:
    small(workspace, logs)
    declare.create(workspace, "logs", ExportSpec("files", f"file://{tmp_path}/out"))
    made = run_export(workspace)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert (made.messages, len(before) > 1) == (30, True)
    compact(workspace, logs)
    assert due(workspace) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    # A message more makes it due.
    store(workspace, logs, 7, messages(31, 31))
    seal(workspace, logs)
    assert due(workspace) == [HOUR]
    assert run_export(workspace).messages == 31


def run_export(workspace: Workspace) -> Any:
    archive, made = find(workspace, "logs", "files")
    return attempt(workspace, archive, made, HOUR, lambda: export_hour(workspace, archive, made.spec, HOUR, perform))


def due(workspace: Workspace) -> list[str]:
    return [one.hour for one in select_hours(workspace, "logs", "files")[2]]


def test_an_export_that_reads_the_old_chunks_is_not_made_again(
    workspace: Workspace, logs: Archive, tmp_path: Path
) -> None:
    """The hour is compacted after the export has read it, and before the catalog has the export."""
    small(workspace, logs)
    declare.create(workspace, "logs", ExportSpec("files", f"file://{tmp_path}/out"))
    archive, made = find(workspace, "logs", "files")

    def export() -> Any:
        result = export_hour(workspace, archive, made.spec, HOUR, perform)
        compact(workspace, logs)
        return result

    assert attempt(workspace, archive, made, HOUR, export).messages == 30
    # Due once more, and nothing of it is another.
    for _ in due(workspace):
        assert run_export(workspace).written == 0
    assert due(workspace) == []


def test_messages_of_a_compacted_hour_that_a_replay_deleted_stay_in_its_export(
    workspace: Workspace, logs: Archive, tmp_path: Path
) -> None:
    """The export was made before the hour was compacted: it holds them."""
    small(workspace, logs)
    declare.create(workspace, "logs", ExportSpec("files", f"file://{tmp_path}/out"))
    run_export(workspace)
    compact(workspace, logs)
    workspace.catalog.chunks.retire(logs, [live(workspace, logs)[0].id], replay_id="0123456789abcdef")
    assert due(workspace) == []
    _, (hour,) = state_of(workspace, "logs", "files")
    assert hour.state == "done"


@pytest.fixture
def other(workspace: Workspace, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """An empty catalog beside the same store."""
    migrate(empty_postgres_url)
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
        settings = Settings.load()
    with Workspace(settings) as opened:
        yield opened


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("is_swept", [True, False])
def test_a_catalog_is_made_again_from_the_bucket(
    workspace: Workspace, logs: Archive, other: Workspace, bucket: str, *, sealed: bool, is_swept: bool
) -> None:
    """Before the new manifest is there the highest one lists the old objects, and no sweep takes them."""
    small(workspace, logs)
    before, version = rows(workspace, logs).to_pylist(), contents(workspace, logs, [HOUR])
    if sealed:
        compact(workspace, logs)
    else:
        fault_points.arm("compact.swapped:raise")
        with pytest.raises(fault_points.InjectedFault):
            compact(workspace, logs)
        fault_points.arm("")
    if is_swept:
        assert swept(workspace) == (7 if sealed else 0)
    (found,) = rebuild(other, bucket, "of/logs")
    assert (found.error, found.messages, found.missing) == (None, 30, {})
    again = other.catalog.archives.get("logs")
    assert bounds(other, again) == ([(1, 30)] if sealed else [(n, n + 4) for n in range(1, 31, 5)])
    assert rows(other, again).to_pylist() == before
    assert contents(other, again, [HOUR]) == version
    if sealed:
        check_whole(other, again)
    else:
        seal(other, again)
        compact(other, again)
        assert rows(other, again).to_pylist() == before
