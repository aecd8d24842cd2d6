"""Faults: targets that forget, refuse, store other subjects, or are flooded by a neighbour, while a replay goes on."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import Trial
from nats3_dagster_tests.support.wire import Wire

# Why a replay may say that it cannot go on: true where the target may have forgotten what it took.
FORGOT = ("may have removed", "deleted and made again", "cannot be known", "no longer", "was removed", "purged")
# Why a plan may refuse a target.
_REFUSED = ("per subject", "max_msgs_per_subject", "keeps only", "interest", "work", "retention", *FORGOT)


def replay_held(
    trial: Trial, change: Any, *, refusals: tuple[str, ...] = (), ordered: bool = True, **config: Any
) -> None:
    """A replay is held in the middle, or killed there, while the target changes; then it goes on."""
    trial.make_stream(trial.random.randint(400, 700))
    trial.finish_capture()
    trial.make_target(**{**target_config(trial), **config})
    begun = trial.run(jobs.begin, trial.replay_spec())
    if not begun.ok:
        trial.expect(any(text in begun.text for text in refusals), "stuck", f"refused: {begun}")
        return
    replay = begun.value
    step = trial.random.choice(("chunk_fetched", "sent", "acknowledged"))
    killed = trial.random.random() < 0.5
    with trial.held(f"replay.{step}", jobs.replay, replay, passes=trial.random.randint(1, 4)) as job:
        with trial.wire() as wire:
            change(wire)
        if killed:
            job.kill()
    trial.end(job, f"replay {'killed' if killed else 'held'} at {step}")
    trial.finish_replay(replay, refusals=refusals, ordered=ordered)


@fault("target purged", "the target is purged in the middle of a replay", short=True)
def purged(trial: Trial) -> None:
    replay_held(trial, lambda wire: wire.api(f"STREAM.PURGE.{trial.target}"), refusals=FORGOT)


@fault("target with a limit purged", "a target that keeps its newest messages is purged in the middle of a replay")
def limited_purged(trial: Trial) -> None:
    """Nothing is published behind the purge, so the target is less full than its limit allows."""
    trial.make_stream(400)
    trial.finish_capture()
    trial.make_target(**target_config(trial), max_msgs=trial.random.choice((50, 150)))
    replay = trial.begin_replay()
    options = {"keep": trial.random.randint(1, 40)} if trial.random.random() < 0.5 else {}
    passes = trial.random.randint(2, 4)
    with trial.held("replay.acknowledged", jobs.replay, replay, passes=passes) as job, trial.wire() as wire:
        wire.api(f"STREAM.PURGE.{trial.target}", **options)
    purged = trial.end(job, "replay held while its target is purged")
    trial.expect(not purged.ok, "silent", "a replay into a target that was purged is called a success")
    trial.expect("purged" in purged.text, "unclear", f"ended by the purge: {purged}")


@fault("target made again", "the target is deleted and made again in the middle of a replay", short=True)
def made_again(trial: Trial) -> None:
    def change(wire: Wire) -> None:
        config = wire.api(f"STREAM.INFO.{trial.target}")["config"]
        wire.api(f"STREAM.DELETE.{trial.target}")
        wire.api(f"STREAM.CREATE.{trial.target}", **config)

    replay_held(trial, change, refusals=FORGOT)


@fault("target transformed", "the target stores other subjects, and the replay is killed", since=(2, 10), short=True)
def transformed(trial: Trial) -> None:
    trial.make_stream(500)
    trial.finish_capture()
    transform = {"src": f"{trial.back}.>", "dest": f"stored{trial.seed}.>"}
    trial.make_target(**target_config(trial), subject_transform=transform)
    replay = trial.begin_replay()
    step = trial.random.choice(("chunk_fetched", "sent", "acknowledged"))
    assert not trial.run(jobs.replay, replay, fault=f"replay.{step}:kill:{trial.random.randint(1, 3)}").ok
    trial.finish_replay(replay, subject=lambda subject: f"stored{trial.seed}" + subject.removeprefix(trial.prefix))


@fault("target key-value", "the target keeps one message of a subject, and the replay is broken off")
def key_value(trial: Trial) -> None:
    """With so many kept nothing goes, but what is there no longer proves what was published."""
    replay_held(trial, lambda wire: None, refusals=_REFUSED, max_msgs_per_subject=100_000)


@fault("target flooded", "another client floods the target, which drops messages (max_buffered_msgs)", since=(2, 11))
def flooded(trial: Trial) -> None:
    more = {"max_msgs_per_subject": 1_000_000} if trial.random.random() < 0.5 else {}
    trial.use_nats(trial.servers.small_nats)
    trial.make_stream(trial.random.randint(2000, 3000))
    trial.finish_capture()
    trial.make_target(duplicate_window=100_000_000, **more)
    begun = trial.run(jobs.begin, trial.replay_spec())
    if not begun.ok:
        trial.expect(any(text in begun.text for text in _REFUSED), "stuck", f"refused: {begun}")
        return
    with flood(trial.servers.small_nats.url, f"{trial.back}.flood"):
        trial.run(jobs.replay, begun.value)
    trial.finish_replay(begun.value, refusals=_REFUSED)


@fault("target refuses large messages", "max_msg_size of the target is too small, and is raised later", short=True)
def too_large(trial: Trial) -> None:
    more = {"max_msgs_per_subject": 1_000_000} if trial.random.random() < 0.5 else {}
    trial.make_stream(400)
    trial.finish_capture()
    trial.make_target(**target_config(trial), **more, max_msg_size=1500)
    begun = trial.run(jobs.begin, trial.replay_spec())
    if not begun.ok:  # the plan knows it: nothing was published
        with trial.wire() as wire:
            trial.expect(wire.state(trial.target)["messages"] == 0, "doubled", "a refused plan published")
        trial.expect("max_msg_size" in begun.text, "stuck", f"refused: {begun}")
        return
    trial.expect(not trial.run(jobs.replay, begun.value).ok, "silent", "refused messages are called a success")
    with trial.wire() as wire:
        config = wire.api(f"STREAM.INFO.{trial.target}")["config"]
        wire.api(f"STREAM.UPDATE.{trial.target}", **{**config, "max_msg_size": -1})
    trial.finish_replay(begun.value, refusals=("broke the order", "out of order", "order", *_REFUSED))


@fault("target work queue", "a worker takes messages out of the target while the replay is broken off")
def work_queue(trial: Trial) -> None:
    def take(wire: Wire) -> None:
        name = trial.target
        config = {"durable_name": "w", "ack_policy": "explicit"}
        wire.api(f"CONSUMER.DURABLE.CREATE.{name}.w", stream_name=name, config=config)

    replay_held(trial, take, refusals=_REFUSED, retention="workqueue")


@contextmanager
def flood(url: str, subject: str) -> Iterator[None]:
    """A client that publishes in bursts for two seconds at most and reads no answer, while the body runs."""
    at, ended = urlsplit(url), threading.Event()
    connection = socket.create_connection((at.hostname or "", at.port or 0))
    connection.settimeout(0.5)
    options = {"verbose": False, "headers": True}
    connection.sendall(b"CONNECT %b\r\n" % json.dumps(options).encode())

    def work() -> None:
        piece = b"PUB %b 10\r\n0123456789\r\n" % subject.encode() * 200
        until = time.monotonic() + 2
        with suppress(OSError):
            while not ended.wait(0.02) and time.monotonic() < until:
                connection.sendall(piece)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        connection.close()
