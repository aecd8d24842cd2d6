"""The id of a replay: runs that continue one find it again, in this release and in the next."""

import time
from dataclasses import replace

import psycopg
import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.defs.jobs.replays import began_at, replay_id_for, replay_to_run
from nats3_dagster.defs.jobs.run_config import WindowConfig
from nats3_dagster.defs.keys import ATTEMPT_TAG
from nats3_dagster.defs.wording import WORDS
from nats3_dagster.errors import CatalogError, OperatorError
from nats3_dagster.hours import HOUR_NS, SECOND_NS
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, Pace, ReplaySpec, Selection, SeqRange
from nats3_dagster.replay import attempt
from nats3_dagster.replay.resume import ReplayToRun
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import chunk
from nats3_dagster_tests.support.replays import dry_run
from nats3_dagster_tests.support.wire import Wire

SPEC = ReplaySpec("events", "back.>")
HOURS = ("2026-11-21-07:00", "2026-11-21-08:00")


@pytest.mark.parametrize(
    ("spec", "replay_id"),
    [
        (SPEC, "caf384f66add0ea1"),
        (
            ReplaySpec(
                "events",
                "back.>",
                Selection(HOURS, 5, 9, SeqRange(1, 7), ("ev.>",)),
                pace=Pace(speed=2.0),
                create_stream="BACK",
            ),
            "f8d53510875ab945",
        ),
    ],
)
def test_it_stays_when_the_code_changes(instance: DagsterInstance, spec: ReplaySpec, replay_id: str) -> None:
    """A release with other ids would publish once more what the one before it had begun: a new field of the spec must
    not change the ids of replays that do not use it."""
    run = DagsterRun(job_name="events_replay", run_id="11111111-1111-1111-1111-111111111111")
    assert replay_id_for(instance, run, spec) == replay_id


def test_a_run_continues_what_failed_and_begins_anew_what_succeeded(instance: DagsterInstance) -> None:
    def run(status: DagsterRunStatus, parent: DagsterRun | None = None) -> DagsterRun:
        parent_id = parent.run_id if parent else None
        return create_run_for_test(
            instance, job_name="events_replay", status=status, parent_run_id=parent_id, root_run_id=parent_id
        )

    first = run(DagsterRunStatus.FAILURE)
    second = run(DagsterRunStatus.CANCELED, first)
    third = run(DagsterRunStatus.SUCCESS, second)
    fourth = run(DagsterRunStatus.STARTED, third)
    first_id = replay_id_for(instance, first, SPEC)
    assert [replay_id_for(instance, r, SPEC) for r in (second, third)] == [first_id, first_id]
    assert replay_id_for(instance, fourth, SPEC) != first_id
    # Another selection is another replay.
    assert replay_id_for(instance, second, ReplaySpec("events", "back.>", Selection(HOURS))) != first_id


def test_a_run_that_is_executed_again_selects_the_same_times(instance: DagsterInstance) -> None:
    def window(run: DagsterRun) -> ReplaySpec:
        config = WindowConfig(archive="events", write_subject="back.>", from_time="-2h")
        return config.window(began_at(instance, run))

    first = create_run_for_test(instance, job_name="replay", status=DagsterRunStatus.FAILURE)
    again = create_run_for_test(instance, job_name="replay", parent_run_id=first.run_id, root_run_id=first.run_id)
    assert window(again) == window(first)
    from_ns = window(first).selection.from_ns
    assert from_ns is not None
    assert 0 <= time.time_ns() - 2 * HOUR_NS - from_ns < 60 * SECOND_NS
    other = create_run_for_test(instance, job_name="replay")
    assert window(other) != window(first)


