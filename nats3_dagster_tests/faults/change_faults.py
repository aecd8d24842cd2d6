"""Faults: an archive is changed, removed, or made again, while captures of it are under way or after they were killed;
and two catalogs have archives of one folder."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nats3_dagster.model import ArchiveSpec
from nats3_dagster_tests.faults import change_jobs, jobs, judge
from nats3_dagster_tests.faults.dagster_faults import hour_at
from nats3_dagster_tests.faults.forks import Job
from nats3_dagster_tests.faults.judge_filters import Filter, judge_filters
from nats3_dagster_tests.faults.kill_faults import CAPTURE
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.stream_faults import restore
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import Key

DELETE = ("claimed:kill", "deleted:kill:1", "deleted:kill:3", "finished:kill")
# A commit that is held has the archive's row: whoever changes the archive waits for it.
_LOCKED = "in_commit"
_SETTINGS = """
select subjects, max_messages, max_bytes, max_age_s, zstd_level, paused, former_filters
from nats3.archive where name = %s and deleted_at is null"""
_LIVE_OF_DELETED = """
select count(*) from nats3.chunk c join nats3.archive a on a.id = c.archive_id
where a.name = %s and a.deleted_at is not null and c.deleted_at is null"""
_START = """
select min(c.start_seq) from nats3.coverage c join nats3.archive a on a.id = c.archive_id
where a.name = %s and a.deleted_at is null"""
_LIVE_MANIFESTS = """
select distinct on (s.hour) s.key from nats3.seal s join nats3.archive a on a.id = s.archive_id
where a.name = %s and a.deleted_at is null order by s.hour, s.number desc"""
# The objects of retired chunks, and of manifests that do not count any more or were replaced; since when, in seconds.
_DEAD = """
select key, extract(epoch from max(at)) from (
    select key, deleted_at as at from nats3.chunk where deleted_at is not null
    union all
    select s.key, coalesce(a.deleted_at, s.sealed_at) from nats3.seal s join nats3.archive a on a.id = s.archive_id) o
