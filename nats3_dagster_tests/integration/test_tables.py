"""An archive as an Iceberg table: exactly its live chunks, whatever happens between our commit and the table's."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import ManifestFile

from nats3_dagster import fault_points
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.catalog import Catalog
from nats3_dagster.dev.process import free_port
from nats3_dagster.errors import ChunkError, Conflict, OperatorError, TableError, Unknown, WrongState
from nats3_dagster.fault_points import InjectedFault
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, Incarnation, SeqRange
from nats3_dagster.tables import sync as syncing
from nats3_dagster.tables import tables
from nats3_dagster.tables.catalogs import opened
from nats3_dagster.tables.compare import Comparison
from nats3_dagster.tables.follow import follow
from nats3_dagster.tables.sync import Synced
from nats3_dagster.tables.tables import verify
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, LOGS, state
from nats3_dagster_tests.support.tables import (
    LATER,
    down,
    files,
    iceberg,
    live,
    logs,
    made,
    numbers,
    put,
    rows,
    seqs,
    synced,
    tabled,
)

pytestmark = pytest.mark.s3


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive of two chunks of 10 messages, with a table that has both."""
    return tabled(workspace, bucket)


def checked(workspace: Workspace) -> Comparison:
    return verify(workspace, tables.find(workspace, "logs"))


def test_a_table_has_exactly_the_live_chunks(workspace: Workspace, archive: Archive) -> None:
    assert seqs(workspace) == numbers((1, 20))
    put(workspace, archive, rows(21, 30))
    workspace.catalog.chunks.retire(archive, [live(workspace, archive)[0].id])
    done = synced(workspace)
    assert (done.added, done.removed, done.commits, done.chunks) == (1, 1, 1, 2)
    assert seqs(workspace) == numbers((11, 30))
    found = checked(workspace)
    assert (found.faults, found.files, found.rows, found.messages) == ((), 2, 20, 20)


def test_a_sync_of_what_is_synced_commits_nothing_and_reads_no_manifest(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "compare", lambda *_: pytest.fail("every file was compared"))
    before = tables.find(workspace, "logs")
    assert not before.is_behind
    assert synced(workspace) == Synced(0, 0, 0, before.archive_revision, 2, before.snapshot_id)
    put(workspace, archive, rows(21, 30))
    behind = tables.find(workspace, "logs")
    assert (behind.is_behind, behind.lacking, behind.surplus) == (True, 1, 0)
    assert synced(workspace).added == 1
    assert seqs(workspace) == numbers((1, 30))


def test_a_removal_reads_the_manifests_of_its_hours_alone(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "compare", lambda *_: pytest.fail("every file was compared"))
    hours = [f"2026-11-21-{hour}:00" for hour in range(10, 16)]
    for n, hour in enumerate(hours):
        put(workspace, archive, rows(21 + 10 * n, 30 + 10 * n, hour), hour=hour)
        synced(workspace)
    read: list[str] = []
    real = ManifestFile.fetch_manifest_entry

    def reading(self: ManifestFile, *args: Any, **options: Any) -> Any:
        read.append(self.manifest_path)
        return real(self, *args, **options)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", reading)
    gone = [chunk.id for chunk in live(workspace, archive) if chunk.meta.hour == hours[2]]
    workspace.catalog.chunks.retire(archive, gone)
    assert (synced(workspace).removed, len(set(read))) == (1, 1)
    monkeypatch.undo()
    assert checked(workspace).faults == ()
    assert seqs(workspace) == numbers((1, 40), (51, 80))


