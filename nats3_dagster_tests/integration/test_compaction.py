"""Compaction: a sealed hour has fewer chunks afterwards, and nothing else of it is another."""

import pytest

from nats3_dagster.archive.keep.compaction import compact_hours, plan, sealed_hours
from nats3_dagster.archive.status import contents
from nats3_dagster.archive.stored import folder
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.small_chunks import HOUR, check_whole, compact, live, rows, small
from nats3_dagster_tests.support.stored import made


@pytest.fixture
def logs(workspace: Workspace, bucket: str) -> Archive:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    return archive


def test_an_hour_of_small_chunks_becomes_one(workspace: Workspace, logs: Archive) -> None:
    small(workspace, logs)
    before, version = rows(workspace, logs), contents(workspace, logs, [HOUR])[HOUR]
    old = live(workspace, logs)
    assert sealed_hours(workspace, logs) == (HOUR,)
    assert (plan(workspace, logs, HOUR).chunks, plan(workspace, logs, HOUR).after) == (6, 1)
    done = compact(workspace, logs)
    assert (done.before, done.after, done.messages) == (6, 1, 30)
    (new,) = live(workspace, logs)
    assert rows(workspace, logs).equals(before)
    assert (new.meta.covers.first, new.meta.covers.last, new.meta.messages) == (1, 30, 30)
    assert new.meta.subjects == {"a.0": 10, "a.1": 10, "a.2": 10}
    assert new.meta.payload_bytes == sum(c.meta.payload_bytes for c in old)
    assert contents(workspace, logs, [HOUR])[HOUR] == version
    (seal,) = workspace.catalog.seals.select(logs)
    assert (seal.valid, seal.number, seal.content, seal.chunks) == (True, 2, version, 1)
    check_whole(workspace, logs)
    # Nothing is left to do, and the catalog knows.
    assert sealed_hours(workspace, logs) == ()
    (again,) = compact_hours(workspace, logs, [HOUR])
    assert (again.before, again.after) == (1, 1)
