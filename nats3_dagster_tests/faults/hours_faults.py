"""Faults: jobs of many hours. Each has several jobs of several hours, and tasks that put several objects at a time."""

from functools import partial

from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.stream_faults import restore
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

# Steps of a job, and the last pass at which one is broken: of each job, or of each object of a task.
STEPS = {
    "planned": 3,
    "before_put": 4,
    "object_put": 4,
    "task_returned": 1,
    "before_commit": 3,
    "in_commit": 3,
    "after_commit": 3,
}
_SHORT = ("object_put", "in_commit")


def make_hours(trial: Trial) -> int:
    """A stream of at least three jobs: ten messages an hour, with holes of hours without one. Some were deleted."""
    hours, at = list[float](), -48.5
    for _ in range(trial.random.randint(2 * jobs.JOB_HOURS + 1, 3 * jobs.JOB_HOURS)):
        hours.append(at)
        at += trial.random.choice((1, 1, 1, 2))
    restore(trial, hours)
    return len(hours)


def kill_job(trial: Trial, step: str) -> None:
    make_hours(trial)
    passes = trial.random.randint(1, STEPS[step])
    # A worker that dies is the end of its job alone: what the job was for is run again as two halves.
    first = trial.capture(f"capture.{step}:kill:{passes}")
    in_worker = step in ("before_put", "object_put", "task_returned")
    assert in_worker or not first.ok, "the fault did not happen"
    if trial.random.random() < 0.5:
        trial.publish(50)
    trial.finish_capture()
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "an archive of many hours is not intact")


for _step in STEPS:
    fault(
        f"kill hours.{_step}",
        "kill -9 of driver or worker at this step of a job of many hours",
        since=(2, 15),
        short=_step in _SHORT,
    )(partial(kill_job, step=_step))


@fault("bad hour", "the object of one hour among many is there with other bytes", since=(2, 15), short=True)
def bad_hour(trial: Trial) -> None:
    make_hours(trial)
    assert not trial.capture("capture.before_commit:kill").ok
    orphans = [key for key in trial.stored_keys() if key.endswith(".parquet")]
    bad = trial.random.choice(orphans)
    trial.overwrite(BUCKET, bad, b"foreign")
    ended = trial.capture()
    trial.expect("hours failed" in ended.text and "1 of" in ended.text, "unclear", f"it named no hour: {ended}")
    hour_of_bad = bad.rpartition("/")[0]
    others = {key for key in orphans if key.rpartition("/")[0] != hour_of_bad}
    trial.expect(others <= {key for _, key in trial.live_objects()}, "stuck", "a bad hour kept others waiting")
    trial.overwrite(BUCKET, bad, None)
    trial.finish_capture()


@fault("two jobs of hours", "two captures of many hours at once, that overlap", since=(2, 15), short=True)
def two_jobs(trial: Trial) -> None:
    make_hours(trial)
    point = trial.random.choice(("planned", "before_commit"))
    with trial.held(f"capture.{point}", jobs.capture, ARCHIVE, passes=trial.random.randint(1, 2)) as first:
        second = trial.start(jobs.capture, ARCHIVE, fault="capture.planned:sleep=0.2:2")
        if trial.random.random() < 0.5:
            trial.end(second, "capture beside a held one")
            second = None
    for job, name in ((first, "the held capture"), (second, "capture beside it")):
        if job:
            ended = trial.end(job, name)
            trial.expect(ended.ok, "stuck", f"{name}: {ended}")
    trial.finish_capture()
