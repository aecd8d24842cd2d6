"""Faults: an object store that refuses, forgets its answers or is full; and objects that somebody spoils."""

from collections.abc import Callable
from functools import partial

from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.support.servers import s3_proxy

_ANSWERS: dict[str, tuple[str, s3_proxy.Fault, tuple[str, ...]]] = {
    "s3 429": ("S3 answers 429 to some requests", s3_proxy.refuse(429, "TooManyRequests"), ("PUT", "GET")),
    "s3 500": ("S3 answers 500 to some requests", s3_proxy.refuse(500, "InternalError"), ("PUT", "GET", "HEAD")),
    "s3 503": ("S3 answers 503 to some requests", s3_proxy.refuse(503, "SlowDown"), ("PUT", "GET", "HEAD")),
    "s3 answer lost": ("S3 stores, and its answer is lost", s3_proxy.store_and_lose, ("PUT",)),
    "s3 timeout": ("S3 stores, and does not answer in time", s3_proxy.store_and_stall(4), ("PUT",)),
    "s3 body cut": ("S3 breaks off in the middle of an object", s3_proxy.cut_body, ("GET",)),
}


def s3_trouble(trial: Trial, answer: s3_proxy.Fault, commands: tuple[str, ...]) -> None:
    """A capture and a replay while a part of the answers, or all of them, are wrong."""
    proxy, share = trial.servers.s3_proxy, trial.random.choice((0.2, 0.5, 1.0))
    times = 2 if answer is _ANSWERS["s3 timeout"][1] else trial.random.choice((2, 10, 10_000))
    trial.through_proxy("s3")
    trial.make_stream(trial.random.randint(250, 500))
    proxy.break_at(answer, commands, share=share, times=times, seed=trial.seed)
    trial.capture()
    trial.finish_capture()
    trial.make_target()
    replay = trial.begin_replay()
    proxy.break_at(answer, commands, share=share, times=times, seed=trial.seed)
    trial.run(jobs.replay, replay)
    trial.finish_replay(replay)


for _name, (_breaks, _answer, _commands) in _ANSWERS.items():
    fault(_name, _breaks, store="s3", short=_name in ("s3 503", "s3 answer lost", "s3 body cut"))(
        partial(s3_trouble, answer=_answer, commands=_commands)
    )


@fault("disk full", "the disk of the store is full in the middle of a capture", store="file", short=True)
def disk_full(trial: Trial) -> None:
    with trial.servers.small_disk(f"{trial.random.randint(60, 300)}k") as folder:
        trial.use_store(f"file://{folder}")
        trial.make_stream(1200)
        trial.expect(not trial.capture().ok, "silent", "a capture onto a full disk is called a success")
        trial.servers.grow(folder, "20m")
        trial.finish_capture()


# Spoilt objects

Spoil = Callable[[Trial, list[tuple[str, str]]], list[str]]


def spoilt_objects(trial: Trial, spoil: Spoil) -> None:
    """Verify names exactly the spoilt ones, a replay refuses them; with the bytes back everything is well."""
    trial.make_stream(500)
    trial.finish_capture()
    trial.make_target()
    objects = trial.live_objects()
    before = {(bucket, key): trial.fetch(bucket, key) for bucket, key in objects}
    planned = trial.begin_replay()
    bad = spoil(trial, objects)
    found = trial.must(jobs.verify_all, ARCHIVE)
    trial.expect(sorted(found) == sorted(bad), "silent", f"verify names {found} and not {bad}")
    trial.expect(not trial.run(jobs.replay, planned).ok, "silent", "a replay of spoilt chunks is called a success")
    for (bucket, key), data in before.items():
        trial.overwrite(bucket, key, data)
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "silent", "verify blames chunks that are right")
    trial.finish_replay(planned)


def _spoil(alter: Callable[[Trial, bytes], bytes | None]) -> Spoil:
    def spoil(trial: Trial, objects: list[tuple[str, str]]) -> list[str]:
        chosen = trial.random.sample(objects, 2)
        for bucket, key in chosen:
            trial.overwrite(bucket, key, alter(trial, trial.fetch(bucket, key)))
        return [key for _, key in chosen]

    return spoil


def _flip(trial: Trial, data: bytes) -> bytes:
    at = trial.random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << trial.random.randrange(8))]) + data[at + 1 :]


def _swap(trial: Trial, objects: list[tuple[str, str]]) -> list[str]:
    (_, one), (_, other) = trial.random.sample(objects, 2)
    data = trial.fetch(BUCKET, one), trial.fetch(BUCKET, other)
    trial.overwrite(BUCKET, one, data[1])
    trial.overwrite(BUCKET, other, data[0])
    return [one, other]


_SPOILT: dict[str, tuple[str, Spoil]] = {
    "chunks deleted": ("objects of chunks are deleted", _spoil(lambda trial, data: None)),
    "chunks truncated": (
        "objects of chunks are cut",
        _spoil(lambda trial, data: data[: trial.random.randrange(len(data))]),
    ),
    "chunks flipped": ("one bit of an object is another", _spoil(_flip)),
    "chunks swapped": ("two objects have each other's bytes", _swap),
}
for _name, (_breaks, _act) in _SPOILT.items():
    fault(_name, _breaks, short=_name in ("chunks flipped", "chunks swapped"))(partial(spoilt_objects, spoil=_act))
