"""Faults: erasures that die at each step, that meet each other, captures, compactions and replays."""

import io
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from nats3_dagster_tests.faults import compact_faults, compact_jobs, erase_jobs, jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

POINTS = {
    "decided": "an erasure that is in the catalog and not beside the chunks",
    "recorded": "an erasure that is written down beside the chunks, before anything else",
    "put": "an erasure that put an object and did not prove it",
    "in_swap": "an erasure in its transaction",
    "swapped": "an erasure after its transaction, with the old objects there",
    "sealed": "an erasure after its hours were sealed again",
    "removed": "an erasure that removed an object",
    "gone": "an erasure that removed all objects and did not note it",
}
# What an erased message is never called.
LIES = frozenset({"deleted", "expired", "missing", "retired", "superseded", "ttl", "unselected", "expired_by_policy"})
Ranges = list[tuple[int, int]]


def made(trial: Trial) -> Ranges:
    """An archive of small chunks in sealed hours, some of them compacted, so that old objects wait for the sweep; and
    sequences to be erased."""
    compact_faults.made(trial)
    trial.environment["NATS3_DELETE_GRACE"] = "86400"
    if trial.random.random() < 0.6:
        trial.must(compact_jobs.compact, ARCHIVE)
        compact_faults.grow(trial, 1)
    return chosen(trial)


def chosen(trial: Trial) -> Ranges:
    """One to four ranges of archived sequences, ascending."""
    rng, last = trial.random, len(trial.truth.messages)
    ends = sorted(rng.sample(range(1, last + 1), 2 * rng.randint(1, 4)))
    return [(first, rng.choice((first, end))) for first, end in zip(ends[::2], ends[1::2], strict=True)]


def judge(trial: Trial, *erased: Ranges, done: bool = False) -> None:
    """Everything else is there, and what left has its reason; with `done` no object has what was erased."""
    gone = {seq for ranges in erased for first, last in ranges for seq in range(first, last + 1)}
    trial.truth.taken = {key: LIES for key in trial.truth.messages if key[1] in gone}
    archived = trial.archived()
    trial.judge_archive()
    if not done:
        return
    left = [key for key in archived.messages if key[1] in gone]
    trial.expect(not left, "silent", f"{len(left)} erased messages are in the archive: {left[:3]}")
    judge_objects(trial, gone, BUCKET)


def judge_objects(trial: Trial, gone: set[int], bucket: str) -> None:
    """No object of the bucket has one of these sequences."""
    for key in trial.keys(bucket, ""):
        if key.endswith(".parquet") and "/_" not in key:
            table = pq.read_table(io.BytesIO(trial.fetch(bucket, key)), columns=["seq"])
            found = gone.intersection(table.column("seq").to_pylist())
            trial.expect(not found, "silent", f"{key} in {bucket} still has the erased sequences {sorted(found)[:3]}")


def finish(trial: Trial, *erased: Ranges) -> None:
    """The erasures are done, and nothing brings the messages back."""
    for ranges in erased:
        trial.finish(erase_jobs.erase, ARCHIVE, ranges)
    trial.finish(erase_jobs.sweep)
    judge(trial, *erased, done=True)
    trial.finish(jobs.capture, ARCHIVE)
    back = trial.must(erase_jobs.bring_back, ARCHIVE)
    trial.expect(back == 0, "silent", f"{back} messages came back")
    trial.finish(compact_jobs.seal_each, ARCHIVE)
    trial.finish(compact_jobs.compact, ARCHIVE)
    trial.judge_seals()
    judge(trial, *erased, done=True)
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "the archive is not intact after an erasure")


def killed(trial: Trial, step: str) -> None:
    ranges = made(trial)
    for _ in range(trial.random.randint(1, 2)):
        action = trial.random.choice(("kill", "kill", "raise"))
        trial.run(erase_jobs.erase, ARCHIVE, ranges, fault=f"erase.{step}:{action}:{trial.random.randint(1, 2)}")
        judge(trial, ranges)
    if trial.random.random() < 0.5:
        trial.finish(erase_jobs.sweep)
    finish(trial, ranges)


for _point, _breaks in POINTS.items():
    fault(f"kill erase.{_point}", f"kill -9 of {_breaks}", short=_point == "swapped")(partial(killed, step=_point))


@fault("erasures at once", "two erasures at once, beside a compaction, a capture and a seal", short=True)
def at_once(trial: Trial) -> None:
    first, rng = made(trial), trial.random
    second = chosen(trial)
    trial.publish(rng.randint(1, 60))
    others: list[tuple[Any, ...]] = [
        (compact_jobs.try_compact, ARCHIVE),
        (jobs.capture, ARCHIVE),
        (compact_jobs.sweep,),
        (erase_jobs.sweep,),
    ]
    works: list[tuple[Any, ...]] = [(erase_jobs.try_erase, ARCHIVE, first), (erase_jobs.try_erase, ARCHIVE, second)]
    works += rng.sample(others, rng.randint(1, 2))
    points = [f"{rng.choice(('erase', 'erase', 'compact'))}.{rng.choice(('put', 'in_swap', 'swapped'))}" for _ in works]
    started = [
        trial.start(*work, fault=f"{point}:sleep={rng.random() / 2:.2f}")
        for work, point in zip(works, points, strict=True)
    ]
    for job in started:
        ended = trial.end(job, "one of several at once")
        trial.expect(ended.ok, "unclear", f"it ended with: {ended}")
    trial.finish(jobs.capture, ARCHIVE)
    finish(trial, first, second)


@fault("erasure beside a replay", "messages are erased that a replay has yet to publish, and others", short=True)
def beside_a_replay(trial: Trial) -> None:
    ranges, rng = made(trial), trial.random
    trial.make_target()
    replay = trial.begin_replay()
    point = f"replay.{rng.choice(('attempt_started', 'attempt_started', 'chunk_fetched', 'before_record'))}"
    with trial.held(point, jobs.replay, replay) as job:
        refused = trial.run(erase_jobs.try_erase, ARCHIVE, ranges)
        judge(trial, ranges)
    trial.expect(refused.ok, "unclear", f"an erasure beside a replay ended with: {refused}")
    ended = trial.end(job, "the replay")
    trial.expect(ended.ok, "stuck", f"a replay beside an erasure ended with: {ended}")
    finish(trial, ranges)


@fault("erasure after a killed compaction", "objects that no chunk lists have erased messages", short=True)
def after_a_killed_compaction(trial: Trial) -> None:
    ranges = made(trial)
    compact_faults.grow(trial, 1)
    point = trial.random.choice(("object_put", "proven", "in_swap"))
    trial.run(compact_jobs.compact, ARCHIVE, fault=f"compact.{point}:kill")
    finish(trial, ranges)
