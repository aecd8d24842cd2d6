"""Faults: compactions that die at each step, that meet each other, replays, reads, exports and tables; and the cleaning
of the catalog."""

from functools import partial
from typing import Any

from nats3_dagster_tests.faults import (
    compact_jobs,
    cursor_faults,
    cursor_jobs,
    export_jobs,
    jobs,
    table_faults,
    table_jobs,
)
from nats3_dagster_tests.faults.export_faults import Exported
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

POINTS = {
    "planned": "a compaction before it reads",
    "chunk_read": "a compaction that has read some chunks",
    "object_put": "a compaction that put an object and did not read it again",
    "proven": "a compaction whose object is proven equal",
    "in_swap": "a compaction in its transaction",
    "swapped": "a compaction after its transaction, before the hour is sealed again",
    "sealed": "a compaction after the hour was sealed again",
}
_DELETE = ("claimed", "deleted", "finished")
_CLEAN = (
    "fold_replay",
    "join_retired",
    "forget_chunks",
    "forget_seals",
    "forget_removals",
    "forget_captures_of_deleted",
    "forget_export_hours",
)


def grow(trial: Trial, times: int = 0) -> None:
    """Captures of few messages, so that an hour has many small chunks; all of them sealed."""
    for _ in range(times or trial.random.randint(3, 8)):
        trial.publish(trial.random.randint(5, 60))
        trial.must(jobs.capture, ARCHIVE)
    trial.must(compact_jobs.seal_each, ARCHIVE)


def made(trial: Trial) -> None:
    """An archive of small chunks, whose old objects may be swept at once."""
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    if trial.random.random() < 0.5:
        trial.environment[jobs.MERGE_IN_TASKS] = "yes"
    trial.make_stream(trial.random.randint(20, 120))
    trial.must(jobs.capture, ARCHIVE)
    grow(trial)


def broken(trial: Trial, point: str = "") -> str:
    rng = trial.random
    point = point or rng.choice([*POINTS])
    action = rng.choice(("kill", "kill", "raise"))
    return f"compact.{point}:{action}:{rng.randint(1, 4) if point == 'chunk_read' else 1}"


def finish(trial: Trial) -> None:
    """All hours are sealed and compacted, and what is not needed is swept: then no two small chunks are neighbours, and
    everything else is as it was."""
    trial.finish(compact_jobs.seal_each, ARCHIVE)
    trial.finish(compact_jobs.compact, ARCHIVE)
    trial.judge_archive()
    trial.judge_seals()
    # The messages of one or two hours.
    left = len(trial.live_objects())
    trial.expect(left <= 2, "stuck", f"{left} chunks are left")
    trial.finish(compact_jobs.sweep)
    trial.finish(compact_jobs.sweep_orphans)
    trial.judge_archive()
    trial.judge_seals()
    live = {key for _, key in trial.live_objects()}
    rest = [key for key in trial.stored_keys() if key.endswith(".parquet") and key not in live]
    trial.expect(not rest, "stuck", f"{len(rest)} objects are left that no chunk has: {rest[:2]}")


def killed(trial: Trial, step: str) -> None:
    made(trial)
    for _ in range(trial.random.randint(1, 2)):
        trial.run(compact_jobs.try_compact, ARCHIVE, fault=broken(trial, step))
        trial.judge_archive()
        if trial.random.random() < 0.4:
            trial.run(
                compact_jobs.sweep, fault=trial.random.choice(("", f"delete.{trial.random.choice(_DELETE)}:kill"))
            )
            trial.judge_archive()
        if trial.random.random() < 0.4:
            grow(trial, 1)
    finish(trial)


for _point, _breaks in POINTS.items():
    fault(f"kill compact.{_point}", f"kill -9 of {_breaks}", short=_point == "swapped")(partial(killed, step=_point))


@fault("two compactions", "two or three compactions of an archive at once, beside captures and seals", short=True)
def two_at_once(trial: Trial) -> None:
    made(trial)
    rng = trial.random
    others: list[tuple[Any, ...]] = [(jobs.capture, ARCHIVE), (compact_jobs.seal_each, ARCHIVE), (compact_jobs.sweep,)]
    points = [f"compact.{rng.choice([*POINTS])}:sleep={rng.random() / 2:.2f}" for _ in range(rng.randint(2, 3))]
    started = [trial.start(compact_jobs.try_compact, ARCHIVE, fault=point) for point in points]
    if rng.random() < 0.5:
        trial.publish(rng.randint(1, 60))
        started.append(trial.start(*rng.choice(others)))
    for job in started:
        ended = trial.end(job, "one of several at once")
        trial.expect(ended.ok or "hanged" in ended.text, "unclear", f"it ended with: {ended}")
    # What was published beside them may not be captured yet.
    trial.finish(jobs.capture, ARCHIVE)
    trial.judge_archive()
    finish(trial)


@fault(
    "compaction during a replay",
    "an hour is compacted and swept while a replay of it runs, dies and resumes",
    short=True,
)
def during_a_replay(trial: Trial) -> None:
    made(trial)
    trial.make_target()
    rng = trial.random
    replay = trial.begin_replay(order=rng.choice(("stream", "stream", "subject", "none")))
    point = f"replay.{rng.choice(('attempt_started', 'chunk_fetched', 'sent', 'acknowledged', 'before_record'))}"
    with trial.held(point, jobs.replay, replay, passes=rng.randint(1, 3)) as job:
        trial.run(compact_jobs.try_compact, ARCHIVE, fault=broken(trial) if rng.random() < 0.3 else "")
        trial.must(compact_jobs.sweep)
        if rng.random() < 0.5:
            job.kill()
    trial.note("the replay", job.wait(60))
    if rng.random() < 0.5:
        grow(trial, 1)
        trial.run(compact_jobs.try_compact, ARCHIVE)
    trial.must(compact_jobs.sweep)
    trial.finish(jobs.replay, replay, refusals=("has succeeded",))
    messages = trial.stored()
    target = {message.data for message in messages}
    trial.expect(len(target) == len(messages), "doubled", "the target has messages twice")
    finish(trial)