class Story:
    """An archive of one hour, and runs that replay it into BACK. Nothing is published."""

    def __init__(self, workspace: Workspace, instance: DagsterInstance, wire: Wire, bucket: str) -> None:
        self.workspace, self.instance = workspace, instance
        wire.create_stream("EV", "ev.>")
        wire.create_stream("BACK", "back.>")
        wire.publish([("ev.a", b"", b"x")] * 10)
        archive = create(workspace, ArchiveSpec("events", "EV", bucket))
        state = stream_state(workspace.link, "EV")
        made = chunk(1, 10, archive="events", incarnation=state.incarnation, bucket=bucket, subjects={"ev.a": 10})
        workspace.bucket(bucket).put_new(made.key, b"x" * made.stored_bytes, made.sha256)
        workspace.catalog.chunks.commit(archive, [made])

    def run(self, parent: DagsterRun | None = None) -> DagsterRun:
        """A new run, or one that re-executes a failed one as the UI does: with its tags."""
        parent_id = parent.run_id if parent else None
        before = self.instance.get_run_by_id(parent_id) if parent_id else None
        return create_run_for_test(
            self.instance,
            job_name="events_replay",
            status=DagsterRunStatus.STARTED,
            parent_run_id=parent_id,
            root_run_id=parent_id,
            tags=dict(before.tags) if before else {},
        )

    def fail(self, run: DagsterRun, found: ReplayToRun) -> None:
        """One attempt of the run, which fails."""
        number = self.workspace.catalog.replays.start_attempt(found.replay.id)
        self.instance.add_run_tags(run.run_id, {ATTEMPT_TAG: str(number)})
        self.workspace.catalog.replays.finish(found.replay.id, number, "failed", "the target was overloaded")

    def replay_to_run(self, run: DagsterRun, spec: ReplaySpec = SPEC) -> ReplayToRun:
        return replay_to_run(self.workspace, self.instance, run, spec)

    def sql(self, statement: str) -> None:
        with psycopg.connect(self.workspace.settings.postgres, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture
def story(workspace: Workspace, instance: DagsterInstance, wire: Wire, bucket: str) -> Story:
    return Story(workspace, instance, wire, bucket)


def test_a_run_that_is_executed_again_at_another_pace_goes_on(story: Story) -> None:
    first = story.run()
    begun = story.replay_to_run(first)
    story.fail(first, begun)
    slower = replace(SPEC, pace=Pace(rate=500), order="none", over_gaps=True)
    again = story.replay_to_run(story.run(first), slower)
    assert (again.replay.id, again.replay.spec.pace, again.replay.spec.order) == (
        begun.replay.id,
        Pace(rate=500),
        "stream",
    )
    assert again.notes == (
        "goes on: 0 of 1 chunks are done",
        "keeps the order stream with which it began",
        "has another pace from now on",
    )
    assert len(story.workspace.catalog.replays.select()) == 1


def test_a_new_run_of_what_another_one_began_is_refused_with_both_ways_out(story: Story) -> None:
    first = story.run()
    begun = story.replay_to_run(first)
    story.fail(first, begun)
    with pytest.raises(OperatorError) as caught:
        story.replay_to_run(story.run())
    known = begun.replay.id
    assert caught.value.text_in(WORDS) == (
        f"Replay {known} of the same selection to back.> is failed, with 0 of 1 chunks done. To go on with it, "
        f"re-execute its run from failure; or in a shell: nats3 load resume {known}. To publish all of it once more, "
        f"first delete it in a shell: nats3 load delete {known}"
    )
    with pytest.raises(OperatorError, match="of the same selection"):
        dry_run(story.workspace, SPEC)
    # Of other subjects it is another replay.
    assert story.replay_to_run(story.run(), replace(SPEC, selection=Selection(subjects=("ev.>",)))).replay.id
    story.workspace.catalog.replays.delete(begun.replay.id)
    assert story.replay_to_run(story.run()).replay.id != begun.replay.id


def test_a_replay_that_was_deleted_does_not_come_back(story: Story) -> None:
    first = story.run()
    begun = story.replay_to_run(first)
    story.fail(first, begun)
    story.workspace.catalog.replays.delete(begun.replay.id)
    with pytest.raises(OperatorError) as caught:
        story.replay_to_run(story.run(first))
    assert caught.value.text_in(WORDS) == (
        f"Replay {begun.replay.id} was deleted, and what it published stays. To publish all of it once more, launch "
        "a new run instead of executing this one again"
    )


def test_a_replay_that_the_catalog_forgot_is_an_error(story: Story) -> None:
    """As after a standby took over that had not received its commit."""
    first = story.run()
    begun = story.replay_to_run(first)
    story.fail(first, begun)
    story.sql("truncate nats3.replay cascade")
    with pytest.raises(CatalogError) as caught:
        story.replay_to_run(story.run(first))
    assert str(caught.value).startswith(
        f"The catalog has forgotten replay {begun.replay.id}, which was begun: Postgres is a restored backup, or a "
        "standby that took over before it had every commit. See what its targets hold of it"
    )
    assert story.workspace.catalog.replays.select() == ()


def test_an_attempt_that_the_catalog_forgot_is_not_the_first_one_again(story: Story) -> None:
    first = story.run()
    begun = story.replay_to_run(first)
    story.fail(first, begun)
    story.sql("delete from nats3.replay_attempt")
    story.sql("update nats3.replay set attempt = 0, state = 'planned'")
    again = story.replay_to_run(story.run(first))
    assert "the catalog has forgotten attempt 1" in again.notes[1]
    job = attempt.start(story.workspace, again.replay.id).job
    assert (job.attempt, job.resumed) == (2, True)
