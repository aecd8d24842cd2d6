"""A table that another program changed, or that nats3 wrote with another copy of the catalog: seen, said, mended."""

import pyarrow as pa
import pytest
from prometheus_client.core import Metric

from nats3_dagster.archive.health import catalog_health
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.status import outputs
from nats3_dagster.documents.metrics import output_metrics
from nats3_dagster.errors import TableError, Unknown, WrongState
from nats3_dagster.model import Archive
from nats3_dagster.tables import tables
from nats3_dagster.tables.follow import follow
from nats3_dagster.tables.observe import observe
from nats3_dagster.tables.tables import inspect, verify
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.tables import (
    LATER,
    files,
    iceberg,
    live,
    logs,
    numbers,
    put,
    rows,
    seqs,
    synced,
    tabled,
)


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive of two chunks of 10 messages in one hour and one of 10 in a later one, with a table that has them."""
    found = tabled(workspace, bucket)
    put(workspace, found, rows(21, 30, LATER), hour=LATER)
    synced(workspace)
    return found


def changed(workspace: Workspace) -> str | None:
    """What the kept answer is after the Iceberg catalog was asked."""
    assert [seen.error for seen in observe(workspace, workspace.catalog.tables.all())] == [None]
    return tables.find(workspace, "logs").changed


def metric(workspace: Workspace, name: str) -> float:
    made: list[Metric] = list(output_metrics(outputs(workspace)))
    (sample,) = next(m for m in made if m.name == name).samples
    return sample.value


def test_rows_that_another_program_deleted_are_said_and_come_back_when_it_is_asked_for(
    workspace: Workspace, archive: Archive
) -> None:
    assert changed(workspace) is None
    with iceberg(workspace) as table:
        table.delete(f"hour = '{LATER}'")
    what = changed(workspace)
    assert what is not None
    assert "(overwrite: data files removed 1, rows removed 10)" in what
    known = tables.find(workspace, "logs")
    assert known.is_behind
    assert known.seen_at
    assert metric(workspace, "nats3_table_changed") == 1
    (finding,) = catalog_health.check_outputs(workspace)
    assert finding.status == "warn"
    assert f"Another program changed the table nats3.logs of archive logs: {what}" in finding.what
    with pytest.raises(TableError, match=r"Another program changed the table nats3.logs: snapshot \d+ \(overwrite"):
        synced(workspace)
    assert "It is left as it is" in str(follow(workspace)["logs"])
    assert seqs(workspace) == numbers((1, 20))
    done = synced(workspace, full=True)
    assert (done.added, done.removed, done.undone) == (1, 0, what)
    assert seqs(workspace) == numbers((1, 30))
    assert (tables.find(workspace, "logs").is_behind, changed(workspace)) == (False, None)
    assert metric(workspace, "nats3_table_changed") == 0


def test_a_capture_after_such_a_change_does_not_undo_it(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table:
        table.delete(f"hour = '{LATER}'")
    put(workspace, archive, rows(31, 40, LATER), hour=LATER)
    assert "Another program changed" in str(follow(workspace, ["logs"])["logs"])
    assert seqs(workspace) == numbers((1, 20))
    assert "changed the table" in (tables.find(workspace, "logs").error or "")
    synced(workspace, full=True)
    assert seqs(workspace) == numbers((1, 40))


def test_rewritten_files_are_named_once_they_left_the_table(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table:
        table.delete("seq = 5")  # writes the rest of a chunk into a file of its own
        rewritten = {f for f in table.inspect.files()["file_path"].to_pylist() if "/iceberg/logs/data/" in f}
    assert len(rewritten) == 1
    done = synced(workspace, full=True)
    assert set(done.rewritten) == rewritten
    assert seqs(workspace) == numbers((1, 30))
    assert not files(workspace) & rewritten


def test_appended_and_overwritten_rows_are_said(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table:
        columns: pa.Table = table.scan(row_filter="seq = 1").to_arrow()
        table.append(columns)
        table.append(columns)
    what = changed(workspace)
    assert what is not None
    assert "(append: data files added 1, rows added 1), after 1 more" in what
    assert len(synced(workspace, full=True).rewritten) == 2
    assert seqs(workspace) == numbers((1, 30))


def test_a_snapshot_without_rows_is_no_change(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table, table.transaction() as other:
        other.update_snapshot().fast_append().commit()
    assert changed(workspace) is None
    put(workspace, archive, rows(31, 40, LATER), hour=LATER)
    assert synced(workspace).added == 1
    assert seqs(workspace) == numbers((1, 40))


def test_a_rollback_is_said(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table:
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert "it was rolled back from snapshot" in (changed(workspace) or "")
    with pytest.raises(TableError, match="it was rolled back"):
        synced(workspace)
    assert synced(workspace, full=True).added == 1
    assert (seqs(workspace), changed(workspace)) == (numbers((1, 30)), None)


@pytest.mark.parametrize("look", ["sync", "full", "observe", "inspect"])
def test_the_guard_of_the_chunks_is_set_back(workspace: Workspace, archive: Archive, look: str) -> None:
    with iceberg(workspace) as table, table.transaction() as other:
        other.set_properties({"gc.enabled": "true"})
    if look == "inspect":
        assert inspect(workspace, tables.find(workspace, "logs"))[0].was_unguarded
    elif look == "observe":
        assert [seen.was_unguarded for seen in observe(workspace, workspace.catalog.tables.all())] == [True]
    else:
        assert synced(workspace, full=look == "full").was_unguarded
    with iceberg(workspace) as table:
        assert table.properties["gc.enabled"] == "false"
    assert not synced(workspace).was_unguarded


def test_the_guard_is_set_back_also_where_the_sync_is_refused(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table:
        with table.transaction() as other:
            other.set_properties({"gc.enabled": "true"})
        table.delete("seq = 5")
    with pytest.raises(TableError, match="Another program changed"):
        synced(workspace)
    with iceberg(workspace) as table:
        assert table.properties["gc.enabled"] == "false"


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_catalog_that_was_put_back_does_not_believe_a_newer_snapshot(
    workspace: Workspace, archive: Archive, is_followed: bool
) -> None:
    """The table has two chunks more, written with the catalog that is lost; since then as many others were captured:
    the numbers of revisions, chunks and ids are the same."""
    known = tables.find(workspace, "logs")
    with iceberg(workspace) as table:
        said = dict(table.current_snapshot().summary.additional_properties)
        first = next(iter(table.scan(row_filter="seq <= 10").plan_files())).file
        words = {name: value for name, value in said.items() if name.startswith("nats3.")}
        with table.transaction() as other, other.update_snapshot(snapshot_properties=words).overwrite() as snapshot:
            snapshot.delete_data_file(first)
    assert seqs(workspace) == numbers((11, 30))
    assert changed(workspace) is None  # nats3 made it, and no other program
    seen = tables.find(workspace, "logs")
    assert (seen.lacking, seen.surplus, seen.is_behind) == (1, 0, True)
    assert metric(workspace, "nats3_table_lag_chunks") == 1
    if is_followed:  # by the sensor, before anything else is captured
        follow(workspace, observe_s=0.0)
        seen = tables.find(workspace, "logs")
        assert (seen.lacking, seen.is_behind, changed(workspace)) == (0, False, None)
        assert seqs(workspace) == numbers((1, 30))
        return
    put(workspace, archive, rows(31, 40, LATER), hour=LATER)
    assert synced(workspace).added == 2
    assert seqs(workspace) == numbers((1, 40))
    assert known.job_id == archive.job_id


def test_the_table_of_a_former_archive_is_not_taken_for_that_of_its_successor(
    workspace: Workspace, archive: Archive, bucket: str
) -> None:
    delete(workspace, "logs")
    follow(workspace)
    assert tables.find(workspace, "logs").archive_deleted
    again = logs(workspace, bucket)
    put(workspace, again, rows(1, 5))
    with pytest.raises(Unknown, match="Archive logs has no table: nats3.logs is the table of a deleted archive"):
        tables.find(workspace, "logs")
    with pytest.raises(WrongState, match="but of another one that nats3 archived"):
        tables.create(workspace, "logs")
    tables.create(workspace, "logs", replace=True)
    synced(workspace)
    assert seqs(workspace) == numbers((1, 5))
    assert [(t.archive_id, t.archive_deleted) for t in workspace.catalog.tables.all()] == [(again.id, False)]


def test_the_table_of_another_installation_is_refused(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table, table.transaction() as other:
        other.set_properties({"nats3.job-id": "00000000-0000-4000-8000-000000000000"})
    known = tables.find(workspace, "logs")
    for work in (synced, lambda w: verify(w, known)):
        with pytest.raises(TableError, match="is of another archive"):
            work(workspace)
    with pytest.raises(WrongState, match="is of another archive by now"):
        tables.drop(workspace, known)
    assert len(live(workspace, archive)) == 3
