"""A stream that forgot its end and gave the sequences out again: one captured message shows it."""

import shutil
import time
from dataclasses import replace

import pytest

from nats3_dagster.archive.captures.commit import commit
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health.nats_health import check
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.source.condition import condition
from nats3_dagster.errors import OperatorError, StreamChanged
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive, ArchiveSpec, Gap, SeqRange, Witness
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.wire import Wire

FORGOT = "has a message of .* at sequence 100, and archive events holds one of .* there: the server forgot messages"


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of a stream with 100 messages, captured without objects."""
    wire.create_stream("EV", "ev.>")
    archive = create(workspace, ArchiveSpec("events", "EV", bucket))
    wire.publish([("ev.a", b"", b"x")] * 100)
    take(workspace, archive)
    return archive


def take(workspace: Workspace, archive: Archive) -> None:
    """A capture of the open hour that puts everything down as a gap."""
    planned = plan_hours(workspace, archive, [hour_of(time.time_ns())])
    commit(workspace, planned, [Gap(planned.job.state.incarnation, planned.missing, "unselected")])


def refill(workspace: Workspace, archive: Archive) -> None:
    """As if the server had forgotten its newest messages and stored others since: what the archive remembers of the
    newest captured message is of a minute before."""
    coverage = workspace.catalog.coverage
    state = open_source(workspace, archive).state
    kept = coverage.witness(archive, state.incarnation)
    assert kept == Witness(100, kept.time_ns if kept else 0)
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("update nats3.coverage set witness_ns = witness_ns - 60000000000")


def test_the_newest_captured_message_is_remembered(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    coverage, incarnation = workspace.catalog.coverage, open_source(workspace, archive).state.incarnation
    assert coverage.witness(archive, incarnation) == Witness(100, open_source(workspace, archive).state.last_ns)
    wire.publish([("ev.a", b"", b"x")] * 20)
    wire.api("STREAM.MSG.DELETE.EV", seq=120)
    take(workspace, archive)
    # A deleted message has no time: the one before stays.
    kept = coverage.witness(archive, incarnation)
    assert kept == Witness(100, kept.time_ns if kept else 0)
    wire.publish([("ev.a", b"", b"x")])
    take(workspace, archive)
    kept = coverage.witness(archive, incarnation)
    assert kept == Witness(121, kept.time_ns if kept else 0)


def test_every_look_at_the_stream_notices_it(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    wire.publish([("ev.a", b"", b"x")] * 20)
    refill(workspace, archive)
    with pytest.raises(StreamChanged, match=FORGOT) as caught:
        open_source(workspace, archive)
    assert str(caught.value).endswith(
        "Create another archive of the stream for what comes, and set sync_interval: always on the server"
    )
    with pytest.raises(StreamChanged, match=FORGOT):
        plan_hours(workspace, archive, [hour_of(time.time_ns())])
    now = condition(workspace, archive)
    assert (now.source, str(now.error)) == ("shrunk", str(caught.value))
    (failed,) = [finding for finding in check(workspace) if finding.status == "fail"]
    assert caught.value.what in failed.what


def test_a_server_that_lost_its_newest_writes(settings: Settings, nats_factory: NatsFactory, bucket: str) -> None:
    """The store of before comes back, as after a power cut, and the stream goes on past what is archived."""
    server = nats_factory()
    with Workspace(settings.model_copy(update={"nats_url": server.url})) as workspace:
        with Wire(server.url) as wire:
            wire.create_stream("EV", "ev.>")
            wire.publish([("ev.a", b"", b"old")] * 90)
        archive = create(workspace, ArchiveSpec("events", "EV", bucket))
        server.stop()
        shutil.copytree(server.folder, f"{server.folder}-before")
        server.start()
        with Wire(server.url) as wire:
            wire.publish([("ev.a", b"", b"old")] * 10)
        take(workspace, archive)
        server.stop()
        shutil.rmtree(server.folder)
        shutil.move(f"{server.folder}-before", server.folder)
        server.start()
        with Wire(server.url) as wire:
            wire.publish([("ev.a", b"", b"new")] * 60)
        with pytest.raises(StreamChanged, match=FORGOT):
            open_source(workspace, archive)


def test_a_message_that_is_gone_says_nothing(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    refill(workspace, archive)
    wire.api("STREAM.MSG.DELETE.EV", seq=100)
    assert condition(workspace, archive).source == "ok"
    wire.publish([("ev.a", b"", b"x")] * 20)
    assert backlog(workspace, archive, open_source(workspace, archive).state, time.time_ns()).behind == 20


def test_what_was_read_of_two_histories_is_not_committed(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    wire.publish([("ev.a", b"", b"x")] * 20)
    planned = plan_hours(workspace, archive, [hour_of(time.time_ns())])
    assert planned.witness
    (window,) = planned.windows
    assert window.seqs
    gap = Gap(planned.job.state.incarnation, planned.missing, "unselected")
    other = replace(planned, witness=replace(planned.witness, time_ns=planned.witness.time_ns - 1))
    beyond = replace(planned, windows=(replace(window, seqs=SeqRange(window.seqs.first, window.seqs.last + 1)),))
    for changed, error in ((other, "at sequence 120"), (beyond, "ends at sequence 120")):
        with pytest.raises(StreamChanged, match=error):
            commit(workspace, changed, [gap])
    assert workspace.catalog.coverage.of(archive, planned.job.state.incarnation).last == 100
    # Of a stream that was made again meanwhile, what was read is all that is left.
    wire.api("STREAM.DELETE.EV")
    commit(workspace, planned, [gap])
    assert workspace.catalog.coverage.of(archive, planned.job.state.incarnation).last == 120


@pytest.mark.needs_nats("2.10")  # 2.9 changes no retention
def test_a_stream_that_was_given_another_retention(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    wire.api("STREAM.UPDATE.EV", name="EV", subjects=["ev.>"], storage="file", retention="interest")
    with pytest.raises(OperatorError, match="Stream EV has interest retention: its consumers decide"):
        open_source(workspace, archive)