@fault(
    "compaction between two pages of a replay",
    "an hour is compacted and swept while a replay is between two of its pages, goes on, or dies there and resumes",
    short=True,
)
def between_two_pages(trial: Trial) -> None:
    made(trial)
    trial.make_target(duplicate_window=100_000_000)
    rng = trial.random
    order = rng.choice(("stream", "stream", "subject", "none"))
    replay = trial.begin_replay(order=order)
    for _ in range(rng.randint(1, 2)):
        with trial.held("replay.recorded", jobs.replay, replay, passes=rng.randint(1, 2)) as job:
            trial.run(compact_jobs.try_compact, ARCHIVE, fault=broken(trial) if rng.random() < 0.3 else "")
            trial.must(compact_jobs.sweep)
            if rng.random() < 0.6:
                job.kill()
        trial.note("the replay", job.wait(60))
        trial.must(compact_jobs.sweep)
    trial.finish_replay(replay, ordered=order == "stream")
    finish(trial)


@fault("compaction during a read", "hours are compacted and swept while a reader is stopped, or runs", short=True)
def during_a_read(trial: Trial) -> None:
    made(trial)
    reader = cursor_faults.program(trial)
    for _ in range(trial.random.randint(1, 3)):
        point = trial.random.choice(("yielded", "saved"))
        with trial.held(
            f"cursor.{point}", cursor_jobs.read, ARCHIVE, reader, passes=trial.random.randint(1, 60)
        ) as job:
            trial.run(compact_jobs.try_compact, ARCHIVE)
            trial.must(compact_jobs.sweep)
            if trial.random.random() < 0.6:
                job.kill()
        trial.note("the reader", job.wait(60))
        grow(trial, 1)
    trial.finish(cursor_jobs.read, ARCHIVE, reader)
    cursor_faults.judge(trial, reader)
    finish(trial)


@fault("compaction beside a table", "hours are compacted while the table of their archive is synced", store="file")
def beside_a_table(trial: Trial) -> None:
    rng = trial.random
    table_faults.make_table(trial)
    for _ in range(rng.randint(1, 3)):
        grow(trial, rng.randint(1, 3))
        with trial.held(rng.choice(table_faults.STEPS), table_jobs.sync_table, ARCHIVE) as job:
            trial.run(compact_jobs.try_compact, ARCHIVE, fault=broken(trial) if rng.random() < 0.5 else "")
        trial.note("the sync", job.wait(60))
    table_faults.finish(trial)
    trial.finish(compact_jobs.seal_each, ARCHIVE)
    trial.finish(compact_jobs.compact, ARCHIVE)
    table_faults.finish(trial)
    trial.judge_archive()


@fault("compaction beside an export", "hours are compacted while they are exported", since=(2, 15))
def beside_an_export(trial: Trial) -> None:
    rng = trial.random
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    exported = Exported(trial)
    exported.create()
    trial.must(compact_jobs.seal_each, ARCHIVE)
    point = f"export.{rng.choice(('claimed', 'planned', 'put', 'staged', 'moved', 'done'))}"
    with trial.held(point, export_jobs.export_all, ARCHIVE, "files") as job:
        trial.run(compact_jobs.try_compact, ARCHIVE, fault=broken(trial) if rng.random() < 0.3 else "")
        if rng.random() < 0.5:
            trial.must(compact_jobs.sweep)
        if rng.random() < 0.5:
            job.kill()
    trial.note("the export", job.wait(60))
    trial.finish(compact_jobs.seal_each, ARCHIVE)
    exported.finish()
    exported.judge()
    before = exported.files()
    trial.finish(compact_jobs.compact, ARCHIVE)
    trial.finish(compact_jobs.sweep)
    again = trial.must(export_jobs.export_all, ARCHIVE, "files")
    trial.expect(again == 0, "unclear", f"{again} hours were exported once more though they hold the same")
    trial.expect(exported.files() == before, "unclear", "the files of an export are others")
    exported.judge()
    trial.judge_archive()


def cleaned(trial: Trial, point: str) -> None:
    """What the catalog forgets is needed by nothing: not by a replay that goes on, and not by reads."""
    rng = trial.random
    made(trial)
    trial.make_target()
    first = trial.begin_replay()
    trial.must(jobs.replay, first)
    trial.must(compact_jobs.compact, ARCHIVE)
    grow(trial, 2)
    other = trial.begin_replay(marks=True)
    trial.run(jobs.replay, other, fault=f"replay.{rng.choice(('sent', 'before_record'))}:kill")
    trial.must(compact_jobs.compact, ARCHIVE)
    trial.must(compact_jobs.sweep)
    for _ in range(rng.randint(1, 2)):
        trial.run(compact_jobs.clean, fault=f"clean.{point}:kill")
    trial.finish(compact_jobs.clean)
    trial.judge_archive()
    trial.finish(jobs.replay, other, refusals=("has succeeded",))
    trial.judge_target(other)
    trial.finish(compact_jobs.clean)
    grow(trial, 1)
    finish(trial)


for _point in _CLEAN:
    fault(
        f"kill clean.{_point}",
        "kill -9 of the catalog's cleaning, beside a replay that goes on afterwards",
        short=_point == "forget_chunks",
    )(partial(cleaned, point=_point))
