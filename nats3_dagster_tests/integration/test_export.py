"""Exports of an archive in a catalog: which hours, to which destinations, and on Spark."""

import gzip
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import folder
from nats3_dagster.errors import Conflict, OperatorError, StoreError
from nats3_dagster.exports import declare, hour_export, progress
from nats3_dagster.exports.checks import check_export
from nats3_dagster.exports.hour_export import export_hour
from nats3_dagster.exports.hours import select_hours, state_of
from nats3_dagster.exports.job import Group
from nats3_dagster.hours import hour_of
from nats3_dagster.model import ExportSpec
from nats3_dagster.objects import Outlet, OutletOptions
from nats3_dagster.pipeline.export_run import run_export
from nats3_dagster.pipeline.worker import export_group
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS, chunk, spec, state
from nats3_dagster_tests.support.exports import Case, perform, run_declared

# What an hour's export keeps at its place for itself.
OWN = ["_exports/logs/files/2026-11-21-07.json", "_exports/owner.json"]
PATH = "{key}/{date}/{hour}/{part}.{ext}"


@pytest.fixture
def case(tmp_path, s3, bucket):
    """Two chunks of one hour in S3."""
    case = Case(tmp_path, s3, bucket)
    case.chunk(("orders.milano", b'{"id": 1, "price": 8.50}'), ("orders.napoli", b'{"id": 2, "price": 7}'))
    case.chunk(("orders.milano", b'{"id": 3, "price": 10}'))
    return case


@pytest.fixture
def archive(workspace, case, bucket):
    """Their archive; the hour is sealed."""
    archive = workspace.catalog.archives.create(spec(bucket=bucket), state(last=3))
    folder.claim(workspace, archive)
    workspace.catalog.chunks.commit(archive, [chunk.meta for chunk in case.chunks])
    assert len(list(seal_hours(workspace, archive, [HOUR]))) == 1
    return archive


def export(workspace, archive, **fields):
    made = ExportSpec("files", **{"decode": "json", "key": "subject:2", "format": "csv", "path": PATH, **fields})
    return export_hour(workspace, archive, made, HOUR, perform)


def objects(client, bucket, prefix):
    found = client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
    return {o["Key"].removeprefix(prefix): client.get_object(Bucket=bucket, Key=o["Key"])["Body"].read() for o in found}


def test_pizza_orders_go_to_s3_by_spark(workspace, archive, bucket, s3_client, spark, monkeypatch):
    """One task for each group of chunks; the same run again changes nothing."""
    monkeypatch.setattr("nats3_dagster.exports.job.GROUP_MESSAGES", 2)
    made = ExportSpec("files", f"s3://{bucket}/out", decode="json", key="subject:2", format="csv", path=PATH)
    seen = []
    result = run_export(spark, workspace, archive, made, HOUR, on_progress=seen.append)
    assert (result.files, result.messages, result.written, result.hour) == (3, 3, 3, HOUR)
    counts = [p.done for p in seen]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1], {p.total for p in seen}) == (0, 3, {3})
    files = objects(s3_client, bucket, "out/")
    tables = {path: gzip.decompress(data) for path, data in files.items() if not path.startswith("_exports/")}
    assert tables == {
        "milano/2026-11-21/07/00000.csv.gz": b"id,price\n1,8.50\n",
        "milano/2026-11-21/07/00001.csv.gz": b"id,price\n3,10\n",
        "napoli/2026-11-21/07/00000.csv.gz": b"id,price\n2,7\n",
    }
    assert [path for path in files if path.startswith("_exports/")] == OWN
    again = run_export(spark, workspace, archive, made, HOUR)
    assert (again.written, again.removed, objects(s3_client, bucket, "out/")) == (0, 0, files)


