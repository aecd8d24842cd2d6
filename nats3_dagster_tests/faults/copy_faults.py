"""Faults: an archive with a copy, while processes die between the two buckets, objects go, and buckets are away."""

from collections.abc import Callable
from functools import partial
from typing import Any

from nats3_dagster_tests.faults import change_jobs, compact_faults, compact_jobs, copy_jobs, jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

COPY = "faults-copy"
POINTS = {
    "copy.claimed": "a copying that owns the folder there",
    "copy.object_put": "a copying after an object",
    "copy.put": "a copying after its objects, before the catalog knows",
    "copy.done": "a copying after the catalog knows",
    "seal.object_put": "a seal whose manifest is in the first bucket alone",
    "seal.added": "a seal before the catalog knows that its manifest is in the copy",
    "delete.deleted": "a removal from the first bucket",
}
# The objects that the valid seals of an archive stand for: their manifests, and the chunks of their hours.
_SEALED = """
with s as (
    select s.archive_id, s.hour, s.key from nats3.seal s join nats3.archive a on a.id = s.archive_id
    where a.name = %(name)s and a.deleted_at is null and s.superseded_at is null
    and s.revision = (select max(h.revision) from nats3.hour h where h.archive_id = s.archive_id and h.hour = s.hour)
)
select key from s
union
select c.key from s join nats3.chunk c on c.archive_id = s.archive_id and c.hour = s.hour and c.deleted_at is null"""


def made(trial: Trial) -> None:
    """An archive with a copy from its beginning, or from later on."""
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    (trial.folder / COPY).mkdir()
    trial.make_stream(trial.random.randint(20, 120))
    trial.must(jobs.capture, ARCHIVE)
    if trial.random.random() < 0.5:
        compact_faults.grow(trial, 1)
    trial.must(change_jobs.change, ARCHIVE, {"copies": (COPY,)})
    trial.must(copy_jobs.copy, ARCHIVE)  # an hour that ended before is not sealed again
    compact_faults.grow(trial, trial.random.randint(1, 3))
    judge(trial)


def judge(trial: Trial, copy: str = COPY) -> None:
    """What a seal promises is in both buckets, byte for byte. Judged by SQL and files of its own, at any moment."""
    with trial.servers.admin(database=trial.database) as connection:
        keys = [key for (key,) in connection.execute(_SEALED, {"name": ARCHIVE})]
    bad = [key for key in keys if not trial.exists(copy, key) or trial.fetch(copy, key) != trial.fetch(BUCKET, key)]
    trial.expect(not bad, "silent", f"{len(bad)} objects of sealed hours are not in the copy: {bad[:2]}")


def finish(trial: Trial) -> None:
    """Everything is sealed, compacted, swept and copied: then the buckets are the same."""
    trial.finish(jobs.capture, ARCHIVE)
    trial.finish(compact_jobs.seal_each, ARCHIVE)
    judge(trial)
    trial.finish(compact_jobs.compact, ARCHIVE)
    judge(trial)
    trial.finish(compact_jobs.sweep)
    trial.finish(copy_jobs.copy, ARCHIVE)
    trial.judge_archive()
    trial.judge_seals()
    judge(trial)
    own, other = (
        {key for key in trial.keys(bucket, "") if "/_" not in key and ".tmp" not in key} for bucket in (BUCKET, COPY)
    )
    # A seal that was killed leaves a manifest that no row has.
    unlisted = [key for key in own - other if "/manifest-" not in key]
    trial.expect(not unlisted, "stuck", f"{len(unlisted)} objects are not in the copy: {sorted(unlisted)[:2]}")
    trial.expect(not other - own, "stuck", f"the copy has what the archive lost: {sorted(other - own)[:2]}")
    trial.expect(trial.must(copy_jobs.copy, ARCHIVE) == 0, "stuck", "there is something to copy after all was copied")


def killed(trial: Trial, point: str) -> None:
    made(trial)
    for _ in range(trial.random.randint(1, 3)):
        compact_faults.grow(trial, 1)
        _work(point)(trial, f"{point}:{trial.random.choice(('kill', 'kill', 'raise'))}")
        judge(trial)
    finish(trial)