group by key"""
# Errors that are good ends.
_WAS_DELETED, _IS_REMOVED = "was deleted", "being deleted"
_NO_ARCHIVE, _FOREIGN, _OTHER_OWNER = "There is no archive", "belongs to an archive of another catalog", "another owner"


def rows(trial: Trial, query: Any, *values: object) -> list[tuple[Any, ...]]:
    with trial.servers.admin(database=trial.database) as connection:
        return connection.execute(query, values).fetchall()


def filters(trial: Trial) -> list[Filter]:
    """No two take the same subjects for the same reason; the last one takes nothing."""
    p = trial.prefix
    return [
        (),
        (f"{p}.a",),
        (f"{p}.a", f"{p}.b.>"),
        (f"{p}.*",),
        (f"{p}.b.*", f"{p}.*.x"),
        (f"{p}.*", f"{p}.b.c"),
        (f"{p}.*.*",),
        (f"{p}.none",),
    ]


def last_seq(trial: Trial) -> int:
    with trial.wire() as wire:
        return wire.state(trial.stream)["last_seq"]


def capture_point(trial: Trial) -> str:
    point = trial.random.choice(CAPTURE)
    passes = trial.random.randint(1, 2) if point in ("before_put", "object_put", "task_returned") else 1
    return f"capture.{point}:kill:{passes}"


def spec_of(trial: Trial, subjects: Filter = ()) -> ArchiveSpec:
    return ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix=trial.stream, subjects=subjects)


# Settings


class Account:
    """What was set, and up to which sequence of the stream each filter counted."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.settings: dict[str, Any] = {
            "subjects": (),
            "max_messages": 1_000_000,
            "max_bytes": 64 << 20,
            "max_age_s": 60,
            "zstd_level": 3,
            "paused": False,
        }
        # The former filters: the last sequence of each is between two, which differ if messages came meanwhile.
        self.ended: list[tuple[int, int, Filter]] = []

    def begin(self) -> Job:
        """Start a process that changes settings: by `set` those that change, or by `apply` all of them."""
        rng = self.trial.random
        values: dict[str, Any] = {
            "subjects": rng.choice(filters(self.trial)),
            "max_messages": rng.randint(1, 10**6),
            "max_bytes": rng.randint(1, 64 << 20),
            "max_age_s": rng.randint(1, 10**6),
            "zstd_level": rng.randint(1, 9),
            "paused": rng.random() < 0.5,
        }
        chosen = {"subjects"} if rng.random() < 0.8 else set[str]()
        chosen |= set(rng.sample(sorted(values), rng.randint(0, 2)))
        wanted = {field: values[field] for field in sorted(chosen)}
        subjects = self.settings["subjects"]
        if wanted.get("subjects", subjects) != subjects:
            seq = last_seq(self.trial)
            self.ended.append((seq, seq, subjects))
        self.settings |= wanted
        if rng.random() < 0.5:
            return self.trial.start(change_jobs.change, ARCHIVE, wanted)
        return self.trial.start(change_jobs.apply, self.file())

    def file(self) -> str:
        spec = spec_of(self.trial)
        settings = {**self.settings, "max_age": f"{self.settings['max_age_s']}s"}
        del settings["max_age_s"]
        entry = {"name": spec.name, "stream": spec.stream, "bucket": spec.bucket, "prefix": spec.prefix, **settings}
        return json.dumps({"archives": [entry]})

    def end(self, job: Job) -> None:
        ended = self.trial.end(job, f"change to {self.settings}")
        self.trial.expect(ended.ok, "stuck", f"a change was refused: {ended}")

    def publish_during_change(self) -> None:
        """Publish while another process changes settings."""
        changes = len(self.ended)
        job = self.begin()
        self.trial.publish(self.trial.random.randint(1, 80))
        self.end(job)
        if len(self.ended) > changes:
            first, _, subjects = self.ended[-1]
            self.ended[-1] = first, last_seq(self.trial), subjects

    def judge(self) -> None:
        """After a capture that succeeded."""
        trial = self.trial
        ((*values, former),) = rows(trial, _SETTINGS, ARCHIVE)
        stored = dict(zip(self.settings, [tuple(values[0]), *values[1:]], strict=True))
        trial.expect(stored == self.settings, "lost", f"{stored} is set, and not {self.settings}")
        ended = [(one["last_seq"], tuple(one["subjects"])) for one in former]
        agree = len(ended) == len(self.ended) and all(
            first <= seq <= last and subjects == own
            for (seq, subjects), (first, last, own) in zip(ended, self.ended, strict=False)
        )
        trial.expect(agree, "lost", f"filters ended at {ended}, and not at {self.ended}")
        trial.blame(judge_filters(trial.archived(), trial.truth, ended, self.settings["subjects"]))


@fault(
    "store set and apply during a capture", "settings change, or the archive goes, while a capture is held", short=True
)
def changed_while_captured(trial: Trial) -> None:
    rng = trial.random
    trial.make_stream(rng.randint(120, 350))
    account = Account(trial)
    if rng.random() < 0.4:
        account.publish_during_change()
    if rng.random() < 0.4:
        trial.capture()
        trial.publish(rng.randint(20, 150))
    is_removed = rng.random() < 0.3
    point = rng.choice(CAPTURE)
    with trial.held(f"capture.{point}", jobs.capture, ARCHIVE) as job:
        is_held = trial.is_held
        change = trial.start(change_jobs.apply, '{"archives": []}', True) if is_removed else account.begin()
        if waits := point != _LOCKED and rng.random() < 0.8:
            _end(trial, account, change, is_removed)
            if not is_removed and rng.random() < 0.5:
                trial.publish(rng.randint(1, 80))
            if not is_removed and rng.random() < 0.4:
                account.publish_during_change()
            if not is_removed and rng.random() < 0.3:
                trial.capture()
    ended = trial.end(job, f"capture held at {point}")
    if not waits:
        _end(trial, account, change, is_removed)
    if is_removed:
        is_late = is_held and waits and point != "after_commit"
        trial.expect(not (ended.ok and is_late), "silent", f"a capture of a removed archive: {ended}")
        trial.expect(ended.ok or _WAS_DELETED in ended.text, "unclear", f"a capture of a removed archive: {ended}")
        _removed(trial, account)
    else:
        trial.expect(ended.ok, "stuck", f"a change made the capture fail: {ended}")
    for _ in range(rng.randint(0, 2)):
        account.publish_during_change()
        if rng.random() < 0.5:
            trial.capture(capture_point(trial) if rng.random() < 0.5 else "")
    if trial.finish(jobs.capture, ARCHIVE):
        account.judge()


