"""Whatever changes an archive leaves its table with exactly the live chunks, wherever a process is killed."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.tables import tables
from nats3_dagster.tables.follow import follow, followed
from nats3_dagster.tables.tables import verify
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.source_checks import capture_without
from nats3_dagster_tests.support.tables import files, live, numbers, seqs, synced
from nats3_dagster_tests.support.wire import Wire

MESSAGES = [(f"ev.{n}", b"", b"%d" % n) for n in range(20)]
pytestmark = [pytest.mark.steady_hour(60), pytest.mark.s3]


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """An archive without chunks, of a stream of 20 messages that keeps one of each subject, with a table."""
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    wire.publish(MESSAGES)
    found = create(workspace, ArchiveSpec("events", "EV", bucket))
    tables.create(workspace, "events")
    return found


@pytest.fixture
def damaged(workspace: Workspace, archive: Archive, wire: Wire, s3_client: Any) -> Archive:
    """The archive with a chunk of all messages, of which the stream has 12 more, in the table; its object is bad."""
    captures.capture(workspace, archive, wire)
    synced(workspace, "events")
    (chunk,) = live(workspace, archive)
    s3_client.put_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key, Body=b"damaged")
    wire.publish(MESSAGES[:8])
    return archive


def is_equal(workspace: Workspace, archive: Archive) -> bool:
    """Whether the table is the archive's, by two that do not know of each other."""
    known = tables.find(workspace, "events")
    urls = {workspace.settings.object_url(c.meta.bucket, c.meta.key) for c in live(workspace, archive)}
    return files(workspace, "events") == urls and not verify(workspace, known).faults and not known.is_behind


def killed(step: str, *words: str) -> None:
    """Run a command that is killed at this step."""
    command = [sys.executable, "-m", "nats3_dagster.cli", *words]
    ran = subprocess.run(
        command, env=os.environ | {"NATS3_FAULT": f"{step}:kill"}, capture_output=True, timeout=120, check=False
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr


def test_a_repair(nats3: Command, workspace: Workspace, damaged: Archive) -> None:
    assert nats3("chunk", "repair", "events", "--accept-loss", "-o", "json").json["repaired"] == 1
    assert is_equal(workspace, damaged)
    assert seqs(workspace, "events") == numbers((9, 20))


@pytest.mark.parametrize("step", ["capture.object_put", "table.loaded", "table.committed"])
def test_a_repair_that_is_killed(nats3: Command, workspace: Workspace, damaged: Archive, step: str) -> None:
    before = live(workspace, damaged)
    killed(step, "chunk", "repair", "events", "--accept-loss")
    was_committed = step != "capture.object_put"
    assert (live(workspace, damaged) != before) is was_committed
    assert tables.find(workspace, "events").is_behind is was_committed
    assert follow(workspace) == {}
    assert is_equal(workspace, damaged)
    nats3("chunk", "repair", "events", "--accept-loss")
    assert is_equal(workspace, damaged)
    assert seqs(workspace, "events") == numbers((9, 20))


@pytest.mark.parametrize("step", ["", "table.loaded", "table.committed"])
def test_what_the_stream_has_and_the_archive_lacks(
    nats3: Command, workspace: Workspace, archive: Archive, wire: Wire, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    capture_without(workspace, archive, wire, monkeypatch, 5, 6)
    synced(workspace, "events")
    assert seqs(workspace, "events") == numbers((1, 4), (7, 20))
    words = ("chunk", "verify", "events", "--source", "--repair")
    if step:
        killed(step, *words)
        assert not follow(workspace)
    else:
        nats3(*words)
    assert is_equal(workspace, archive)
    assert seqs(workspace, "events") == numbers((1, 20))


@pytest.mark.parametrize("purge", [(), ("--purge",)], ids=["kept", "purged"])
def test_a_deleted_archive(
    nats3: Command, workspace: Workspace, archive: Archive, wire: Wire, purge: tuple[str, ...]
) -> None:
    captures.capture(workspace, archive, wire)
    synced(workspace, "events")
    nats3.ok("store", "delete", "events", "--yes", *purge)
    assert is_equal(workspace, archive)
    assert files(workspace, "events") == set()


@pytest.mark.parametrize("step", ["delete.claimed", "table.loaded", "table.committed"])
def test_a_deletion_that_is_killed(workspace: Workspace, archive: Archive, wire: Wire, step: str) -> None:
    captures.capture(workspace, archive, wire)
    synced(workspace, "events")
    killed(step, "store", "delete", "events", "--yes", "--purge")
    assert tables.find(workspace, "events").archive_deleted
    assert tables.find(workspace, "events").is_behind
    assert follow(workspace) == {}
    assert is_equal(workspace, archive)
    assert files(workspace, "events") == set()


def test_what_fails_half_way_is_in_the_table(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    captures.capture(workspace, archive, wire)
    synced(workspace, "events")
    (chunk,) = live(workspace, archive)
    with pytest.raises(OperatorError, match="half-way"), followed(workspace, "events"):
        workspace.catalog.chunks.retire(archive, [chunk.id])
        raise OperatorError("half-way")
    assert is_equal(workspace, archive)
    assert files(workspace, "events") == set()