def _work(point: str) -> Callable[[Trial, str], Any]:
    if point.startswith("copy."):
        return lambda trial, fault: trial.run(copy_jobs.try_copy, ARCHIVE, fault=fault)
    if point.startswith("delete."):
        return _sweep
    return lambda trial, fault: trial.run(compact_jobs.compact, ARCHIVE, fault=fault)


def _sweep(trial: Trial, fault: str) -> None:
    trial.run(compact_jobs.compact, ARCHIVE)
    trial.run(compact_jobs.sweep, fault=fault)


for _point, _breaks in POINTS.items():
    fault(f"copy, kill {_point}", f"kill -9 of {_breaks}", store="file", short=_point == "copy.put")(
        partial(killed, point=_point)
    )


@fault("copies at once", "copies, seals, compactions and sweeps of an archive at once", store="file")
def at_once(trial: Trial) -> None:
    made(trial)
    rng = trial.random
    others: list[tuple[Any, ...]] = [
        (copy_jobs.try_copy, ARCHIVE),
        (compact_jobs.try_compact, ARCHIVE),
        (compact_jobs.sweep,),
        (jobs.capture, ARCHIVE),
    ]
    trial.publish(rng.randint(1, 60))
    points = [f"{rng.choice([*POINTS])}:sleep={rng.random() / 2:.2f}" for _ in range(rng.randint(2, 4))]
    started = [trial.start(*rng.choice(others), fault=point) for point in points]
    for job in started:
        ended = trial.end(job, "one of several at once")
        trial.expect(ended.ok, "unclear", f"it ended with: {ended}")
    judge(trial)
    finish(trial)


@fault(
    "copy away, objects lost",
    "the copy is away during captures and seals; objects of the first bucket are removed or damaged, and are read, "
    "replayed and repaired; then those of the copy, which a check puts again",
    store="file",
    short=True,
)
def away_and_lost(trial: Trial) -> None:
    made(trial)
    rng = trial.random
    (trial.folder / COPY).rename(trial.folder / "elsewhere")
    trial.publish(rng.randint(1, 60))
    trial.must(jobs.capture, ARCHIVE)
    refused = trial.run(compact_jobs.seal_each, ARCHIVE)
    trial.expect(not refused.ok and "copy" in refused.text, "silent", f"a seal without its copy ended with: {refused}")
    (trial.folder / "elsewhere").rename(trial.folder / COPY)
    judge(trial)
    trial.must(compact_jobs.seal_each, ARCHIVE)
    judge(trial)

    before = trial.must(copy_jobs.read, ARCHIVE)
    live = trial.live_objects()
    for bucket, key in rng.sample(live, rng.randint(1, len(live))):
        data = trial.fetch(bucket, key)
        at = rng.randrange(len(data))
        harmed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        trial.overwrite(bucket, key, rng.choice((None, harmed, data[:at])))
    read = trial.must(copy_jobs.read, ARCHIVE)
    trial.expect(read == before, "lost", f"{len(read)} of {len(before)} messages were read with the copy")
    trial.make_target()
    replay = trial.begin_replay()
    trial.finish(jobs.replay, replay, refusals=("has succeeded",))
    messages = trial.stored()
    trial.expect(len(messages) == len(before), "lost", f"{len(messages)} of {len(before)} messages were replayed")
    if rng.random() < 0.5:
        trial.run(copy_jobs.repair, ARCHIVE, fault=f"repair.put_back:kill:{rng.randint(1, 2)}")
    trial.finish(copy_jobs.repair, ARCHIVE)
    judge(trial)
    finish(trial)
    _mended(trial)


def _mended(trial: Trial) -> None:
    """Objects of the copy are removed or damaged, and put again by a check that dies."""
    rng = trial.random
    there = sorted(key for key in trial.keys(COPY, "") if "/_" not in key)
    for key in rng.sample(there, rng.randint(1, len(there))):
        trial.overwrite(COPY, key, rng.choice((None, b"", trial.fetch(COPY, key)[:-1])))
    if rng.random() < 0.5:
        trial.run(copy_jobs.check, ARCHIVE, fault=f"copy.put_again:{rng.choice(('kill', 'raise'))}")
    trial.finish(copy_jobs.check, ARCHIVE)
    judge(trial)
    finish(trial)
