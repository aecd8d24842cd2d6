"""Faults: erasures that die at any step while what could bring their messages back happens: an older catalog, a
rebuild, a deletion, copies that are away, compactions, versions. Judged by a reader of its own over every version of
every object."""

import io
from collections.abc import Callable

import pyarrow.parquet as pq

from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.hold import REBUILT
from nats3_dagster_tests.faults import (
    change_jobs,
    compact_faults,
    compact_jobs,
    copy_jobs,
    erase_faults,
    erase_jobs,
    jobs,
    keep_jobs,
)
from nats3_dagster_tests.faults.change_faults import in_catalog
from nats3_dagster_tests.faults.erase_faults import Ranges
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

COPY = "faults-erased"


def every_version(trial: Trial, bucket: str) -> list[tuple[str, bytes]]:
    """Each Parquet object of a bucket, listed or not, with all its versions, past the code under test."""
    if trial.is_file_store:
        return [(key, trial.fetch(bucket, key)) for key in trial.keys(bucket, "") if key.endswith(".parquet")]
    client = trial.servers.s3_client
    pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket)
    found: list[tuple[str, bytes]] = []
    for one in (version for page in pages for version in page.get("Versions", ())):
        if one["Key"].endswith(".parquet"):
            named = {} if one["VersionId"] == "null" else {"VersionId": one["VersionId"]}
            found.append((one["Key"], client.get_object(Bucket=bucket, Key=one["Key"], **named)["Body"].read()))
    return found


def judge_nowhere(trial: Trial, erased: Ranges, *buckets: str) -> None:
    """No version of any object has an erased message."""
    gone = {seq for first, last in erased for seq in range(first, last + 1)}
    for bucket in buckets:
        for key, data in every_version(trial, bucket):
            found = gone.intersection(pq.read_table(io.BytesIO(data), columns=["seq"]).column("seq").to_pylist())
            trial.expect(not found, "silent", f"{key} in {bucket} still has the erased sequences {sorted(found)[:3]}")


def records(trial: Trial) -> list[str]:
    """The keys of the records beside the chunks, past the code under test."""
    return sorted(key for key in trial.keys(BUCKET, "") if "/_erasures/" in key)


def broken(trial: Trial) -> str:
    """A step of an erasure, and how it ends there; or none."""
    rng = trial.random
    step = rng.choice((*erase_faults.POINTS, ""))
    return step and f"erase.{step}:{rng.choice(('kill', 'kill', 'raise'))}:{rng.randint(1, 2)}"


def finish(trial: Trial, erased: Ranges, *buckets: str) -> None:
    """What is not finished is finished by sweeps, captures bring nothing back, and everything else is there."""
    trial.finish(erase_jobs.sweep)
    trial.finish(jobs.capture, ARCHIVE)
    trial.finish(erase_jobs.sweep)
    judge_nowhere(trial, erased, BUCKET, *buckets)
    erase_faults.finish(trial, erased)
    judge_nowhere(trial, erased, BUCKET, *buckets)
    trial.expect(trial.must(erase_jobs.prove, ARCHIVE) == [], "silent", "the proof finds what is not there")


@fault("erasure, older catalog", "the catalog is put back to before an erasure that died at any step", short=True)
def older_catalog(trial: Trial) -> None:
    erased, rng = erase_faults.made(trial), trial.random
    file = str(trial.servers.folder / f"erased-{trial.seed}")
    trial.must(keep_jobs.dump, file)
    if rng.random() < 0.4:
        compact_faults.grow(trial, 1)
    trial.run(erase_jobs.erase, ARCHIVE, erased, fault=broken(trial))
    decided = records(trial)
    if rng.random() < 0.5:
        _forget(trial, erased)
    with trial.servers.database() as second, in_catalog(trial, second):
        trial.must(keep_jobs.load, file)
        trial.run(jobs.capture, ARCHIVE, fault=rng.choice(("", "capture.before_commit:kill")))
        if not decided:
            # Nothing beside the chunks says that it was decided: this catalog is told again.
            trial.finish(erase_jobs.erase, ARCHIVE, erased)
        finish(trial, erased)


@fault(
    "erasure, rebuild", "the catalog is made again from the bucket after an erasure that died at any step", short=True
)
def rebuilt(trial: Trial) -> None:
    erased, rng = erase_faults.made(trial), trial.random
    trial.run(erase_jobs.erase, ARCHIVE, erased, fault=broken(trial))
    if rng.random() < 0.5:
        trial.run(erase_jobs.sweep, fault=broken(trial))
    decided = records(trial)
    if rng.random() < 0.5:
        _forget(trial, erased)
    with trial.servers.database() as second, in_catalog(trial, second):
        trial.finish(keep_jobs.rebuild, BUCKET, trial.stream)
        trial.must(keep_jobs.release, ARCHIVE, REBUILT)
        if not decided:
            trial.finish(erase_jobs.erase, ARCHIVE, erased)
        finish(trial, erased)


@fault("erasure, made again", "the archive is deleted after an erasure that died, and made again in its folder")
def made_again(trial: Trial) -> None:
    erased = erase_faults.made(trial)
    trial.run(erase_jobs.erase, ARCHIVE, erased, fault=broken(trial))
    trial.finish(erase_jobs.erase, ARCHIVE, erased)
    trial.must(trial.random.choice((jobs.delete, change_jobs.delete)), ARCHIVE)
    trial.must(jobs.create, ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix=trial.stream))
    trial.finish(jobs.capture, ARCHIVE)
    erase_faults.judge(trial, erased, done=True)
    judge_nowhere(trial, erased, BUCKET)
    back = trial.must(erase_jobs.bring_back, ARCHIVE)
    trial.expect(back == 0, "silent", f"{back} messages came back")
    judge_nowhere(trial, erased, BUCKET)


