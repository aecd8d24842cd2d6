"""Pages of a replay: whatever ends an attempt, or changes between two, each message goes out once and in order."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pytest

from nats3_dagster.archive.stored import folder
from nats3_dagster.errors import CatalogError, ObjectMissing, Paused, TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import Archive, Chunk, Pace, ReplaySpec, Selection
from nats3_dagster.replay import attempt, pages
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.control import delete
from nats3_dagster.replay.drive import drive
from nats3_dagster.replay.job import Reached, ReplayJob, shares
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import pending, publish_here, published
from nats3_dagster_tests.support.small_chunks import compact, live, small, swept
from nats3_dagster_tests.support.stored import made
from nats3_dagster_tests.support.wire import Wire

SPEC = ReplaySpec("logs", "back.>", Selection(subjects=("a.>",)), over_gaps=True)


@pytest.fixture
def logs(workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Six chunks of five messages: three pages."""
    monkeypatch.setattr(pages, "PAGE", 2)
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    wire.create_stream("BACK", "back.>", duplicate_window=100_000_000)
    small(workspace, archive)
    return archive


def arrived(wire: Wire) -> list[int]:
    return [int(message.data) for message in wire.messages("BACK")]


@dataclass
class Publishing:
    """Publishes in this process, and keeps what it was given."""

    # Called after each page was published, before it is recorded, with the number of the page.
    after: Callable[[int], object] = lambda number: None
    jobs: list[ReplayJob] = field(default_factory=list[ReplayJob])
    chunks: list[tuple[Chunk, ...]] = field(default_factory=list[tuple[Chunk, ...]])

    def __call__(self, job: ReplayJob, chunks: tuple[Chunk, ...]) -> Any:
        self.jobs.append(job)
        self.chunks.append(chunks)
        answer = publish_here(job, chunks)
        self.after(len(self.jobs))
        return answer

    @property
    def sizes(self) -> list[int]:
        return [len(chunks) for chunks in self.chunks]


def killed(workspace: Workspace, replay_id: str, first: int, last: int) -> None:
    """An attempt that published these chunks, from 0, and was killed before it recorded one."""
    started = attempt.start(workspace, replay_id)
    published(started.job, pending(workspace, replay_id)[first : last + 1])


