"""What is made of archives, as metrics and the doctor say it: tables and exports, and how far they are behind."""

import pytest

from nats3_dagster.archive.health import catalog_health
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.status import outputs
from nats3_dagster.dev.process import free_port
from nats3_dagster.documents.metrics import output_metrics
from nats3_dagster.model import Archive, ExportSpec, Seal
from nats3_dagster.model.export import Export, Made
from nats3_dagster.tables import tables
from nats3_dagster.tables.follow import follow
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR
from nats3_dagster_tests.support.tables import LATER, down, of_two_hours, put, rows, synced


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive of a chunk in each of two hours."""
    return of_two_hours(workspace, bucket)


def measured(workspace: Workspace) -> dict[tuple[str, ...], float]:
    """The value of each series, by its name and the values of its labels."""
    samples = [sample for family in output_metrics(outputs(workspace)) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def found(workspace: Workspace) -> list[tuple[str, str, str]]:
    return [(one.status, one.area, one.what) for one in catalog_health.check_outputs(workspace)]


def sealed(workspace: Workspace, archive: Archive, hour: str) -> tuple[int, int]:
    """Seal the hour as it is; its revision and chunks."""
    begun, (row, _) = workspace.catalog.now(), workspace.catalog.seals.next(archive, hour)
    seal = Seal(
        hour=hour,
        number=row.number,
        revision=row.revision,
        chunks=row.chunks,
        losses=row.losses,
        messages=10,
        gaps=0,
        content="0" * 16,
        bucket=archive.spec.bucket,
        key=f"manifest-{hour}-{row.number}",
        sha256="0" * 64,
        stored_bytes=1,
    )
    workspace.catalog.seals.add(archive, seal, begun=begun)
    return row.revision, row.chunks


def test_a_table_that_is_behind(workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(workspace) == {}
    assert found(workspace) == []
    tables.create(workspace, "logs")
    seen = measured(workspace)
    assert (seen["nats3_table_lag_chunks", "logs"], seen["nats3_table_failing", "logs"]) == (2, 0)
    assert ("nats3_table_last_sync_timestamp_seconds", "logs") not in seen
    synced(workspace)
    known = tables.find(workspace, "logs")
    assert known.synced_at is not None
    assert measured(workspace) == {
        ("nats3_table_lag_chunks", "logs"): 0,
        ("nats3_table_failing", "logs"): 0,
        ("nats3_table_changed", "logs"): 0,
        ("nats3_table_last_look_timestamp_seconds", "logs"): known.synced_at.timestamp(),
        ("nats3_table_last_sync_timestamp_seconds", "logs"): known.synced_at.timestamp(),
    }
    assert found(workspace) == [("ok", "tables", "1 Iceberg tables have what their archives have")]
    put(workspace, archive, rows(21, 30))
    with monkeypatch.context() as patched:
        down(patched, "nats3", free_port())
        error = str(follow(workspace)["logs"])
    assert measured(workspace)["nats3_table_lag_chunks", "logs"] == 1
    assert measured(workspace)["nats3_table_failing", "logs"] == 1
    (finding,) = catalog_health.check_outputs(workspace)
    assert (finding.status, str(finding.do)) == ("warn", "Bring the table of archive logs up to date")
    assert finding.what == f"The table nats3.logs of archive logs lags by 1 chunks: {error}"
    delete(workspace, "logs")
    assert measured(workspace) == {}


def test_exports_wait_fail_and_leave_what_does_not_decode(workspace: Workspace, archive: Archive) -> None:
    exports = workspace.catalog.exports
    export = exports.create(archive, ExportSpec("csv", "s3://elsewhere/x"))
    names = ("logs", "csv")
    nothing = {
        ("nats3_export_waiting_partitions", *names, "due"): 0,
        ("nats3_export_waiting_partitions", *names, "failed"): 0,
        ("nats3_export_waiting_partitions", *names, "retired"): 0,
        ("nats3_export_undecoded_messages", *names): 0,
    }
    assert measured(workspace) == nothing
    first, second = (sealed(workspace, archive, hour) for hour in (HOUR, LATER))
    assert measured(workspace)["nats3_export_waiting_partitions", "logs", "csv", "due"] == 2
    record(workspace, archive, export, HOUR, first)
    exports.record_failure(archive, export, LATER, "operator", "no such bucket")
    seen = measured(workspace)
    assert seen.pop(("nats3_export_last_failure_timestamp_seconds", *names)) > 0
    assert seen == nothing | {
        ("nats3_export_waiting_partitions", *names, "failed"): 1,
        ("nats3_export_undecoded_messages", *names): 3,
    }
    assert found(workspace) == [
        ("warn", "exports", "1 hours of export csv of archive logs failed, and 0 wait: no such bucket")
    ]
    record(workspace, archive, export, LATER, second)
    assert measured(workspace) == nothing | {("nats3_export_undecoded_messages", *names): 6}
    assert found(workspace) == [
        ("ok", "exports", "No hour of 1 exports failed: 0 hours wait, and 6 messages did not decode")
    ]
    put(workspace, archive, rows(21, 30))  # its hour is due only when it is sealed again
    assert measured(workspace)["nats3_export_waiting_partitions", "logs", "csv", "due"] == 0
    sealed(workspace, archive, HOUR)
    assert measured(workspace)["nats3_export_waiting_partitions", "logs", "csv", "due"] == 1
    states = [one.state for one in exports.hours(archive, export)]
    assert states == ["due", "done"]
    chunks = workspace.catalog.chunks
    chunks.retire(archive, [chunk.id for chunk in chunks.select(archive, hours=[HOUR])])
    states = [one.state for one in exports.hours(archive, export)]
    assert states == ["retired", "done"]
    assert measured(workspace)["nats3_export_waiting_partitions", "logs", "csv", "retired"] == 1
    exports.delete(archive, export)
    assert measured(workspace) == {}


def record(workspace: Workspace, archive: Archive, export: Export, hour: str, sealed: tuple[int, int]) -> None:
    made = Made(*sealed, export.version, 1, 7, 0, 3, 100, "0" * 16, "s3://elsewhere/manifest", workspace.catalog.now())
    workspace.catalog.exports.record(archive, export, hour, made)