def test_a_table_without_what_its_snapshot_says_is_compared(workspace: Workspace, archive: Archive) -> None:
    """Files that another program took out in a snapshot that repeats our words."""
    first, second = live(workspace, archive)
    with iceberg(workspace) as table:
        said = {
            key: value
            for key, value in table.current_snapshot().summary.additional_properties.items()
            if key.startswith("nats3.")
        }
        with table.transaction() as other, other.update_snapshot(snapshot_properties=said).overwrite() as snapshot:
            for task in table.scan().plan_files():
                snapshot.delete_data_file(task.file)
    workspace.catalog.chunks.retire(archive, [first.id])
    done = synced(workspace)
    assert (done.added, done.removed) == (1, 0)
    assert files(workspace) == {workspace.settings.object_url(second.meta.bucket, second.meta.key)}


def test_what_replaces_a_chunk_comes_in_the_snapshot_that_removes_it(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "BATCH", 1)
    put(workspace, archive, rows(21, 30, LATER), hour=LATER)
    first = live(workspace, archive)[0]
    halves = [made(archive, rows(1, 5)), made(archive, rows(6, 10))]
    for data, meta in halves:
        workspace.bucket(meta.bucket).put_new(meta.key, data, meta.sha256)
    begun = workspace.catalog.now()
    workspace.catalog.chunks.replace(archive, [first.id], [meta for _, meta in halves], [], begun=begun)
    lag = tables.find(workspace, "logs")
    assert (lag.lacking, lag.surplus) == (3, 1)
    done = synced(workspace)
    assert (done.added, done.removed, done.commits) == (3, 1, 2)
    with iceberg(workspace) as table:
        history = [table.scan(snapshot_id=s.snapshot_id).to_arrow()["seq"].to_pylist() for s in table.snapshots()]
    assert [sorted(one) for one in history] == [numbers((1, 20)), numbers((1, 20)), numbers((1, 30))]


def test_time_travel(workspace: Workspace, archive: Archive) -> None:
    with iceberg(workspace) as table:
        before = table.current_snapshot().snapshot_id
    workspace.catalog.chunks.retire(archive, [live(workspace, archive)[0].id])
    put(workspace, archive, rows(21, 30))
    synced(workspace)
    assert seqs(workspace) == numbers((11, 30))
    assert seqs(workspace, snapshot_id=before) == numbers((1, 20))


