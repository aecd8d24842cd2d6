"""Faults: hours expire while processes die, a hold is placed, and a replay needs them."""

import time
from typing import Any

from nats3_dagster_tests.faults import change_jobs, jobs, judge, keep_jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.stream_faults import HOUR_NS, restore
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import Key, parse_ns

# Steps of an expiry, and of the seal and the sweep after it.
STEPS = ("expire.retired", "expire.before_commit", "expire.committed", "seal.object_put", "seal.added", "expire.sealed")
_SWEEP = ("delete.claimed", "delete.deleted", "delete.finished")
# The only true reason.
_REASON = "expired_by_policy"
LIES = frozenset({"deleted", "expired", "missing", "retired", "superseded", "ttl"})
_REASONS = """
select distinct g.reason from nats3.gap g join nats3.archive a on a.id = g.archive_id
where a.name = %s and a.deleted_at is null"""
# Objects that a retired chunk had, and no live one.
_DEAD = """
select distinct bucket, key from nats3.chunk d where deleted_at is not null
and not exists (select from nats3.chunk l where l.bucket = d.bucket and l.key = d.key and l.deleted_at is null)"""


class Promised:
    """What must stay and what must go, from the times of the messages alone."""

    def __init__(self, trial: Trial, keep_s: int) -> None:
        self.trial, self.keep_s, self.held = trial, keep_s, set[Key]()
        self.began = time.time_ns()

    def ended_before(self, now_ns: int) -> set[Key]:
        """Messages of hours that ended `keep` before."""
        bound = now_ns - self.keep_s * 10**9
        return {
            key
            for key, message in self.trial.truth.messages.items()
            if (parse_ns(message.time) // HOUR_NS + 1) * HOUR_NS <= bound
        }

    def hold(self, first: int, last: int) -> None:
        """From now on these messages stay, as far as they are there."""
        there = self.trial.archived().messages
        self.held |= {key for key in there if first <= key[1] <= last}

    def judge(self, *, is_done: bool = True) -> None:
        """`is_done`: after an expiry that succeeded, so that what must go is gone."""
        trial, truth = self.trial, self.trial.truth
        may_go = self.ended_before(time.time_ns()) - self.held
        truth.taken = dict.fromkeys(may_go, LIES)
        archived = trial.archived()
        trial.blame(judge.judge_archive(archived, truth))
        if is_done:
            # A chunk that has a held message stays whole: hours are written by one task, in chunks of 40.
            held_hours = {parse_ns(truth.messages[key].time) // HOUR_NS for key in self.held}
            left = [
                key
                for key in self.ended_before(self.began) & archived.messages.keys()
                if parse_ns(truth.messages[key].time) // HOUR_NS not in held_hours
            ]
            trial.expect(not left, "silent", f"{len(left)} messages are there that are not kept: {left[:3]}")


@fault(
    "expiry",
    "hours expire: kill -9 at each step, two at once, beside a hold, a capture and a replay; nothing comes back",
    since=(2, 15),
    short=True,
)
def expiry(trial: Trial) -> None:
    rng = trial.random
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    count = rng.randint(3, 6)
    restore(trial, [-float(n) for n in range(count + 1, 1, -1)])
    trial.finish_capture()
    trial.finish(jobs.seal_all, ARCHIVE)
    promised = Promised(trial, rng.randint(1, count) * 3600)
    if rng.random() < 0.4:
        hold(trial, promised, "before")
    trial.must(change_jobs.change, ARCHIVE, {"keep_s": promised.keep_s})
    _COURSES[rng.randrange(len(_COURSES))](trial, promised)
    promised.judge(is_done=False)
    if rng.random() < 0.5:
        trial.capture("capture.before_commit:kill" if rng.random() < 0.5 else "")
    trial.finish(keep_jobs.expire, ARCHIVE)
    promised.judge()
    _nothing_comes_back(trial, promised)


def _killed(trial: Trial, promised: Promised) -> None:
    for _ in range(trial.random.randint(1, 3)):
        trial.run(keep_jobs.expire, ARCHIVE, fault=f"{trial.random.choice(STEPS)}:kill:{trial.random.randint(1, 2)}")


def _two_at_once(trial: Trial, promised: Promised) -> None:
    step = trial.random.choice(STEPS)
    with trial.held(step, keep_jobs.expire, ARCHIVE) as job:
        other = trial.start(keep_jobs.expire, ARCHIVE)
        if step not in STEPS[:2]:  # before its commit the other one waits
            _must(trial, other, "the other expiry")
    _must(trial, job, "an expiry that was held")
    if step in STEPS[:2]:
        _must(trial, other, "the other expiry")


def _held_meanwhile(trial: Trial, promised: Promised) -> None:
    step = trial.random.choice(STEPS)
    first, last = _range(trial)
    with trial.held(step, keep_jobs.expire, ARCHIVE) as job:
        hold = trial.start(keep_jobs.hold, ARCHIVE, "meanwhile", first, last)
        if step not in STEPS[:2]:
            _must(trial, hold, "a hold")
            promised.hold(first, last)
    _must(trial, job, "an expiry beside a hold")
    if step in STEPS[:2]:
        _must(trial, hold, "a hold")
        promised.hold(first, last)


def _under_a_replay(trial: Trial, promised: Promised) -> None:
    trial.make_target()
    there = trial.archived().messages
    expected = [(key, message) for key, message in trial.truth.messages.items() if key in there]
    replay = trial.begin_replay()
    with trial.held(
        f"replay.{trial.random.choice(('chunk_fetched', 'sent', 'before_record'))}", jobs.replay, replay
    ) as job:
        _must(trial, trial.start(keep_jobs.expire, ARCHIVE), "an expiry beside a replay")
        if trial.random.random() < 0.5:
            trial.must(change_jobs.sweep)
    _must(trial, job, "a replay beside an expiry")
    rename = lambda subject: trial.back + subject.removeprefix(trial.prefix)  # noqa: E731
    trial.blame(judge.judge_target(trial.stored(), replay, expected, subject=rename))


def _under_a_capture(trial: Trial, promised: Promised) -> None:
    trial.publish(trial.random.randint(20, 100))
    step = trial.random.choice(("planned", "object_put", "before_commit"))
    with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) as job:
        _must(trial, trial.start(keep_jobs.expire, ARCHIVE), "an expiry beside a capture")
    _must(trial, job, "a capture beside an expiry")


_COURSES = (_killed, _two_at_once, _held_meanwhile, _under_a_replay, _under_a_capture)


def _nothing_comes_back(trial: Trial, promised: Promised) -> None:
    """The stream still has all that expired, and the bucket until it is swept."""
    rng = trial.random
    trial.finish(keep_jobs.adopt, ARCHIVE)
    trial.finish(jobs.capture, ARCHIVE)
    promised.judge()
    if rng.random() < 0.5:
        trial.run(change_jobs.sweep, fault=f"{rng.choice(_SWEEP)}:kill")
    trial.finish(change_jobs.sweep)
    trial.finish(jobs.capture, ARCHIVE)
    promised.judge()
    with trial.servers.admin(database=trial.database) as connection:
        reasons = {reason for (reason,) in connection.execute(_REASONS, (ARCHIVE,))}
        dead: list[Any] = connection.execute(_DEAD).fetchall()
    trial.expect(reasons <= {_REASON}, "lost", f"expired messages are called {reasons}")
    if not promised.held:
        left = [key for bucket, key in dead if trial.exists(bucket, key)]
        trial.expect(not left, "silent", f"objects of expired hours are there after the sweep: {left[:3]}")
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "the archive is not intact after an expiry")


def hold(trial: Trial, promised: Promised, name: str) -> None:
    first, last = _range(trial)
    trial.must(keep_jobs.hold, ARCHIVE, name, first, last)
    promised.hold(first, last)


def _range(trial: Trial) -> tuple[int, int]:
    last = len(trial.truth.messages)
    first = trial.random.randint(1, last)
    return first, min(last, first + trial.random.randint(0, 15))


def _must(trial: Trial, job: Any, name: str) -> None:
    ended = trial.end(job, name)
    trial.expect(ended.ok, "stuck", f"{name}: {ended}")
