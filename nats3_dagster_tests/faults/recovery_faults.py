"""Faults: a catalog is made again from its bucket, or moved as a file, while processes die and the old one goes on."""

from nats3_dagster_tests.faults import change_jobs, jobs, keep_jobs
from nats3_dagster_tests.faults.change_faults import in_catalog
from nats3_dagster_tests.faults.kill_faults import CAPTURE
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.stream_faults import restore
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

REBUILD = ("rebuild.read", "owner.written", "rebuild.taken_over", "rebuild.before_commit", "rebuild.committed")
# Ends of what meets a rebuild that are true, and after which it is run again.
_BUSY = ("is creating or purging", "changed while they were read", "already")
_FOREIGN = ("belongs to an archive of another catalog", "another owner")
_ROWS = "select (select count(*) from nats3.archive) + (select count(*) from nats3.chunk)"


@fault(
    "catalog rebuild",
    "a catalog is made again from its bucket: kill -9 at each step, two at once, beside a capture of the old one",
    since=(2, 15),
    short=True,
)
def catalog_rebuild(trial: Trial) -> None:
    rng = trial.random
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    restore(trial, [-float(n) for n in range(rng.randint(4, 7), 1, -1)])
    if rng.random() < 0.5:
        trial.capture(f"capture.{rng.choice(CAPTURE)}:kill")
    trial.finish_capture()
    if rng.random() < 0.7:
        trial.finish(jobs.seal_all, ARCHIVE)
    trial.publish(rng.randint(0, 60))
    with trial.servers.database() as second:
        rng.choice((_killed, _two_at_once, _beside_a_capture))(trial, second)
        with in_catalog(trial, second):
            trial.finish(keep_jobs.rebuild, BUCKET, trial.stream)
            trial.finish_capture()
        _old_one_is_out(trial)
        with in_catalog(trial, second):
            trial.finish_capture()
            trial.finish(jobs.seal_all, ARCHIVE)
            intact = trial.must(jobs.verify_all, ARCHIVE)
            trial.expect(intact == [], "lost", f"the archive is not intact after a rebuild: {intact}")


def _killed(trial: Trial, second: str) -> None:
    with in_catalog(trial, second):
        for _ in range(trial.random.randint(1, 3)):
            trial.run(keep_jobs.rebuild, BUCKET, trial.stream, fault=f"{trial.random.choice(REBUILD)}:kill")


def _two_at_once(trial: Trial, second: str) -> None:
    """Into one catalog, or each into its own: then the last one has the folder."""
    step = trial.random.choice(REBUILD)
    with in_catalog(trial, second), trial.held(step, keep_jobs.rebuild, BUCKET, trial.stream) as job:
        other = trial.run(keep_jobs.rebuild, BUCKET, trial.stream)
    ended = trial.end(job, "a rebuild that was held")
    for one in (ended, other):
        is_true = one.ok or any(text in one.text for text in _BUSY)
        trial.expect(is_true, "unclear", f"one of two rebuilds: {one}")
    trial.expect(ended.ok or other.ok, "stuck", "both of two rebuilds were refused")


def _beside_a_capture(trial: Trial, second: str) -> None:
    """The old catalog has a capture under way: it is in the new one, or in neither."""
    trial.publish(trial.random.randint(20, 100))
    held = trial.held(f"capture.{trial.random.choice(CAPTURE)}", jobs.capture, ARCHIVE)
    with held as job, in_catalog(trial, second):
        made = trial.run(keep_jobs.rebuild, BUCKET, trial.stream)
    ended = trial.end(job, "a capture of the old catalog")
    is_true = ended.ok or any(text in ended.text for text in _FOREIGN)
    trial.expect(is_true, "unclear", f"a capture beside a rebuild: {ended}")
    is_true = made.ok or any(text in made.text for text in _BUSY)
    trial.expect(is_true, "unclear", f"a rebuild beside a capture: {made}")


def _old_one_is_out(trial: Trial) -> None:
    """Neither captures nor removals of the old catalog reach the folder."""
    trial.publish(10)
    ended = trial.capture()
    trial.expect(any(text in ended.text for text in _FOREIGN), "silent", f"the old catalog captures: {ended}")
    trial.run(change_jobs.sweep)
    purged = trial.run(jobs.delete, ARCHIVE)
    trial.expect(not purged.ok, "silent", "the old catalog purges the folder of the new one")


@fault("catalog dump and load", "a catalog is dumped and loaded: kill -9 at each table, beside a capture", short=True)
def dump_and_load(trial: Trial) -> None:
    rng = trial.random
    trial.make_stream(rng.randint(100, 400))
    trial.finish_capture()
    trial.publish(rng.randint(10, 100))
    file = str(trial.servers.folder / f"dump-{trial.seed}-{rng.getrandbits(32)}")
    if rng.random() < 0.5:
        trial.run(keep_jobs.dump, file, fault=f"dump.table:kill:{rng.randint(1, 15)}")
    if rng.random() < 0.5:
        with trial.held("dump.table", keep_jobs.dump, file, passes=rng.randint(1, 15)) as job:
            trial.capture()  # a part of it is after the moment of the dump
        ended = trial.end(job, "a dump beside a capture")
        trial.expect(ended.ok, "stuck", f"a dump beside a capture: {ended}")
    trial.finish(keep_jobs.dump, file, refusals=("There is a file",))
    with trial.servers.database() as second, in_catalog(trial, second):
        for _ in range(rng.randint(0, 2)):
            step = rng.choice((f"load.table:kill:{rng.randint(1, 15)}", "load.before_commit:kill"))
            trial.run(keep_jobs.load, file, fault=step)
            with trial.servers.admin(database=second) as connection:
                ((rows,),) = connection.execute(_ROWS).fetchall()
            trial.expect(rows == 0, "silent", f"a load that was killed left {rows} rows")
        if rng.random() < 0.4:
            with trial.held("load.table", keep_jobs.load, file, passes=rng.randint(1, 10)) as job:
                other = trial.start(keep_jobs.load, file)
            ended, second_ended = trial.end(job, "a load"), trial.end(other, "another load")
            trial.expect(ended.ok != second_ended.ok, "doubled", f"two loads: {ended}, {second_ended}")
        else:
            trial.finish(keep_jobs.load, file)
        trial.finish_capture()
        trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "the archive is not intact after a load")
