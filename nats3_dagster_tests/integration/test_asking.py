"""Whoever only asks about an archive's stream writes nothing: not into the catalog, the bucket or NATS."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle import change
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.seal import sealable
from nats3_dagster.archive.proof.source_check import compare
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.source.observe import checked_source, observe_source
from nats3_dagster.errors import StreamChanged
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import everything
from nats3_dagster_tests.support.wire import Wire

ASKERS: dict[str, Callable[[Workspace, Archive], object]] = {
    "the state": checked_source,
    "an observation": observe_source,
    "hours to seal": lambda workspace, archive: sealable(workspace, archive, hour_of(time.time_ns() - 3 * HOUR_NS)),
    "a comparison": lambda workspace, archive: list(compare(workspace, archive)),
    "a change of subjects": lambda workspace, archive: change.check(
        workspace, archive, change.differences(archive, {"subjects": ("ev.a",)})
    ),
    "the backlog": lambda workspace, archive: backlog(
        workspace, archive, checked_source(workspace, archive).state, time.time_ns()
    ),
}


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of a stream that has changed since the catalog saw it: 10 messages more, and a limit that removes messages."""
    wire.create_stream("EV", "ev.>")
    archive = create(workspace, ArchiveSpec("events", "EV", bucket))
    wire.publish([("ev.a", b"", b"x")] * 10)
    wire.api("STREAM.UPDATE.EV", name="EV", subjects=["ev.>"], storage="file", max_age=3600 * 10**9)
    return archive


def all_there_is(workspace: Workspace, s3_client: Any, bucket: str) -> Any:
    return everything(workspace.settings.postgres, workspace.settings.nats_url or "", s3_client, bucket)


@pytest.mark.parametrize("asker", ASKERS)
def test_asking_writes_nothing(workspace: Workspace, archive: Archive, s3_client: Any, bucket: str, asker: str) -> None:
    before = all_there_is(workspace, s3_client, bucket)
    ASKERS[asker](workspace, archive)
    assert all_there_is(workspace, s3_client, bucket) == before


def test_opening_keeps_what_it_saw(workspace: Workspace, archive: Archive) -> None:
    state = open_source(workspace, archive).state
    seen = workspace.catalog.coverage.last_state(state.incarnation)
    assert seen
    assert (seen.last_seq, seen.config["max_age"]) == (10, 3600 * 10**9)
    assert workspace.catalog.coverage.removing_settings(state.incarnation)["max_age"] == 3600 * 10**9


def test_a_stream_that_was_made_again_is_told_and_not_kept(
    workspace: Workspace, archive: Archive, wire: Wire, s3_client: Any, bucket: str
) -> None:
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    before = all_there_is(workspace, s3_client, bucket)
    assert observe_source(workspace, archive).recreated
    for refused in (checked_source, open_source):
        with pytest.raises(StreamChanged, match="deleted and made again"):
            refused(workspace, archive)
    assert all_there_is(workspace, s3_client, bucket) == before
