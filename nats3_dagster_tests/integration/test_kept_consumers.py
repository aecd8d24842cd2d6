"""The consumers of a stream are kept beside the chunks: when, how long, and what becomes of it."""

import hashlib
import time
from datetime import timedelta
from typing import Any

import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.captures.consumers import record_consumers
from nats3_dagster.archive.captures.driver import Perform, capture_hours
from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.archive.captures.plan import CapturePlan
from nats3_dagster.archive.keep.retention import expire
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.seal import seal_complete
from nats3_dagster.archive.recovery.orphan_sweep import find_orphans, sweep_each
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.stored import copies
from nats3_dagster.archive.stored.copy_check import check_copies
from nats3_dagster.archive.stored.folder import owner_key
from nats3_dagster.archive.stored.removal import Swept, remove_objects, sweep
from nats3_dagster.chunks.consumers import decode_consumers
from nats3_dagster.errors import SourceError, StoreError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.model.consumer import ConsumerPosition, KeptConsumers
from nats3_dagster.objects import create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.consumers import app, filled, kept, set_back
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def test_it_is_kept_where_it_changed(workspace: Workspace, wire: Wire, bucket: str, postgres_url: str) -> None:
    """Each change; of hours that are over the last one. Without consumers nothing is kept, until there were some."""
    filled(wire)
    archive_of = workspace.catalog.archives.get
    assert kept(workspace, wire, bucket) is None
    app(workspace).make(ack_policy="explicit")
    first = kept(workspace, wire, bucket)
    assert first
    assert first.consumers == 1
    assert record_consumers(workspace, archive_of("a")) is None
    app(workspace).take(3, acked=[2])
    second = record_consumers(workspace, archive_of("a"))
    assert second
    assert workspace.catalog.consumers.all(archive_of("a")) == (first, second)
    # As if the hour had ended two hours ago.
    set_back(postgres_url, "update nats3.kept_consumers set hour = '2026-01-01-00:00'")
    app(workspace).take(1)
    third = record_consumers(workspace, archive_of("a"))
    assert third
    assert [one.key for one in workspace.catalog.consumers.all(archive_of("a"))] == [second.key, third.key]
    objects = [key for key, _ in sorted(workspace.bucket(bucket).list()) if "/consumers-" in key]
    assert objects == [first.key, second.key, third.key]
    set_back(postgres_url, "update nats3.kept_consumers set superseded_at = superseded_at - interval '1 day'")
    assert sweep(workspace) == Swept(1, first.stored_bytes)
    assert {key for key, _ in workspace.bucket(bucket).list() if "/consumers-" in key} == {second.key, third.key}
    wire.api("CONSUMER.DELETE.EV.app")
    last = record_consumers(workspace, archive_of("a"))
    assert last
    assert last.consumers == 0
    assert record_consumers(workspace, archive_of("a")) is None
    wire.api("STREAM.DELETE.EV")
    assert plan(workspace, RestoreSpec("a", consumers=("all",))).consumers == ()


def test_a_process_that_dies_between_the_object_and_its_row(
    workspace: Workspace, wire: Wire, bucket: str, postgres_url: str
) -> None:
    """The object is an orphan until something later is kept; then a sweep removes it."""
    filled(wire)
    app(workspace).make(ack_policy="explicit")
    archived(workspace, wire, "EV", bucket)
    archive = workspace.catalog.archives.get("a")
    fault_points.arm("consumers.object_put:raise")
    with pytest.raises(fault_points.InjectedFault):
        record_consumers(workspace, archive)
    fault_points.arm("")
    assert workspace.catalog.consumers.all(archive) == ()
    now = workspace.catalog.now() + timedelta(seconds=1)
    assert [one.kept for one in find_orphans(workspace, archive, now)] == ["it may be the truth of a newer catalog"]
    second = record_consumers(workspace, archive)
    assert second
    time.sleep(1.1)
    (orphan,) = find_orphans(workspace, archive, workspace.catalog.now())
    assert (orphan.kept, orphan.key < second.key) == ("", True)
    assert [one.kept for one in sweep_each(workspace, 0, dry_run=False).orphans] == [""]
    assert [key for key, _ in workspace.bucket(bucket).list() if "/consumers-" in key] == [second.key]


