"""Faults: a store of S3 that refuses for now, or does what is asked and loses its answer, whichever request it is; and
objects of other programs in an archive's folder."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from nats3_dagster.model import ArchiveSpec, ExportSpec
from nats3_dagster_tests.faults import compact_jobs, copy_faults, copy_jobs, export_jobs, jobs
from nats3_dagster_tests.faults.judge_exports import PATH, judge_files, read_hours
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.support.servers.s3_proxy import Fault, refuse, store_and_lose

EXPORT = "files"
_REQUESTS = ("GET", "PUT", "HEAD", "DELETE", "POST")
_REFUSALS: dict[str, tuple[str, Fault]] = {
    "s3 409": ("S3 answers 409 ConditionalRequestConflict to any request", refuse(409, "ConditionalRequestConflict")),
    "s3 400": ("S3 answers 400 RequestTimeout to any request", refuse(400, "RequestTimeout")),
    "s3 403 skew": ("S3 answers 403 RequestTimeTooSkewed to any request", refuse(403, "RequestTimeTooSkewed")),
    "s3 503 to any": ("S3 answers 503 SlowDown to any request", refuse(503, "SlowDown")),
    "s3 any answer lost": ("S3 does what any request asks, and its answer is lost", store_and_lose),
}


class Life:
    """An archive with a copy and an export into S3, from its creation to its replay."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        # Another trial of this seed has another catalog, and would find its places owned.
        self.copy, self.files = (f"{kind}-{trial.seed}-{uuid.uuid4().hex[:6]}" for kind in ("copy", "files"))
        trial.environment["NATS3_DELETE_GRACE"] = "0"
        for name in (self.copy, self.files):
            trial.servers.s3_client.create_bucket(Bucket=name)
        trial.make_stream_alone(trial.random.randint(40, 200))
        trial.make_target()

    def live(self, step: Callable[..., Any]) -> None:
        """Each step goes through `step(work, *arguments)`."""
        trial = self.trial
        spec = ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix=trial.stream, copies=(self.copy,))
        step(jobs.create, spec)
        export = ExportSpec(EXPORT, f"s3://{self.files}/out", path=PATH, decode="raw", format="messages")
        for _ in range(2):
            step(jobs.capture, ARCHIVE)
            trial.publish(trial.random.randint(5, 60))
        step(jobs.capture, ARCHIVE)
        step(compact_jobs.seal_each, ARCHIVE)
        step(compact_jobs.compact, ARCHIVE)
        step(compact_jobs.seal_each, ARCHIVE)  # what a refused compaction left unsealed
        step(compact_jobs.sweep)
        step(copy_jobs.copy, ARCHIVE)
        step(export_jobs.create_export, ARCHIVE, export)
        step(export_jobs.export_all, ARCHIVE, EXPORT, True)
        step(compact_jobs.sweep_orphans)
        replay = step(jobs.begin, trial.replay_spec())
        step(jobs.replay, replay)
        self.judge(replay)

    def judge(self, replay: str) -> None:
        """After all steps succeeded."""
        trial = self.trial
        trial.judge_archive()
        trial.judge_seals()
        copy_faults.judge(trial, self.copy)
        trial.judge_target(replay)
        files = {key.removeprefix("out/"): trial.fetch(self.files, key) for key in trial.keys(self.files, "out/")}
        with trial.servers.admin(database=trial.database) as connection:
            hours = read_hours(connection, ARCHIVE)
        trial.blame(judge_files(files, trial.truth.messages, hours, key=None))


def refused(trial: Trial, answer: Fault) -> None:
    """A refusal that passes is not seen. One that stays is an error that tells no object as lost, and once it is over
    the same work succeeds."""
    trial.through_proxy("s3")
    rng, proxy = trial.random, trial.servers.s3_proxy

    def step(work: Callable[..., Any], *arguments: Any) -> Any:
        is_passing = rng.random() < 0.6
        times = 1 if is_passing else rng.choice((3, 20, 10_000))
        proxy.break_at(answer, _REQUESTS, share=rng.choice((0.1, 0.3, 1.0)), times=times, seed=rng.getrandbits(30))
        ended = trial.run(work, *arguments)
        proxy.repair()
        trial.expect(ended.ok or not is_passing, "stuck", f"{work.__name__} failed for one refusal: {ended}")
        trial.expect("outside nats3" not in ended.text, "unclear", f"{work.__name__} tells an object as lost: {ended}")
        return ended.value if ended.ok else trial.must(work, *arguments)

    Life(trial).live(step)


for _name, (_breaks, _answer) in _REFUSALS.items():
    fault(_name, _breaks, store="s3", short=_name == "s3 409")(partial(refused, answer=_answer))


@fault("strangers", "other programs put objects with any keys into the folder of an archive", store="s3", short=True)
def strangers(trial: Trial) -> None:
    """They stop nothing, and stay as they are."""
    life, rng, client = Life(trial), trial.random, trial.servers.s3_client
    folder = f"{trial.stream}/archive={ARCHIVE}"
    hour = f"{folder}/date=2026-11-28/hour=07"
    names = [
        f"{folder}//a",
        f"{folder}/./b",
        f"{folder}/../archive={ARCHIVE}2/c",
        f"{folder}/new\nline",
        f"{folder}/date=2026-11-28/",
        f"{folder}/_SUCCESS",
        f"{folder}/_owner.json.bak",
        f"{hour}/part-0001.parquet",
        f"{hour}/manifest.json.zst",
        f"{hour}#/x.parquet",
        f"{folder}/date=x/hour=y/z.parquet",
        f"{trial.stream}/archive={ARCHIVE}2/_owner.json",
    ]
    put = dict[str, bytes]()

    def step(work: Callable[..., Any], *arguments: Any) -> Any:
        for key in rng.sample(names, 2):
            put[key] = rng.choice((b"", b"x", rng.randbytes(2000)))
            client.put_object(Bucket=BUCKET, Key=key, Body=put[key])
        return trial.must(work, *arguments)

    life.live(step)
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "silent", "verify blames chunks for others' objects")
    there = {key: trial.fetch(BUCKET, key) for key in put if trial.exists(BUCKET, key) or not put[key]}
    trial.expect(
        there == put, "lost", f"objects of others were removed or changed: {sorted(put.keys() - there.keys())}"
    )