def test_old_snapshots_are_forgotten_and_those_with_a_tag_kept(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with iceberg(workspace) as table:
        tagged = table.current_snapshot().snapshot_id
        table.manage_snapshots().create_tag(tagged, "audit").commit()
    monkeypatch.setattr(syncing, "MOST_SNAPSHOTS", 2)
    for n in range(4):
        put(workspace, archive, rows(21 + n, 21 + n))
        synced(workspace)
    with iceberg(workspace) as table:
        assert len(table.snapshots()) == 4
        assert tagged in {snapshot.snapshot_id for snapshot in table.snapshots()}
    assert seqs(workspace, snapshot_id=tagged) == numbers((1, 20))
    assert seqs(workspace) == numbers((1, 24))


@pytest.mark.parametrize("step", ["table.loaded", "table.in_commit", "table.committed"])
def test_a_process_killed_at_any_step_is_made_up_by_the_next(workspace: Workspace, archive: Archive, step: str) -> None:
    put(workspace, archive, rows(21, 30))
    workspace.catalog.chunks.retire(archive, [live(workspace, archive)[0].id])
    environment = os.environ | {"NATS3_FAULT": f"{step}:kill"}
    command = [sys.executable, "-m", "nats3_dagster.cli", "table", "sync", "logs"]
    killed = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert tables.find(workspace, "logs").is_behind
    assert synced(workspace).commits == (0 if step == "table.committed" else 1)
    assert seqs(workspace) == numbers((11, 30))
    assert checked(workspace).faults == ()
    assert not tables.find(workspace, "logs").is_behind


def test_two_syncs_at_once_add_each_chunk_once(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        put(workspace, archive, rows(21 + 10 * n, 30 + 10 * n))
    workspace.catalog.chunks.retire(archive, [live(workspace, archive)[1].id])
    with ThreadPoolExecutor(4) as threads:
        done = [sync.result() for sync in [threads.submit(synced, workspace) for _ in range(4)]]
    assert sum(one.commits for one in done) == 1
    assert seqs(workspace) == numbers((1, 10), (21, 50))
    assert checked(workspace).faults == ()


def test_a_sync_that_never_wins_says_so(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = syncing._batches
    put(workspace, archive, rows(21, 30))

    def overtaken(work: Any) -> Any:
        with iceberg(workspace) as table, table.transaction() as other:
            other.update_snapshot().fast_append().commit()
        return real(work)

    monkeypatch.setattr(syncing, "_batches", overtaken)
    monkeypatch.setattr(syncing, "ATTEMPTS", 2)
    with pytest.raises(Conflict, match="Other processes commit to the table nats3.logs all the time"):
        synced(workspace)
    monkeypatch.undo()
    assert synced(workspace).added == 1
    assert seqs(workspace) == numbers((1, 30))


def test_filters_leave_out_files_that_cannot_match(workspace: Workspace, archive: Archive) -> None:
    put(workspace, archive, rows(21, 30, LATER), hour=LATER)
    synced(workspace)
    assert seqs(workspace, row_filter="seq >= 9 and seq < 12") == [9, 10, 11]
    assert seqs(workspace, row_filter="hour >= '2026-11-21-08:00'") == numbers((21, 30))
    with iceberg(workspace) as table:
        planned = {
            text: len(list(table.scan(row_filter=text).plan_files()))
            for text in (
                "seq > 20",
                "seq < 11",
                f"time_ns >= {hour_start(LATER)}",
                "time < '2026-11-21T08:00:00+00:00'",
                "hour = '2026-11-21-07:00'",
                "subject = 'logs.1'",
                "subject = 'other'",
                "incarnation = 'x'",
            )
        }
        # A defect of pyiceberg, of which docs/iceberg.md warns: it has hour only where hour is selected.
        assert len(table.scan(row_filter=f"hour = '{LATER}'", selected_fields=("seq",)).to_arrow()) == 0
        assert len(table.scan(row_filter=f"hour = '{LATER}'", selected_fields=("seq", "hour")).to_arrow()) == 10
    assert list(planned.values()) == [1, 1, 1, 2, 2, 3, 3, 0]


def test_a_chunk_with_times_of_another_hour_is_found_by_its_times(workspace: Workspace, archive: Archive) -> None:
    start = hour_start(HOUR)
    stepped = [(n, start + (7200 if n % 2 else 0) * 10**9, "logs.x", None, b"") for n in range(21, 31)]
    put(workspace, archive, stepped)
    synced(workspace)
    odd = list(range(21, 31, 2))
    assert seqs(workspace, row_filter="time >= '2026-11-21T09:00:00+00:00'") == odd
    assert seqs(workspace, row_filter="subject = 'logs.x' and hour = '2026-11-21-07:00'") == numbers((21, 30))


def test_bounds_are_those_of_messages_not_of_what_a_chunk_covers(workspace: Workspace, archive: Archive) -> None:
    put(workspace, archive, rows(25, 28), covers=SeqRange(21, 30))
    put(workspace, archive, rows(33, 38), covers=SeqRange(31, 40), reason="unselected")
    synced(workspace)
    with iceberg(workspace) as table:
        bounds = [m["seq"] for m in table.inspect.files()["readable_metrics"].to_pylist()]
    assert sorted((b["lower_bound"], b["upper_bound"]) for b in bounds) == [(1, 10), (11, 20), (25, 28), (33, 38)]
    assert checked(workspace).faults == ()


def test_a_footer_that_is_damaged_is_not_believed(workspace: Workspace, archive: Archive, s3_client: Any) -> None:
    meta = put(workspace, archive, rows(33, 38), covers=SeqRange(31, 40), reason="unselected")
    data = bytearray(s3_client.get_object(Bucket=meta.bucket, Key=meta.key)["Body"].read())
    at = data.rindex(b"covers_first")
    data[at] ^= 1
    s3_client.put_object(Bucket=meta.bucket, Key=meta.key, Body=bytes(data))
    with pytest.raises(ChunkError, match="digest"):
        synced(workspace)
    assert "digest" in (tables.find(workspace, "logs").error or "")
    assert seqs(workspace) == numbers((1, 20))


def test_subjects_that_are_not_utf8_and_long_ones(workspace: Workspace, archive: Archive) -> None:
    start = hour_start(HOUR)
    names: list[Any] = [("logs.%FF", b"logs.\xff"), "logs." + "\U0010ffff" * 20, "logs." + "z" * 300, "a.\ud7ff" * 9]
    put(workspace, archive, [(21 + n, start, name, None, b"") for n, name in enumerate(names)])
    synced(workspace)
    with iceberg(workspace) as table:
        found = table.scan(row_filter="seq > 20").to_arrow()
        assert found["subject_bytes"].to_pylist() == [b"logs.\xff", None, None, None]
        for n, text in enumerate(found["subject"].to_pylist()):
            matched = table.scan(row_filter=f"subject = '{text}'").to_arrow()
            assert matched["seq"].to_pylist() == [21 + n]
        # A subject in a manifest would outlive its erasure.
        of = table.schema().find_field("subject").field_id
        bounds = table.inspect.files().select(["lower_bounds", "upper_bounds"]).to_pylist()
        assert [file for file in bounds for name in file if of in dict(file[name])] == []


def test_incarnations_with_the_same_sequences_are_told_apart(workspace: Workspace, archive: Archive) -> None:
    second = Incarnation("LOGS", LOGS.created_ns + 10**9)
    workspace.catalog.coverage.begin(archive, state(second))
    put(workspace, archive, rows(1, 5), incarnation=second)
    synced(workspace)
    assert seqs(workspace) == sorted(numbers((1, 20)) + numbers((1, 5)))
    assert seqs(workspace, row_filter=f"incarnation = '{second.token}'") == numbers((1, 5))
    assert seqs(workspace, row_filter=f"incarnation = '{LOGS.token}'") == numbers((1, 20))


def test_a_purge_leaves_a_table_without_files_and_no_drop_deletes_chunks(
    workspace: Workspace, archive: Archive, s3_client: Any
) -> None:
    known = tables.find(workspace, "logs")
    assert tables.drop(workspace, known)
    with pytest.raises(Unknown, match="Archive logs has no table"):
        tables.find(workspace, "logs")
    with opened(workspace.settings, known.catalog) as catalog, pytest.raises(NoSuchTableError):
        catalog.load_table(known.identifier)
    for chunk in live(workspace, archive):
        assert s3_client.head_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key)
    tables.create(workspace, "logs")
    synced(workspace)
    delete(workspace, "logs", purge=True)
    assert follow(workspace, ["logs"]) == {}
    assert seqs(workspace) == []
    assert tables.find(workspace, "logs").archive_deleted


def test_verify_says_each_difference_and_a_full_sync_mends_it(workspace: Workspace, archive: Archive) -> None:
    chunks = live(workspace, archive)
    with iceberg(workspace) as table:
        (one, two) = sorted(table.inspect.files()["file_path"].to_pylist())
        entries = {task.file.file_path: task.file for task in table.scan().plan_files()}
        wrong, foreign = entries[two], entries[one]
        wrong._data[4] = 11  # the record count
        foreign._data[1] = one + "x"
        with table.transaction() as other, other.update_snapshot().overwrite() as snapshot:
            snapshot.delete_data_file(wrong)
            snapshot.append_data_file(wrong)
            snapshot.append_data_file(foreign)
    put(workspace, archive, rows(21, 30))
    found = checked(workspace)
    third = workspace.settings.object_url(archive.spec.bucket, live(workspace, archive)[2].meta.key)
    assert {(fault.path, fault.what) for fault in found.faults} == {
        (two, "has another record count than the chunk"),
        (one + "x", "is no live chunk of the archive"),
        (third, "a live chunk that the table does not have"),
    }
    done = synced(workspace, full=True)
    assert (done.added, done.removed) == (2, 2)
    assert checked(workspace).faults == ()
    assert seqs(workspace) == numbers((1, 30))
    assert len(chunks) == 2


def test_a_rollback_of_the_table_is_noticed(workspace: Workspace, archive: Archive) -> None:
    put(workspace, archive, rows(21, 30))
    synced(workspace)
    with iceberg(workspace) as table:
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert seqs(workspace) == numbers((1, 20))
    assert synced(workspace, full=True).added == 1
    assert seqs(workspace) == numbers((1, 30))


def test_a_catalog_that_is_down_is_named_and_hinders_nothing(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(workspace, archive, rows(21, 30))
    with monkeypatch.context() as patched:
        down(patched, "nats3", free_port())
        with pytest.raises(TableError, match="The Iceberg catalog nats3, or its store, failed: Operational"):
            synced(workspace)
        failed = follow(workspace)
        assert "s3cret" not in str(failed["logs"])
        known = tables.find(workspace, "logs")
        assert known.is_behind
        assert known.error == str(failed["logs"])
        assert follow(workspace, pause_s=60) == {}
    assert follow(workspace) == {}
    assert tables.find(workspace, "logs").error is None
    assert seqs(workspace) == numbers((1, 30))


def test_a_catalog_that_stays_silent_is_not_waited_for(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    put(workspace, archive, rows(21, 30))
    fault_points.arm(f"table.loaded:hold={tmp_path / 'held'}")
    failed = follow(workspace, patience_s=1)
    assert "did not take the commit in time" in str(failed["logs"])
    (tmp_path / "held.go").touch()
    fault_points.arm("")


def test_a_defect_of_a_sync_does_not_reach_who_captured(workspace: Workspace, archive: Archive) -> None:
    put(workspace, archive, rows(21, 30))
    fault_points.arm("table.loaded:raise")
    assert "by a defect: InjectedFault" in str(follow(workspace)["logs"])
    with pytest.raises(InjectedFault):
        fault_points.arm("table.loaded:raise")
        synced(workspace)
    fault_points.arm("")
    assert follow(workspace) == {}
    assert files(workspace) == {
        workspace.settings.object_url(c.meta.bucket, c.meta.key) for c in live(workspace, archive)
    }


def test_what_cannot_be_a_table_is_refused_and_writes_nothing(
    workspace: Workspace, archive: Archive, bucket: str, catalog: Catalog
) -> None:
    logs(workspace, bucket, "other")
    logs(workspace, bucket, "odd", prefix="a#b")
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"name": "none"}, Unknown, "There is no archive none"),
        ({"name": "logs"}, WrongState, "Archive logs has the table nats3.logs already"),
        ({"name": "other", "identifier": "plain"}, OperatorError, "'plain' is not the name of a table"),
        ({"name": "other", "identifier": "nats3.logs"}, WrongState, "which is not of archive other"),
        ({"name": "other", "catalog": "mine"}, OperatorError, "pyiceberg's configuration has no catalog mine"),
        ({"name": "other", "catalog": "https://u:p@host/"}, OperatorError, "holds a login"),
        ({"name": "other", "catalog": "http://host/?token=x"}, OperatorError, "would be stored"),
        ({"name": "other", "catalog": "http://host:p@ss/x"}, OperatorError, "would be stored"),
        ({"name": "other", "location": "s3://u:p@bucket/x"}, OperatorError, "would be stored"),
        ({"name": "other", "catalog": "ftp://host/"}, OperatorError, "is not reached by ftp://"),
        ({"name": "odd"}, OperatorError, "has a character that the address of a table's file cannot have"),
    ]
    for fields, kind, text in cases:
        with pytest.raises(kind, match=text):
            tables.create(workspace, **fields)
    assert [known.archive for known in catalog.tables.all()] == ["logs"]