@fault(
    "erasure, copies",
    "an archive with a copy and a former one: either is away while messages are erased, and copyings die",
    store="file",
    short=True,
)
def with_copies(trial: Trial) -> None:
    rng, former = trial.random, f"{COPY}-former"
    erased = erase_faults.made(trial)
    for name in (COPY, former):
        (trial.folder / name).mkdir()
    trial.must(change_jobs.change, ARCHIVE, {"copies": (COPY, former)})
    trial.finish(copy_jobs.copy, ARCHIVE)
    trial.must(change_jobs.change, ARCHIVE, {"copies": (COPY,)})
    compact_faults.grow(trial, 1)
    away = rng.choice((COPY, former, ""))
    if away:
        (trial.folder / away).rename(trial.folder / f"{away}-away")
    ended = trial.run(erase_jobs.erase, ARCHIVE, erased, fault=broken(trial))
    trial.expect(not (ended.ok and away), "silent", f"an erasure without {away} ended with: {ended}")
    if away:
        refused = trial.run(change_jobs.delete, ARCHIVE)
        trial.expect(not refused.ok or not records(trial), "silent", "an archive went with its erasure")
        if refused.ok:
            return
        (trial.folder / f"{away}-away").rename(trial.folder / away)
    trial.run(copy_jobs.try_copy, ARCHIVE, fault=rng.choice(("", "copy.object_put:kill", "copy.put:kill")))
    trial.finish(erase_jobs.erase, ARCHIVE, erased)
    trial.finish(copy_jobs.copy, ARCHIVE)
    finish(trial, erased, COPY, former)
    trial.finish(copy_jobs.check, ARCHIVE)
    judge_nowhere(trial, erased, BUCKET, COPY, former)


@fault("erasure, versions", "the bucket keeps versions of what compactions and sweeps removed", store="s3", short=True)
def with_versions(trial: Trial) -> None:
    client = trial.servers.s3_client
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    try:
        erased = erase_faults.made(trial)
        trial.environment["NATS3_DELETE_GRACE"] = "0"
        trial.finish(compact_jobs.compact, ARCHIVE)
        trial.finish(compact_jobs.sweep)
        trial.run(erase_jobs.erase, ARCHIVE, erased, fault=broken(trial))
        trial.finish(erase_jobs.erase, ARCHIVE, erased)
        finish(trial, erased)
    finally:
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Suspended"})
        for page in client.get_paginator("list_object_versions").paginate(Bucket=BUCKET):
            for one in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                client.delete_object(Bucket=BUCKET, Key=one["Key"], VersionId=one["VersionId"])


@fault("erasure, hold", "a hold covers one of the messages, or is placed while an erasure is under way")
def with_a_hold(trial: Trial) -> None:
    erased, rng = erase_faults.made(trial), trial.random
    before = every_version(trial, BUCKET)
    held = rng.choice(erased)[0]
    if rng.random() < 0.6:
        trial.must(keep_jobs.hold, ARCHIVE, "court", held, held)
        refused = trial.run(erase_jobs.erase, ARCHIVE, erased)
        trial.expect(not refused.ok, "silent", "an erasure of held messages was a success")
        trial.expect(every_version(trial, BUCKET) == before, "silent", "a refused erasure changed objects")
        trial.must(keep_jobs.release, ARCHIVE, "court")
    else:
        trial.run(erase_jobs.erase, ARCHIVE, erased, fault=f"erase.{rng.choice([*erase_faults.POINTS])}:kill")
        placed = trial.run(keep_jobs.hold, ARCHIVE, "court", held, held)
        there = held in [key[1] for key in trial.archived().messages]
        trial.expect(not (placed.ok and there), "silent", "a hold was placed on what is being erased")
        if placed.ok:
            trial.must(keep_jobs.release, ARCHIVE, "court")
    trial.finish(erase_jobs.erase, ARCHIVE, erased)
    finish(trial, erased)


@fault("erasure beside a compaction", "a compaction is held at any step, or its driver dies, while messages are erased")
def beside_a_compaction(trial: Trial) -> None:
    erased, rng = erase_faults.made(trial), trial.random
    compact_faults.grow(trial, 1)
    step = rng.choice([*compact_faults.POINTS])
    work: Callable[..., object] = compact_jobs.try_compact
    with trial.held(f"compact.{step}", work, ARCHIVE) as job:
        other = trial.start(erase_jobs.try_erase, ARCHIVE, erased, fault=broken(trial))
        if rng.random() < 0.5:
            job.kill()
    trial.end(job, "a compaction that was held")
    trial.end(other, "an erasure beside it")
    trial.finish(erase_jobs.erase, ARCHIVE, erased)
    finish(trial, erased)


def _forget(trial: Trial, erased: Ranges) -> None:
    """The stream loses everything, or neighbours of what was erased: only the archive has those."""
    rng = trial.random
    with trial.wire() as wire:
        if rng.random() < 0.4:
            wire.api(f"STREAM.PURGE.{trial.stream}")
            return
        for first, last in erased:
            for seq in {first - 1, last + 1} & {key[1] for key in trial.truth.messages}:
                wire.try_api(f"STREAM.MSG.DELETE.{trial.stream}", seq=seq)
