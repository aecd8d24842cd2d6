"""Faults: an archive with everything at once: a copy, an export, a table, a hold, retention, compaction and erasure."""

import time
from typing import Any

from nats3_dagster_tests.faults import (
    change_jobs,
    compact_faults,
    compact_jobs,
    copy_faults,
    copy_jobs,
    erase_faults,
    erase_jobs,
    export_faults,
    export_jobs,
    jobs,
    judge,
    keep_faults,
    keep_jobs,
    table_faults,
    table_jobs,
)
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.stream_faults import HOUR_NS
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import Key, parse_ns

# What is done to the archive, and the steps at which it may die.
_WORKS: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "compact": ((compact_jobs.try_compact, ARCHIVE), tuple(f"compact.{step}" for step in compact_faults.POINTS)),
    "copy": ((copy_jobs.try_copy, ARCHIVE), ("copy.claimed", "copy.object_put", "copy.put", "copy.done")),
    "expire": ((keep_jobs.expire, ARCHIVE), keep_faults.STEPS),
    "export": (
        (export_jobs.export_all, ARCHIVE, export_faults.EXPORT),
        ("export.claimed", "export.staged", "export.moved"),
    ),
    "seal": ((compact_jobs.seal_each, ARCHIVE), ("seal.object_put", "seal.added")),
    "sweep": ((compact_jobs.sweep,), ("delete.claimed", "delete.deleted", "delete.finished")),
    "table": ((table_jobs.sync_table, ARCHIVE), table_faults.STEPS),
}


@fault(
    "a whole life",
    "an archive with a copy, an export, a table, a hold and retention is compacted and erased from: an erasure is "
    "killed at any step, beside other work that is killed too",
    store="file",
    since=(2, 15),
    short=True,
)
def whole_life(trial: Trial) -> None:
    rng = trial.random
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    (trial.folder / copy_faults.COPY).mkdir()
    hours = rng.randint(3, 5)
    exported = export_faults.Exported(trial, hours)
    promised = keep_faults.Promised(trial, rng.randint(1, hours) * 3600)
    keep_faults.hold(trial, promised, "court")
    trial.must(change_jobs.change, ARCHIVE, {"keep_s": promised.keep_s})
    trial.finish(keep_jobs.expire, ARCHIVE)
    promised.judge()
    trial.must(change_jobs.change, ARCHIVE, {"copies": (copy_faults.COPY,)})
    compact_faults.grow(trial, 3)
    trial.finish(copy_jobs.copy, ARCHIVE)
    table_faults.add_table(trial)
    exported.create()
    exported.finish()

    erased = _chosen(trial, promised)
    for _ in range(rng.randint(1, 3)):
        step = rng.choice([*erase_faults.POINTS])
        point = f"erase.{step}:{rng.choice(('kill', 'sleep=0.3'))}"
        started = [trial.start(erase_jobs.try_erase, ARCHIVE, erased, fault=point)]
        for name in rng.sample([*_WORKS], rng.randint(1, 2)):
            work, points = _WORKS[name]
            started.append(trial.start(*work, fault=f"{rng.choice(points)}:{rng.choice(('kill', 'sleep=0.3'))}"))
        for job in started:
            trial.end(job, "one of several at once")
        _judge(trial, promised, erased)
    _finish(trial, promised, erased, exported)


def _chosen(trial: Trial, promised: keep_faults.Promised) -> list[tuple[int, int]]:
    """Some archived messages of hours that no hold covers."""
    held = {_hour(trial, key) for key in promised.held}
    free = sorted(key[1] for key in trial.archived().messages if _hour(trial, key) not in held)
    return [(seq, seq) for seq in sorted(trial.random.sample(free, min(len(free), trial.random.randint(1, 6))))]


def _hour(trial: Trial, key: Key) -> int:
    return parse_ns(trial.truth.messages[key].time) // HOUR_NS


def _judge(trial: Trial, promised: keep_faults.Promised, erased: list[tuple[int, int]]) -> None:
    """Each message is there or is gone for its reason, and what a seal promises is in both buckets."""
    gone = {seq for seq, _ in erased}
    may_expire = promised.ended_before(time.time_ns()) - promised.held
    taken = dict.fromkeys(may_expire, keep_faults.LIES)
    for key in trial.truth.messages:
        if key[1] in gone:
            taken[key] = keep_faults.LIES if key in may_expire else erase_faults.LIES
    trial.truth.taken = taken
    trial.blame(judge.judge_archive(trial.archived(), trial.truth))
    copy_faults.judge(trial)


def _finish(
    trial: Trial,
    promised: keep_faults.Promised,
    erased: list[tuple[int, int]],
    exported: export_faults.Exported,
) -> None:
    """Everything is done to its end; nothing that was erased is anywhere, and nothing else is missing."""
    trial.finish(erase_jobs.erase, ARCHIVE, erased)
    trial.finish(erase_jobs.sweep)
    trial.finish_capture()
    trial.finish(keep_jobs.expire, ARCHIVE)
    trial.finish(compact_jobs.seal_each, ARCHIVE)
    trial.finish(compact_jobs.compact, ARCHIVE)
    trial.finish(compact_jobs.sweep)
    trial.finish(copy_jobs.copy, ARCHIVE)
    trial.finish(erase_jobs.sweep)
    exported.finish()
    table_faults.finish(trial)
    _judge(trial, promised, erased)
    trial.judge_seals()
    there = trial.archived().messages
    exported.judge({key: message for key, message in trial.truth.messages.items() if key in there})
    gone = {seq for seq, _ in erased}
    for bucket in (BUCKET, copy_faults.COPY):
        erase_faults.judge_objects(trial, gone, bucket)
    lost = [key for key in promised.held if key not in there]
    trial.expect(not lost, "lost", f"{len(lost)} messages are gone that a hold covers: {lost[:3]}")
    back = trial.must(erase_jobs.bring_back, ARCHIVE)
    trial.expect(back == 0, "silent", f"{back} messages came back")
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "the archive is not intact")