def test_copies_have_what_is_kept_and_lose_what_is_not(
    workspace: Workspace, wire: Wire, bucket: str, settings: Settings, postgres_url: str
) -> None:
    copy = f"{bucket}-copy"
    create_bucket(settings.store, copy)
    filled(wire)
    app(workspace).make(ack_policy="explicit")
    first = kept(workspace, wire, bucket, copies=(copy,))
    assert first
    archive = workspace.catalog.archives.get("a")
    copies.copy(workspace, archive)

    def there() -> list[str]:
        return [key for key, _ in workspace.bucket(copy).list() if "/consumers-" in key]

    assert there() == [first.key]
    workspace.bucket(copy).delete(first.key)
    assert [one.mended for one in check_copies(workspace, archive)] == [1]
    assert there() == [first.key]
    app(workspace).take(1)
    second = record_consumers(workspace, archive)
    assert second
    set_back(postgres_url, "update nats3.kept_consumers set superseded_at = now() - interval '1 day' where id = 1")
    sweep(workspace)
    copies.copy(workspace, archive)
    assert there() == [second.key]
    # A restore reads it there, if the first bucket does not have it as it was written.
    workspace.bucket(bucket).delete(second.key)
    wire.api("STREAM.DELETE.EV")
    asked = RestoreSpec("a", consumers=("app",))
    assert plan(workspace, asked).consumers[0].position.delivered.stream == 1
    workspace.bucket(copy).put_again(second.key, b"other bytes", hashlib.sha256(b"other bytes").hexdigest())
    with pytest.raises(StoreError):
        plan(workspace, asked)
    # Nothing removes it while it counts.
    assert remove_objects(workspace, bucket, [second.key]) == 0
    # A copy that is added later gets it too.
    change(workspace, "a", {"copies": ()})
    change(workspace, "a", {"copies": (copy,)})
    assert workspace.catalog.copies.waits(copy, second.key)


def test_what_is_kept_goes_with_its_hours(workspace: Workspace, wire: Wire, bucket: str, postgres_url: str) -> None:
    """But for the last before the oldest hour: a restore of that hour needs it. A hold keeps all."""
    filled(wire)
    app(workspace).make(ack_policy="explicit")
    for hour in ("2026-01-01-00:00", "2026-01-02-00:00", "2026-01-03-00:00", None):
        app(workspace).take(1)
        assert kept(workspace, wire, bucket)
        if hour:
            set_back(postgres_url, f"update nats3.kept_consumers set hour = '{hour}' where hour > '2026-02'")
    archive = workspace.catalog.archives.get("a")

    def hours() -> list[str]:
        return [one.hour[:10] for one in workspace.catalog.consumers.all(archive)]

    assert hours()[:3] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    workspace.catalog.holds.create(archive, "case", "a law")
    assert workspace.catalog.consumers.expire(archive) == 0
    workspace.catalog.holds.release(archive, "case", "over")
    oldest = workspace.catalog.hours.select(archive)[0].hour
    assert oldest == workspace.catalog.consumers.all(archive)[-1].hour
    assert expire(workspace, "a").hours == 0
    # That of the oldest hour itself is of after its first messages.
    assert hours() == ["2026-01-03", oldest[:10]]


def test_a_purge_takes_it(workspace: Workspace, wire: Wire, bucket: str) -> None:
    filled(wire)
    app(workspace).make(ack_policy="explicit")
    assert kept(workspace, wire, bucket)
    remove.delete(workspace, "a", purge=True)
    assert [key for key, _ in workspace.bucket(bucket).list()] == []


def test_runs_and_seals_keep_them(workspace: Workspace, wire: Wire, bucket: str, nats3: Command) -> None:
    """At the end of a run, also of one that has nothing to capture; one that fails keeps nothing."""
    filled(wire)
    app(workspace).make(ack_policy="explicit")
    create(workspace, ArchiveSpec(name="a", stream="EV", bucket=bucket))
    archive = workspace.catalog.archives.get("a")

    def delivered() -> list[int]:
        return [_position(workspace, kept).delivered.stream for kept in workspace.catalog.consumers.all(archive)]

    def run_hours(hours: list[str], perform: Perform) -> None:
        list(capture_hours(workspace, archive, HourRun(hours), perform, lambda *_: None))

    def unreadable(planned: CapturePlan) -> Any:
        return [], SourceError("no")

    hours = hours_of(wire, "EV")
    run_hours(hours, lambda planned: (read(workspace, planned), None))
    assert delivered() == [0]
    app(workspace).take(4)
    assert nats3.ok("store", "run", "a").err.startswith("Archive a is complete")
    assert delivered() == [0, 4]
    app(workspace).take(2)
    # As if the hour had ended.
    list(seal_complete(workspace, archive, hours))
    assert delivered() == [0, 4, 6]
    workspace.bucket(bucket).delete(owner_key(archive_prefix("", "a")))
    app(workspace).take(1)
    run_hours(hours, unreadable)
    run_hours([], unreadable)
    assert delivered() == [0, 4, 6]


def _position(workspace: Workspace, kept: KeptConsumers) -> ConsumerPosition:
    (one,) = decode_consumers(bytes(workspace.bucket(kept.bucket).get(kept.key)), kept.key).consumers
    return one