def test_a_page_is_recorded_before_the_next_one_is_asked_for(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    replay, _ = begin(workspace, SPEC)
    recorded: list[int] = []
    publishing = Publishing(lambda _: recorded.append(workspace.catalog.replays.get(replay.id).chunks_done))
    progress: list[tuple[int, int]] = []
    done = drive(workspace, replay.id, publishing, on_progress=lambda p: progress.append((p.done, p.total)))
    assert (publishing.sizes, recorded, arrived(wire)) == ([2, 2, 2], [0, 2, 4], list(range(1, 31)))
    assert (done.chunks, done.selected, done.replay.state) == (6, 30, "succeeded")
    assert [job.until and job.until[1] for job in publishing.jobs] == [10, 20, None]
    assert [[(one.covers.first, one.covers.last, one.messages) for one in job.done] for job in publishing.jobs] == [
        [],
        [(1, 10, 10)],
        [(1, 20, 20)],
    ]
    # The total is that of the attempt, also while a page is published.
    assert {total for _, total in progress} == {30}
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


def test_the_targets_are_asked_for_the_page_that_was_begun(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    """The first page was recorded; of the second one a chunk was published."""
    replay, _ = begin(workspace, SPEC)

    def second(job: ReplayJob, chunks: tuple[Chunk, ...]) -> Any:
        if job.done:
            publish_here(job, chunks[:1])
            raise KeyboardInterrupt
        return publish_here(job, chunks)

    with pytest.raises(KeyboardInterrupt):
        drive(workspace, replay.id, second)
    assert arrived(wire) == list(range(1, 16))
    publishing = Publishing()
    done = drive(workspace, replay.id, publishing)
    assert (done.published, done.found, publishing.sizes) == (15, 5, [2, 2])
    assert [job.resumed for job in publishing.jobs] == [True, False]
    assert arrived(wire) == list(range(1, 31))


@pytest.mark.parametrize("order", ["stream", "none"])
def test_a_page_reaches_as_far_as_an_earlier_attempt_came(
    workspace: Workspace, logs: Archive, wire: Wire, order: Any
) -> None:
    """As after a release that knew no pages, or where Postgres has lost that a page was recorded."""
    replay, _ = begin(workspace, replace(SPEC, order=order))
    killed(workspace, replay.id, 0, 2)
    publishing = Publishing()
    done = drive(workspace, replay.id, publishing)
    assert (done.published, done.found, publishing.sizes) == (15, 15, [2, 4, 2])
    assert [job.resumed for job in publishing.jobs] == [True, True, False]
    assert arrived(wire) == list(range(1, 31))


def test_what_comes_too_early_in_the_target_is_seen_from_page_to_page(
    workspace: Workspace, logs: Archive, wire: Wire
) -> None:
    """The target has the third chunk and not the first two: page by page alone, these would be put behind it."""
    replay, _ = begin(workspace, SPEC)
    killed(workspace, replay.id, 2, 2)
    with pytest.raises(TargetError, match="holds a message on .* and not one that comes before it"):
        drive(workspace, replay.id, publish_here)
    # Where no order is kept it goes on.
    delete(workspace, replay.id)
    wire.api("STREAM.PURGE.BACK")
    other, _ = begin(workspace, replace(SPEC, order="none"))
    killed(workspace, other.id, 2, 2)
    done = drive(workspace, other.id, publish_here)
    assert (done.published, done.found) == (25, 5)
    assert sorted(arrived(wire)) == list(range(1, 31))


def test_a_chunk_that_is_done_after_the_page_makes_it_no_longer(
    workspace: Workspace, logs: Archive, wire: Wire
) -> None:
    """Of an attempt without pages whose second task was ahead of the first: it had recorded the last chunk."""
    replay, _ = begin(workspace, replace(SPEC, order="none"))
    started = attempt.start(workspace, replay.id)
    last = published(started.job, pending(workspace, replay.id)[5:])
    attempt.record(workspace, started.job, last, TargetError("It stopped here"))
    publishing = Publishing()
    done = drive(workspace, replay.id, publishing)
    assert (done.published, done.found, publishing.sizes) == (25, 0, [2, 2, 1])
    assert sorted(arrived(wire)) == list(range(1, 31))


def test_a_compaction_between_two_pages(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    replay, _ = begin(workspace, SPEC)
    publishing = Publishing(lambda number: compact(workspace, logs) if number == 1 else None)
    drive(workspace, replay.id, publishing)
    assert arrived(wire) == list(range(1, 31))
    assert [[bool(chunk.merged_into) for chunk in page] for page in publishing.chunks] == [
        [False, False],
        [True, True],
        [True, True],
    ]
    assert swept(workspace) == 7
    assert len(live(workspace, logs)) == 1


def test_a_chunk_that_is_taken_out_between_two_pages_is_an_error(
    workspace: Workspace, logs: Archive, wire: Wire
) -> None:
    replay, _ = begin(workspace, SPEC)
    *_, last = pending(workspace, replay.id)
    publishing = Publishing(lambda number: workspace.catalog.chunks.retire(logs, [last.id]) if number == 1 else None)
    with pytest.raises(CatalogError, match=f"still needs 1 chunks that were retired, {last.meta.key} first"):
        drive(workspace, replay.id, publishing)
    assert arrived(wire) == list(range(1, 21))
    now = workspace.catalog.replays.get(replay.id)
    assert (now.state, now.chunks_done) == ("failed", 4)


def test_all_objects_are_looked_for_before_the_first_page(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    replay, _ = begin(workspace, SPEC)
    *_, last = pending(workspace, replay.id)
    workspace.bucket(last.meta.bucket).delete(last.meta.key)
    with pytest.raises(ObjectMissing, match=last.meta.key):
        drive(workspace, replay.id, publish_here)
    assert (arrived(wire), workspace.catalog.replays.get(replay.id).attempt) == ([], 0)


def test_a_pause_between_two_pages(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    replay, _ = begin(workspace, SPEC)
    with pytest.raises(Paused):
        drive(workspace, replay.id, Publishing(lambda _: workspace.catalog.replays.ask_pause(replay.id)))
    assert arrived(wire) == list(range(1, 11))
    assert workspace.catalog.replays.get(replay.id).state == "paused"


def test_a_driver_that_lost_its_lock_begins_no_page(
    workspace: Workspace, logs: Archive, wire: Wire, postgres_url: str
) -> None:
    """Another process may have the lock, and publish."""
    replay, _ = begin(workspace, SPEC)

    def end_lock(_: int) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and database = "
                "(select oid from pg_database where datname = current_database())"
            )

    with pytest.raises(CatalogError):
        drive(workspace, replay.id, Publishing(end_lock))
    assert arrived(wire) == list(range(1, 11))


def test_the_original_timing_goes_on_from_page_to_page(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    replay, _ = begin(workspace, replace(SPEC, pace=Pace(speed=1e9)))
    publishing = Publishing()
    drive(workspace, replay.id, publishing)
    ends = [chunks[-1].meta.last_ns for chunks in publishing.chunks]
    assert [job.timing and job.timing[1] for job in publishing.jobs] == [None, *ends[:2]]


def test_a_target_that_is_asked_again_within_a_page(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    """A task answers with how far the target has messages before it publishes one."""
    replay, _ = begin(workspace, SPEC)
    killed(workspace, replay.id, 0, 3)
    started = attempt.start(workspace, replay.id)
    chunks = pending(workspace, replay.id)
    job = replace(started.job, until=(chunks[0].meta.incarnation.token, chunks[0].meta.covers.last))
    with Link(workspace.settings.nats) as link:
        (answer,) = Republisher(shares(job, chunks[:1], 1)[0], link).results()
    assert answer == Reached(chunks[0].meta.incarnation.token, 20)
    assert arrived(wire) == list(range(1, 21))