def test_another_split_replaces_the_objects(workspace, archive, bucket, s3_client):
    export(workspace, archive, destination=f"s3://{bucket}/out")
    result = export(workspace, archive, destination=f"s3://{bucket}/out", key=None)
    assert (result.written, result.removed) == (1, 2)
    files = objects(s3_client, bucket, "out/")
    assert sorted(files) == [*OWN, "all/2026-11-21/07/00000.csv.gz"]
    export(workspace, archive, destination=f"s3://{bucket}/out", key=None, subjects=("orders.milano",))
    (data,) = [data for path, data in objects(s3_client, bucket, "out/").items() if path.startswith("all")]
    assert gzip.decompress(data) == b"id,price\n1,8.50\n3,10\n"


RUN = """
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.exports import run_declared

with Workspace(Settings.load()) as workspace:
    run_declared(workspace)
"""
# After a part of the staged files, after all of them, between two new files, between two old ones, and after all of it,
# before the catalog has it.
KILLED = ["put:kill:2", "staged:kill", "moved:kill:1", "removed:kill", "done:kill"]


@pytest.mark.parametrize("step", KILLED)
def test_a_process_killed_at_any_step_is_made_up_by_the_next(workspace, archive, bucket, s3_client, monkeypatch, step):
    """Of an hour that was exported by other settings: so files are replaced and removed."""
    monkeypatch.setattr("nats3_dagster.exports.job.GROUP_MESSAGES", 2)
    declare.create(workspace, "logs", ExportSpec("files", f"s3://{bucket}/out", decode="json", format="csv", path=PATH))
    assert run_declared(workspace).files == 2
    declare.change(workspace, "logs", "files", {"key": "subject:2", "compression": "none"})
    environment = os.environ | {"NATS3_FAULT": f"export.{step}"}
    killed = subprocess.run(
        [sys.executable, "-c", f"import nats3_dagster.exports.job as job; job.GROUP_MESSAGES = 2\n{RUN}"],
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    staged = [path for path in objects(s3_client, bucket, "out/") if "/staging/" in path and "/progress/" not in path]
    assert len(staged) == {"put:kill:2": 2, "staged:kill": 3, "moved:kill:1": 2}.get(step, 0)
    assert state_of(workspace, "logs", "files")[1][0].state == "due"
    result = run_declared(workspace)
    assert (result.files, result.messages, result.undecoded, result.bytes) == (3, 3, 0, 16 + 14 + 13)
    assert {path: data for path, data in objects(s3_client, bucket, "out/").items() if path[0] != "_"} == {
        "milano/2026-11-21/07/00000.csv": b"id,price\n1,8.50\n",
        "milano/2026-11-21/07/00001.csv": b"id,price\n3,10\n",
        "napoli/2026-11-21/07/00000.csv": b"id,price\n2,7\n",
    }
    own = [path for path in objects(s3_client, bucket, "out/") if path[0] == "_"]
    assert own == OWN
    one, (hour,) = state_of(workspace, "logs", "files")
    assert hour.made
    assert (hour.state, hour.made.files, hour.made.messages, hour.made.version) == ("done", 3, 3, 2)
    assert (one.totals.hours, one.totals.files, one.totals.messages, one.totals.bytes) == (1, 3, 3, result.bytes)
    assert (run_declared(workspace).written, run_declared(workspace).removed) == (0, 0)


def retire(workspace, archive, count=None):
    chunks = [chunk.id for chunk in workspace.catalog.chunks.select(archive)]
    workspace.catalog.chunks.retire(archive, chunks[:count])


def test_files_of_messages_that_a_replay_deleted_stay(workspace, archive, bucket, s3_client):
    declare.create(workspace, "logs", ExportSpec("files", f"s3://{bucket}/out", decode="json", format="csv", path=PATH))
    run_declared(workspace)
    files = objects(s3_client, bucket, "out/")
    retire(workspace, archive, 1)
    for _ in range(2):
        assert [hour.state for hour in state_of(workspace, "logs", "files")[1]] == ["done"]
        assert select_hours(workspace, "logs", "files")[2] == ()
        with pytest.raises(OperatorError, match="2 messages of hour .* were deleted from archive logs after a replay"):
            run_declared(workspace)
        assert len(list(seal_hours(workspace, archive, [HOUR]))) <= 1
    with pytest.raises(OperatorError, match="2 messages of hour"):
        select_hours(workspace, "logs", "files", hours=[HOUR])
    declare.change(workspace, "logs", "files", {"compression": "none"})
    with pytest.raises(OperatorError, match="2 messages of hour"):
        run_declared(workspace)
    assert [hour.state for hour in state_of(workspace, "logs", "files")[1]] == ["done"]
    assert objects(s3_client, bucket, "out/") == files
    assert select_hours(workspace, "logs", "files", hours=[HOUR], over_retired=True)[2]
    assert run_declared(workspace, over_retired=True).messages == 1


def test_messages_that_are_deleted_while_an_export_is_planned_are_missed(workspace, archive, bucket, monkeypatch):
    """By another process, after the hour was found to be due."""
    declare.create(workspace, "logs", ExportSpec("files", f"s3://{bucket}/out", decode="json", format="csv", path=PATH))
    read = workspace.catalog.chunks.of_hour
    monkeypatch.setattr(workspace.catalog.chunks, "of_hour", lambda *a: (retire(workspace, archive, 1), read(*a))[1])
    with pytest.raises(OperatorError, match="2 messages of hour"):
        run_declared(workspace)
    assert [hour.state for hour in state_of(workspace, "logs", "files")[1]] == ["retired"]


def test_an_hour_that_is_not_sealed_must_be_complete(workspace, case, bucket, tmp_path):
    archive = workspace.catalog.archives.create(spec(bucket=bucket), state(last=9))
    chunks = [chunk.meta for chunk in case.chunks]
    workspace.catalog.chunks.commit(archive, chunks)
    to = f"file://{tmp_path}/out"
    with pytest.raises(OperatorError, match="Archive logs is not complete in 2026-11-21-07:00"):
        export(workspace, archive, destination=to)
    with pytest.raises(OperatorError, match="Archive logs begins at 2026-11-21-07:00, after 2020-11-21-07:00"):
        export_hour(workspace, archive, case.spec(), "2020-11-21-07:00", perform)
    with pytest.raises(OperatorError, match="not an hour"):
        export_hour(workspace, archive, case.spec(), "2020", perform)
    assert not (tmp_path / "out").exists()
    later = HOUR_NS + 3600 * 10**9
    workspace.catalog.chunks.commit(
        archive, [chunk(4, 9, bucket=bucket, hour=hour_of(later), first_ns=later, last_ns=later + 9)]
    )
    assert export(workspace, archive, destination=to).messages == 3


@pytest.mark.parametrize("place", ["", "/archive=logs", "/archive=logs/date=2026-11-21"])
def test_a_destination_where_chunks_live_is_refused(workspace, archive, bucket, place):
    made = ExportSpec("files", f"s3://{bucket}{place}")
    with pytest.raises(OperatorError, match="files would write where the chunks of archive logs live") as refused:
        check_export(workspace, archive, made)
    assert refused.value.field == "destination"
    for beside in ("/archive=logs2", "/exports"):
        check_export(workspace, archive, ExportSpec("files", f"s3://{bucket}{beside}"))
    check_export(workspace, archive, ExportSpec("files", f"gs://{bucket}{place}"))
    other = workspace.catalog.archives.create(spec("other", bucket=f"gs://{bucket}", prefix=""), state(last=3))
    with pytest.raises(OperatorError, match="the chunks of archive other live"):
        check_export(workspace, other, ExportSpec("files", f"gs://{bucket}"))
    check_export(workspace, other, ExportSpec("files", f"az://{bucket}"))


def test_a_destination_in_the_chunks_of_another_archive_is_refused(workspace, archive, bucket):
    workspace.catalog.archives.create(spec("other", bucket="other-bucket", prefix="a/b"), state(last=3))
    for place in ("", "/a", "/a/b"):
        with pytest.raises(OperatorError, match="the chunks of archive other live"):
            check_export(workspace, archive, ExportSpec("files", f"s3://other-bucket{place}"))
    check_export(workspace, archive, ExportSpec("files", "s3://other-bucket/a/c"))


def test_a_folder_where_chunks_live_is_refused_by_any_of_its_names(workspace, archive, bucket, tmp_path):
    """The store is a folder, and so is the destination."""
    (tmp_path / "store" / bucket).mkdir(parents=True, exist_ok=True)
    (tmp_path / "link").symlink_to(tmp_path / "store")
    folder = {"store_url": f"file://{tmp_path}/store"}
    with Workspace(workspace.settings.model_copy(update=folder)) as local:
        for place in ("store", "link", f"link/{bucket}", f"store/{bucket}/archive=logs/x"):
            with pytest.raises(OperatorError, match="the chunks of archive logs live"):
                check_export(local, archive, ExportSpec("files", f"file://{tmp_path}/{place}"))
        check_export(local, archive, ExportSpec("files", f"file://{tmp_path}/link/{bucket}/exports"))


def test_progress_is_reported_batch_by_batch(workspace, archive, case, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    seen = []

    def slowly(tasks):
        """Each group in turn, once the driver has seen the one before."""
        results, read = [], 0
        for job, group in [(job, Group(n, (c,), "")) for job, g in tasks for n, c in enumerate(g.chunks)]:
            results += export_group((job, group))
            read += group.chunks[0].meta.messages
            wait_until(lambda: seen and seen[-1].done >= read)  # noqa: B023
        return results, None

    made = ExportSpec("files", f"file://{tmp_path}/out", decode="json", format="csv")
    result = export_hour(workspace, archive, made, HOUR, slowly, on_progress=seen.append)
    assert (result.files, result.messages) == (2, 3)
    assert [(one.done, one.total) for one in seen] == [(0, 3), (2, 3), (3, 3), (3, 3)]
    assert not [path for path in (tmp_path / "out").rglob("*") if "staging" in str(path) and path.is_file()]


def wait_until(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_two_runs_of_an_hour_do_not_mix(workspace, archive, tmp_path, monkeypatch):
    monkeypatch.setattr(hour_export, "PATIENCE_S", 0.1)
    with ExitStack() as held:
        held.enter_context(workspace.catalog.locks.exporting(archive, "files", HOUR, 0))
        with pytest.raises(Conflict, match="Another process exports 2026-11-21-07:00 of files"):
            export(workspace, archive, destination=f"file://{tmp_path}/out")
    assert export(workspace, archive, destination=f"file://{tmp_path}/out").written == 2


def test_a_bucket_that_is_not_there(workspace, archive):
    with pytest.raises(StoreError, match="The bucket 'no-such-bucket' does not exist"):
        export(workspace, archive, destination="s3://no-such-bucket/out")


def test_an_outlet_reads_lists_moves_and_removes(s3, bucket, tmp_path):
    for options in (OutletOptions("s3", bucket, "a/b", s3), OutletOptions("file", "", str(tmp_path / "out"))):
        outlet = Outlet(options)
        assert (outlet.get("x"), outlet.size("x"), list(outlet.list("x"))) == (None, None, [])
        outlet.put("x/%2E%2E/k=ü.txt", b"one")
        outlet.put("x/two", b"two!")
        outlet.move("x/%2E%2E/k=ü.txt", "y/one")
        outlet.put("x/two", b"2")
        assert (outlet.get("y/one"), outlet.size("x/two"), list(outlet.list("x"))) == (b"one", 1, ["x/two"])
        outlet.delete("x/two")
        outlet.delete("x/two")
        assert list(outlet.list("x")) == []
        with pytest.raises(StoreError, match="is not at the destination any more"):
            outlet.move("x/two", "y")
        with pytest.raises(StoreError, match="cannot be the key"):
            outlet.put("../x", b"")
