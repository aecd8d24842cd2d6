"""Faults: captures of a stream that keeps 30 messages, through the buffer of its archive."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nats3_dagster.model import ArchiveSpec
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.cluster_faults import lose_leader, step_down, wait_for_leaders
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import HEAD_LIES, created_ns, make_messages, publish
from nats3_dagster_tests.support.wire import Wire

BUFFER = f"NATS3-BUFFER-{ARCHIVE}"
# Messages that the stream keeps, and that are published before the buffer is waited for.
KEPT, AT_ONCE = 30, 20
_STEPS = ("planned", "before_put", "object_put", "before_commit", "after_commit")


@contextmanager
def _buffered(trial: Trial, **config: Any) -> Iterator[Wire]:
    """The stream without a message, and its archive with a buffer."""
    _remove(trial)
    try:
        trial.make_stream_alone(0, max_msgs=KEPT, **{"storage": trial.random.choice(("file", "memory"))} | config)
        spec = ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix=trial.stream, buffer_s=3600)
        trial.must(jobs.create, spec)
        with trial.wire() as wire:
            yield wire
    finally:
        _remove(trial)


def _remove(trial: Trial) -> None:
    """A buffer of another trial has the same name."""
    with trial.wire() as wire:
        wire.try_api(f"STREAM.DELETE.{BUFFER}")


def _publish(trial: Trial, wire: Wire, count: int) -> None:
    """At a pace that the buffer follows: a mirror is slower than a burst."""
    sent = make_messages(trial.random, trial.prefix, count, len(trial.truth.messages))
    for at in range(0, count, AT_ONCE):
        publish(wire, trial.stream, sent[at : at + AT_ONCE], trial.truth, AT_ONCE)
        last = wire.state(trial.stream)["last_seq"]
        while "error" not in (info := wire.try_api(f"STREAM.INFO.{BUFFER}")) and info["state"]["last_seq"] < last:
            pass


# Older servers keep no metadata of streams.
_SINCE = (2, 10)


@fault(
    "buffer, killed", "kill -9 of a capture of a stream with 30 messages, through its buffer", short=True, since=_SINCE
)
def killed(trial: Trial) -> None:
    """No message is lost, whatever the stream has removed."""
    with _buffered(trial) as wire:
        for _ in range(trial.random.randint(1, 3)):
            _publish(trial, wire, trial.random.randint(20, 200))
            step, passes = trial.random.choice(_STEPS), trial.random.randint(1, 2)
            trial.capture(fault=f"capture.{step}:kill:{passes}")
        _publish(trial, wire, trial.random.randint(0, 100))
        trial.finish_capture()


@fault("buffer deleted", "the buffer is deleted by another hand in the middle of a capture", short=True, since=_SINCE)
def deleted(trial: Trial) -> None:
    """What neither the archive nor the stream has then is lost, and a person is asked."""
    with _buffered(trial) as wire:
        _publish(trial, wire, trial.random.randint(60, 200))
        if trial.random.random() < 0.5:
            trial.finish_capture()
            _publish(trial, wire, 100)
        step = trial.random.choice(("planned", "before_put", "object_put", "before_commit"))
        with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) as job:
            wire.api(f"STREAM.DELETE.{BUFFER}")
            _publish(trial, wire, trial.random.randint(1, 100))
            _take_what_went(trial, wire)
        trial.end(job, f"capture held at {step}")
        again = trial.capture()
        trial.expect(not again.ok, "silent", "a capture without its buffer asked no person")
        trial.finish_capture(adopt=True)
        _publish(trial, wire, 60)
        trial.finish_capture()


@fault(
    "buffer of another stream",
    "the stream is made again in the middle of a capture through its buffer",
    short=True,
    since=_SINCE,
)
def made_again(trial: Trial) -> None:
    """A server appends the messages of the new stream to those that the buffer has of the old one."""
    with _buffered(trial) as wire:
        _publish(trial, wire, trial.random.randint(40, 120))
        if trial.random.random() < 0.5:
            trial.finish_capture()
            _publish(trial, wire, 40)
        step = trial.random.choice(("planned", "before_put", "object_put", "before_commit"))
        with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) as job:
            last = wire.state(trial.stream)["last_seq"]
            wire.api(f"STREAM.DELETE.{trial.stream}")
            wire.create_stream(trial.stream, f"{trial.prefix}.>")
            # What the new stream has up to the end of the old one never comes into the buffer.
            sent = make_messages(trial.random, trial.prefix, last + 50, len(trial.truth.messages))
            publish(wire, trial.stream, sent, trial.truth, AT_ONCE)
            _take_what_went(trial, wire)
            if trial.random.random() < 0.5:
                while wire.state(BUFFER)["last_seq"] <= last:
                    pass
        trial.end(job, f"capture held at {step}")
        again = trial.capture()
        trial.expect(not again.ok, "silent", "a capture of another stream asked no person")
        trial.finish_capture(adopt=True)


def _take_what_went(trial: Trial, wire: Wire) -> None:
    """The messages that the stream no longer has."""
    created = created_ns(wire, trial.stream)
    there = {message.seq for message in wire.messages(trial.stream)}
    trial.truth.take([key for key in trial.acknowledged() if key[0] != created or key[1] not in there], HEAD_LIES)


@fault(
    "cluster: leader of a buffer lost",
    "the leader of the buffer, or of its stream, is killed or steps down in the middle of a capture",
    cluster=True,
    since=(2, 14),
)
def leader_lost(trial: Trial) -> None:
    with _buffered(trial, storage="file"):
        for _ in range(2):
            wait_for_leaders(trial, trial.stream)
            wait_for_leaders(trial, BUFFER)
            with trial.wire() as wire:
                _publish(trial, wire, trial.random.randint(40, 120))
            step = trial.random.choice(("planned", "before_put", "object_put", "before_commit"))
            with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) as job:
                lose = trial.random.choice((lose_leader, step_down))
                lose(trial, trial.random.choice((BUFFER, trial.stream)))
            trial.end(job, f"capture held at {step}")
        wait_for_leaders(trial, trial.stream)
        wait_for_leaders(trial, BUFFER)
        trial.finish_capture()