def _end(trial: Trial, account: Account, change: Job, is_removal: bool) -> None:
    if not is_removal:
        return account.end(change)
    ended = trial.end(change, "apply with prune")
    trial.expect(ended.ok and ended.value == ["remove"], "stuck", f"the removal: {ended} {ended.value}")
    return None


def _removed(trial: Trial, account: Account) -> None:
    """Judge that the archive is gone, and apply its file again."""
    ((live,),) = rows(trial, _LIVE_OF_DELETED, ARCHIVE)
    trial.expect(live == 0, "doubled", f"a removed archive has {live} live chunks")
    ended = trial.capture()
    trial.expect(_NO_ARCHIVE in ended.text, "unclear", f"a capture after the removal: {ended}")
    account.ended.clear()
    trial.expect(trial.must(change_jobs.apply, account.file()) == ["create"], "unclear", "no archive was made")


# Made again


@fault(
    "archive made again",
    "an archive is deleted, with its objects or not, and made again over what is left",
    store="file",
    since=(2, 15),
)
def made_again(trial: Trial) -> None:
    rng = trial.random
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    if rng.random() < 0.5:
        restore(trial, [-float(n) for n in range(rng.randint(3, 5), 1, -1)])
        trial.publish(rng.randint(50, 200))
    else:
        trial.make_stream(rng.randint(120, 350))
    gone: set[Key] = set()
    subjects: Filter = ()
    for _ in range(rng.randint(1, 2)):
        _live(trial)
        if rng.random() < 0.3:
            trial.publish(rng.randint(1, 100))
        subjects = subjects if rng.random() < 0.5 else rng.choice(filters(trial))
        if rng.random() < 0.25:
            # The new archive captures the objects that a purge of the former one is about to delete.
            with trial.held(f"delete.{rng.choice(('claimed', 'deleted'))}", jobs.delete, ARCHIVE) as purge:
                trial.must(jobs.create, spec_of(trial, subjects))
                trial.capture(capture_point(trial) if rng.random() < 0.5 else "")
            ended = trial.end(purge, "purge held over the new archive")
            trial.expect(ended.ok, "stuck", f"the purge: {ended}")
        else:
            _delete(trial)
            gone |= _thin_out(trial)
            trial.must(jobs.create, spec_of(trial, subjects))
        if rng.random() < 0.2:
            gone |= _thin_out(trial)
    _live(trial)
    if not trial.finish(jobs.capture, ARCHIVE, refusals=(_IS_REMOVED,)):
        trial.finish(jobs.remove_rest, ARCHIVE)
        trial.finish(jobs.capture, ARCHIVE)
    _judge_again(trial, subjects, gone, set())
    retired = _retire(trial) if rng.random() < 0.6 else set[int]()
    if rng.random() < 0.5:
        trial.run(change_jobs.sweep, fault=f"delete.{rng.choice(DELETE)}")
    if rng.random() < 0.5:
        trial.capture()
    trial.finish(jobs.remove_rest, ARCHIVE)
    trial.finish(change_jobs.sweep)
    trial.finish(jobs.capture, ARCHIVE)
    trial.finish(jobs.seal_all, ARCHIVE)
    trial.finish(change_jobs.sweep)
    _judge_again(trial, subjects, gone, retired)
    _judge_seals(trial)
    _judge_rest(trial)
    if rng.random() < 0.4:
        trial.run(jobs.delete, ARCHIVE, fault=f"delete.{rng.choice(DELETE)}" if rng.random() < 0.5 else "")
        trial.finish(jobs.remove_rest, ARCHIVE)
        _judge_rest(trial)


