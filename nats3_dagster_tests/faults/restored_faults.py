"""Faults: the catalog, the bucket or NATS is put back to an earlier state, each without the others."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster_tests.faults import jobs, restored_jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.restored_course import Course, covers, make
from nats3_dagster_tests.faults.taking_faults import earlier
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

_NO_OWNER = "owner object is missing"


@fault("catalog put back", "the catalog is put back after more was captured, and deleted in the stream", short=True)
def catalog_put_back(trial: Trial) -> None:
    course, rng = make(trial), trial.random
    with earlier(trial) as put_back:
        course.rounds(rng.randint(1, 3))
        if rng.random() < 0.9:
            course.remove()
        held = rng.random() < 0.25
        step = rng.choice(("before_put", "object_put", "before_commit"))
        with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) if held else nullcontext() as job:
            put_back()
        if job:
            trial.end(job, f"capture held at {step}")
        course.note_objects()
    if rng.random() < 0.6:
        trial.publish(rng.randint(1, 100))
    if rng.random() < 0.5:
        course.capture()
    if rng.random() < 0.3:
        course.remove()
    course.finish()


@fault("bucket put back", "the bucket is an older copy: objects of chunks are gone, the owner object too or not")
def bucket_put_back(trial: Trial) -> None:
    course, rng = make(trial), trial.random
    copied = rng.choice((set[str](), set(trial.stored_keys())))
    course.rounds(rng.randint(0, 1))
    copied |= rng.choice((set[str](), set(trial.stored_keys())))
    course.rounds(rng.randint(1, 2))
    if not trial.finish(jobs.capture, ARCHIVE):
        return
    course.note_objects()
    if rng.random() < 0.7:
        course.remove()
    live = {key: trial.fetch(BUCKET, key) for _, key in trial.live_objects()}
    owner = f"{trial.stream}/archive={ARCHIVE}/_owner.json"
    copied = copied - {owner} if rng.random() < 0.5 else copied | {owner}
    for key in set(trial.stored_keys()) - copied:
        trial.overwrite(BUCKET, key, None)
    missing = live.keys() - set(trial.stored_keys())
    before = dict(course.objects)
    course.objects = {key: seqs for key, seqs in before.items() if key in trial.stored_keys()}
    if live and owner not in copied:
        _without_owner(trial, bool(missing))
    named = trial.must(jobs.verify_all, ARCHIVE)
    trial.expect(set(named) == missing, "silent", f"verify names {named} and not {sorted(missing)}")

    # A repair also takes messages from objects that no chunk lists, such as those of a capture that was killed.
    there = course.in_stream().union(*course.objects.values())
    whole = {key for key in missing if before[key] <= there}
    done = trial.must(restored_jobs.repair, ARCHIVE, False)
    trial.expect(set(done) == whole, "lost", f"repaired are {done} and not {sorted(whole)}")
    named = trial.must(jobs.verify_all, ARCHIVE)
    trial.expect(set(named) == missing - whole, "silent", f"after the repair verify names {named}")
    if not trial.finish(jobs.capture, ARCHIVE):
        return
    course.judge(missing - whole)
    lost = set[int]()
    if rng.random() < 0.5:
        trial.must(restored_jobs.repair, ARCHIVE, True)
        lost = {seq for key in missing - whole for seq in before[key]} - there
    else:
        for key in missing - whole:  # from another copy
            trial.overwrite(BUCKET, key, live[key])
    named = trial.must(jobs.verify_all, ARCHIVE)
    trial.expect(named == [], "silent", f"at the end verify names {named}")
    course.judge(lost=lost)


def _without_owner(trial: Trial, has_missing: bool) -> None:
    """Nothing is written until the archive owns its folder again."""
    trial.publish(trial.random.randint(1, 100))
    before = trial.stored_keys()
    for work, arguments in ((jobs.capture, ()), *(((restored_jobs.repair, (False,)),) if has_missing else ())):
        ended = trial.run(work, ARCHIVE, *arguments)
        trial.expect(_NO_OWNER in ended.text, "silent", f"{work.__name__} without an owner object: {ended}")
    trial.expect(trial.stored_keys() == before, "silent", "objects were put into a folder without an owner object")
    trial.must(restored_jobs.claim, ARCHIVE)


@fault("nats and catalog put back", "NATS and the catalog are put back; the bucket has chunks of an abandoned history")
def nats_and_catalog_put_back(trial: Trial) -> None:
    rng = trial.random
    with _own_server(trial) as server:
        course = make(trial)
        with earlier(trial) as put_back:
            course.rounds(rng.randint(0, 2))
            fork = max(seq for _, seq in trial.truth.messages)
            taken = dict(trial.truth.taken)
            copy = server.folder.with_name(f"{server.folder.name}-copy")
            _while_stopped(server, lambda: shutil.copytree(server.folder / "data", copy))
            course.rounds(rng.randint(1, 2))
            _while_stopped(server, lambda: (shutil.rmtree(server.folder / "data"), copy.rename(server.folder / "data")))
            put_back()
        course.abandoned = {key for key, seqs in course.objects.items() if max(seqs) > fork}
        trial.truth.taken = taken
        for key in [key for key in trial.truth.messages if key[1] > fork]:
            del trial.truth.messages[key]
        trial.publish(rng.randint(20, 400))
        _remove_but_evidence(course, fork)
        if rng.random() < 0.5:
            course.capture()
        if rng.random() < 0.5:
            trial.publish(rng.randint(1, 100))
        course.finish()


def _remove_but_evidence(course: Course, fork: int) -> None:
    """Remove messages, but in the range of each abandoned object leave one that was published since. An object of a
    range that has none is deleted: nothing tells it from one of the stream."""
    trial, keep = course.trial, set[int]()
    fresh = [key[1] for key in trial.truth.messages if key[1] > fork and course.is_wanted(key)]
    for key in sorted(course.abandoned):
        evidence = [seq for seq in fresh if min(covers(key)) <= seq <= max(course.objects[key])]
        if evidence:
            keep.add(trial.random.choice(evidence))
        elif course.subjects or (fresh and max(fresh) >= max(course.objects[key])):
            trial.overwrite(BUCKET, key, None)
            course.abandoned.remove(key)
            del course.objects[key]
    if keep:
        course.remove(keep, every_after=fork if trial.random.random() < 0.5 else None)


@contextmanager
def _own_server(trial: Trial) -> Iterator[NatsServer]:
    """The trial's streams are on a server that may be stopped."""
    server = NatsServer(trial.servers.folder / f"nats-{trial.seed}")
    try:
        trial.use_nats(server.start())
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)


def _while_stopped(server: NatsServer, act: Callable[[], object]) -> None:
    server.stop()
    act()
    server.start()