def _live(trial: Trial) -> None:
    """Captures, some of which are killed, and seals."""
    rng = trial.random
    if rng.random() < 0.6:
        trial.capture(capture_point(trial))
    if rng.random() < 0.6:
        trial.capture()
    if rng.random() < 0.4:
        trial.run(jobs.seal_all, ARCHIVE, fault=rng.choice(("", "", "seal.object_put:kill", "seal.added:kill")))


def _delete(trial: Trial) -> None:
    rng = trial.random
    if rng.random() < 0.35:
        trial.must(change_jobs.delete, ARCHIVE)
        return
    if rng.random() < 0.3:
        trial.must(jobs.delete, ARCHIVE)
        return
    trial.run(jobs.delete, ARCHIVE, fault=f"delete.{rng.choice(DELETE)}")
    if rng.random() < 0.4:
        trial.finish(jobs.remove_rest, ARCHIVE)


def _thin_out(trial: Trial) -> set[Key]:
    """Messages go from the stream, at its head or here and there; those that it has no longer."""
    rng = trial.random
    keys = trial.acknowledged()
    with trial.wire() as wire:
        if rng.random() < 0.4:
            wire.api(f"STREAM.PURGE.{trial.stream}", seq=rng.choice(keys)[1])
        if rng.random() < 0.4:
            there = {message.seq for message in wire.messages(trial.stream)}
            for _, seq in rng.sample(keys, min(len(keys), rng.randint(1, 20))):
                if seq in there:
                    wire.api(f"STREAM.MSG.DELETE.{trial.stream}", seq=seq)
        there = {message.seq for message in wire.messages(trial.stream)}
    return {key for key in keys if key[1] not in there}


def _retire(trial: Trial) -> set[int]:
    """Retire chunks, to be captured again or not; the sequences that may be called retired."""
    rng = trial.random
    count = len(trial.live_objects())
    is_captured_again = rng.random() < 0.5
    numbers = rng.sample(range(count), min(count, rng.randint(1, 3)))
    ranges = trial.must(change_jobs.retire, ARCHIVE, numbers, is_captured_again)
    return set() if is_captured_again else {seq for first, last in ranges for seq in range(first, last + 1)}


def _judge_again(trial: Trial, subjects: Filter, gone: set[Key], retired: set[int]) -> None:
    ((start,),) = rows(trial, _START, ARCHIVE)
    trial.blame(judge_filters(trial.archived(), trial.truth, [], subjects, start=start, gone=gone, retired=retired))


def _judge_seals(trial: Trial) -> None:
    """The running hour is not sealed yet."""
    with trial.servers.admin(database=trial.database) as connection:
        findings = judge.judge_seals(connection, ARCHIVE, trial.fetch)
    trial.blame([finding for finding in findings if hour_at(time.time_ns()) not in finding.text])


def _judge_rest(trial: Trial) -> None:
    """After purge and sweep: of what a chunk or a seal had, only live chunks and the newest manifests are left. An
    object that was put later is of a capture that did not commit, and no process' to remove."""
    live = {key for _, key in trial.live_objects()} | {key for (key,) in rows(trial, _LIVE_MANIFESTS, ARCHIVE)}
    left = trial.keys(BUCKET, f"{trial.stream}/")
    has_archive = bool(rows(trial, _SETTINGS, ARCHIVE))
    owners = {key for key in left if key.endswith("/_owner.json")}
    trial.expect(len(owners) == has_archive, "doubled", f"owner objects: {owners}")
    since = {key: float(at) for key, at in rows(trial, _DEAD)}
    dead = [key for key in sorted(left - live) if (trial.folder / BUCKET / key).stat().st_mtime < since.get(key, 0)]
    trial.expect(not dead, "doubled", f"{len(dead)} dead objects are left: {dead[:2]}")
    trial.expect(live <= left, "lost", f"objects are gone: {sorted(live - left)[:2]}")


# Two catalogs


@contextmanager
def in_catalog(trial: Trial, database: str) -> Iterator[None]:
    """The processes, and the judge, use this catalog."""
    first, url = trial.database, trial.environment["NATS3_POSTGRES_URL"]
    trial.database = database
    trial.environment["NATS3_POSTGRES_URL"] = trial.servers.postgres.url(database)
    try:
        yield
    finally:
        trial.database, trial.environment["NATS3_POSTGRES_URL"] = first, url


@fault("two catalogs, one folder", "another catalog creates an archive in the folder of the first, and takes it over")
def two_catalogs(trial: Trial) -> None:
    rng = trial.random
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    trial.make_stream(rng.randint(120, 350))
    if rng.random() < 0.4:
        trial.capture(capture_point(trial))
    trial.finish_capture()
    subjects: Filter = () if rng.random() < 0.6 else rng.choice(filters(trial))
    spec = spec_of(trial, subjects)
    with trial.servers.database() as second:
        with in_catalog(trial, second):
            ended = trial.run(jobs.create, spec)
            trial.expect(_FOREIGN in ended.text, "silent", f"an archive in a foreign folder: {ended}")
            trial.expect(not rows(trial, _SETTINGS, ARCHIVE), "doubled", "a refused archive was made")
        if rng.random() < 0.6:
            trial.must(change_jobs.retire, ARCHIVE, [rng.randrange(len(trial.live_objects()))], rng.random() < 0.5)
            has_dead = True
        else:
            has_dead = False
        gone = _thin_out(trial)
        if rng.random() < 0.6:
            trial.publish(rng.randint(10, 120))
        if rng.random() < 0.4:
            point = rng.choice(("planned", "before_put", "object_put", "before_commit"))
            with trial.held(f"capture.{point}", jobs.capture, ARCHIVE) as job:
                _take_over(trial, second, spec)
            trial.end(job, "capture of the first catalog, held over the take-over")
        else:
            _take_over(trial, second, spec)
        with in_catalog(trial, second):
            _judge_again(trial, subjects, gone, set())
            objects = trial.live_objects()
        _refuse_first(trial, has_dead)
        trial.expect(all(trial.exists(*one) for one in objects), "lost", "objects of the second catalog are gone")
        with in_catalog(trial, second):
            trial.publish(rng.randint(1, 50))
            trial.finish(jobs.capture, ARCHIVE)
            _judge_again(trial, subjects, gone, set())
            trial.must(change_jobs.sweep)
            trial.must(jobs.delete, ARCHIVE)


def _take_over(trial: Trial, second: str, spec: ArchiveSpec) -> None:
    with in_catalog(trial, second):
        trial.must(change_jobs.take_over, spec)
        if trial.random.random() < 0.4:
            trial.capture(capture_point(trial))
        trial.finish(jobs.capture, ARCHIVE)


def _refuse_first(trial: Trial, has_dead: bool) -> None:
    """Nothing of the first catalog writes or removes in the folder. A sweep finds nothing where a capture that was
    held took the retired objects again."""
    trial.publish(5)
    works: list[tuple[Any, tuple[Any, ...], str]] = [
        (jobs.capture, (ARCHIVE,), _OTHER_OWNER),
        (jobs.delete, (ARCHIVE,), "another catalog"),
    ]
    if has_dead:
        works += [(change_jobs.sweep, (), "another catalog"), (jobs.remove_rest, (ARCHIVE,), "another catalog")]
    trial.random.shuffle(works)
    before = trial.keys(BUCKET, f"{trial.stream}/")
    for work, arguments, text in works:
        ended = trial.run(work, *arguments)
        is_idle = ended.ok and ended.value == 0 and work in (change_jobs.sweep, jobs.remove_rest)
        trial.expect(text in ended.text or is_idle, "silent", f"{work.__name__} of the first catalog: {ended}")
    if trial.random.random() < 0.5:
        trial.must(change_jobs.delete, ARCHIVE)
        ended = trial.run(jobs.remove_rest, ARCHIVE)
        trial.expect("another catalog" in ended.text, "silent", f"a purge of the first catalog: {ended}")
    after = trial.keys(BUCKET, f"{trial.stream}/")
    trial.expect(after == before, "lost", f"the first catalog changed {len(after ^ before)} objects")
