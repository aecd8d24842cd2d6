"""Faults: what somebody does to the stream while it is captured, and clocks that step."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.model import ArchiveSpec
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import DELETE_LIES, HEAD_LIES, as_json, created_ns, make_messages
from nats3_dagster_tests.support.wire import Wire

HOUR_NS, MINUTE_NS = 3600 * 10**9, 60 * 10**9
Change = Callable[[Trial, Wire], None]


def change_stream(trial: Trial, change: Change, lies: frozenset[str], *, adopt: bool = False, **config: Any) -> None:
    """Somebody changes the stream while a capture is held; what went from it may be a gap, with a true reason."""
    trial.make_stream(trial.random.randint(300, 900), **config)
    if trial.random.random() < 0.3:
        trial.finish_capture()
        trial.publish(300)
    step = trial.random.choice(("planned", "planned", "before_put", "object_put"))
    passes = trial.random.randint(1, 2)
    with trial.held(f"capture.{step}", jobs.capture, ARCHIVE, adopt, passes=passes) as job, trial.wire() as wire:
        change(trial, wire)
        take_what_went(trial, wire, lies)
        if trial.random.random() < 0.5:
            trial.publish(50)
            take_what_went(trial, wire, lies)  # a limit that was shrunk has moved on
    trial.end(job, f"capture held at {step}")
    trial.finish_capture(adopt=adopt)


def take_what_went(trial: Trial, wire: Wire, lies: frozenset[str]) -> None:
    """The messages that the stream no longer has."""
    created = created_ns(wire, trial.stream)
    there = {message.seq for message in wire.messages(trial.stream)}
    trial.truth.take([key for key in trial.acknowledged() if key[0] != created or key[1] not in there], lies)


@fault("stream purged", "the stream is purged, wholly or at its head, in the middle of a capture", short=True)
def purged(trial: Trial) -> None:
    def change(trial: Trial, wire: Wire) -> None:
        options = {"keep": trial.random.randint(1, 200)} if trial.random.random() < 0.7 else {}
        wire.api(f"STREAM.PURGE.{trial.stream}", **options)

    change_stream(trial, change, HEAD_LIES)


@fault("messages deleted", "single messages are deleted inside the range that is captured", short=True)
def deleted(trial: Trial) -> None:
    def change(trial: Trial, wire: Wire) -> None:
        keys = trial.acknowledged()
        first = trial.random.randint(1, len(keys) - 60)
        run = keys[first : first + trial.random.choice((1, 40))]
        for _, seq in {*run, *trial.random.sample(keys[1:], 10)}:
            wire.try_api(f"STREAM.MSG.DELETE.{trial.stream}", seq=seq)

    change_stream(trial, change, DELETE_LIES)


@fault("subject purged", "one subject of the stream is purged in the middle of a capture")
def subject_purged(trial: Trial) -> None:
    def change(trial: Trial, wire: Wire) -> None:
        wire.api(f"STREAM.PURGE.{trial.stream}", filter=f"{trial.prefix}.b.c")

    change_stream(trial, change, DELETE_LIES)


@fault("limits shrunk", "max_msgs shrinks in the middle of a capture", short=True)
def limits_shrunk(trial: Trial) -> None:
    change_stream(trial, _update(max_msgs=100), HEAD_LIES)


@fault("limit per subject", "max_msgs_per_subject takes messages from the middle before they are captured")
def limit_per_subject(trial: Trial) -> None:
    change_stream(trial, _update(max_msgs_per_subject=20), HEAD_LIES)


@fault("messages expire", "max_age takes messages in the middle of a capture")
def expire(trial: Trial) -> None:
    def change(trial: Trial, wire: Wire) -> None:
        _update(max_age=200_000_000, duplicate_window=100_000_000)(trial, wire)
        while wire.state(trial.stream)["messages"]:
            time.sleep(0.02)
        _update(max_age=0)(trial, wire)

    change_stream(trial, change, HEAD_LIES)


def _update(**limits: int) -> Change:
    def change(trial: Trial, wire: Wire) -> None:
        config = wire.api(f"STREAM.INFO.{trial.stream}")["config"]
        wire.api(f"STREAM.UPDATE.{trial.stream}", **{**config, **limits})

    return change


@fault("stream made again", "the stream is deleted and made again in the middle of a capture", short=True)
def made_again(trial: Trial) -> None:
    def change(trial: Trial, wire: Wire) -> None:
        wire.api(f"STREAM.DELETE.{trial.stream}")
        wire.create_stream(trial.stream, f"{trial.prefix}.>")

    trial.make_stream(400)
    if trial.random.random() < 0.5:
        trial.finish_capture()
        trial.publish(100)
    with trial.held("capture.before_put", jobs.capture, ARCHIVE) as job, trial.wire() as wire:
        change(trial, wire)
        take_what_went(trial, wire, HEAD_LIES)
        trial.publish(200)
    trial.end(job, "capture held at before_put")
    again = trial.capture()
    trial.expect(not again.ok, "silent", "a capture of another stream asked nobody")
    trial.finish_capture(adopt=True)


# Clocks


def restore(trial: Trial, hours: list[float]) -> None:
    """The stream with ten messages a second apart at each of these times, in hours from now, in this order."""
    now = time.time_ns()
    restore_at(trial, [now + int(hour * HOUR_NS) + second * 10**9 for hour in hours for second in range(10)])


def restore_at(trial: Trial, times: list[int]) -> None:
    """The stream with a message at each of these times, in nanoseconds since 1970, in this order; and its archive."""
    sent = make_messages(trial.random, trial.prefix, len(times))
    past = [Past(n, at, *message) for n, (at, message) in enumerate(zip(times, sent, strict=True), 1)]
    restore_stream(trial.servers.nats.url, trial.stream, [f"{trial.prefix}.>"], past)
    with trial.wire() as wire:
        created = created_ns(wire, trial.stream)
        for message in wire.messages(trial.stream):
            subject = sent[message.seq - 1][0]
            assert message.subject == as_json(subject), message.seq
            trial.truth.messages[created, message.seq] = message._replace(subject=subject)
    trial.must(jobs.create, ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix=trial.stream))


@fault("clock steps", "the server's clock steps back and forth by an hour between messages", since=(2, 15), short=True)
def clock_steps(trial: Trial) -> None:
    hours, at = list[float](), -12.0
    for _ in range(trial.random.randint(6, 20)):
        at += trial.random.choice((-1.0, 0.2, 0.5, 1.0))
        hours.append(min(at, -1.1))
    restore(trial, hours)
    trial.capture(fault=trial.random.choice(("", "capture.before_commit:kill:2")))
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    trial.finish_replay(trial.begin_replay())
    trial.finish(jobs.seal_all, ARCHIVE)
    trial.judge_seals()
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "an archive across a step is not intact")


@fault("clock at 1970", "the server's clock is at 1970 when it stores messages", since=(2, 15))
def clock_at_1970(trial: Trial) -> None:
    """All of them in its first hour, or later ones as well, and many at its very beginning, where a time is 0. Of these
    the server itself loses those with which a block of its store begins."""
    count = trial.random.randint(1, 250)
    times = [trial.random.choice((0, trial.random.randrange(HOUR_NS))) for _ in range(count)]
    times[: trial.random.choice((0, 1))] = [1]
    if trial.random.random() < 0.5:
        now = time.time_ns()
        times += [now - 3 * HOUR_NS + second * 10**9 for second in range(50)]
    restore_at(trial, times)
    trial.capture(fault=trial.random.choice(("", "capture.before_commit:kill", "capture.object_put:kill")))
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    trial.run(jobs.replay, replay, fault=trial.random.choice(("", "replay.sent:kill", "replay.before_record:kill")))
    trial.finish_replay(replay)
    trial.finish(jobs.seal_all, ARCHIVE)
    # Hours before 2020 are sealed where somebody names them: a clock was not set there.
    trial.finish(jobs.seal_hour, ARCHIVE, "1970-01-01-00:00")
    trial.judge_seals()
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "an archive of 1970 is not intact")


@fault("own clock steps", "the clocks of driver and workers step back and forth by an hour", short=True)
def own_clock_steps(trial: Trial) -> None:
    """During a capture, a seal and a replay."""
    trial.set_clock(trial.random.choice(("1", "-1", "1,-1", "0,1,-1", "0,-1,1")), trial.random.choice((0.02, 0.1, 1)))
    trial.make_stream(trial.random.randint(300, 600))
    trial.capture(fault=trial.random.choice(("", "capture.object_put:kill:2", "capture.before_commit:kill")))
    trial.finish_capture()
    # By a clock that is ahead the hour has ended; Postgres' clock says that it has not.
    trial.finish(jobs.seal_all, ARCHIVE)
    trial.publish(trial.random.randint(1, 150))
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    trial.run(jobs.replay, replay, fault=trial.random.choice(("", "replay.sent:kill:2", "replay.before_record:kill")))
    trial.finish_replay(replay)
    trial.set_clock("2")
    ahead_ns = trial.must(jobs.now_ns) - time.time_ns()
    trial.expect(abs(ahead_ns - 2 * HOUR_NS) < MINUTE_NS, "stuck", f"the clock did not step: {ahead_ns}")
    running = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%d-%H:00")
    trial.finish(jobs.seal_all, ARCHIVE)
    with trial.servers.admin(database=trial.database) as connection:
        sealed: list[tuple[str]] = connection.execute("select hour from nats3.seal").fetchall()
    trial.expect(all(hour < running for (hour,) in sealed), "silent", f"a running hour is sealed: {sealed}")


@fault("kill seal", "kill -9 at each step of sealing hours", since=(2, 15), short=True)
def kill_seal(trial: Trial) -> None:
    restore(trial, [-5.0, -4.0, -3.0, -2.0])
    trial.finish_capture()
    point = trial.random.choice(("planned", "object_put", "added"))
    assert not trial.run(jobs.seal_all, ARCHIVE, fault=f"seal.{point}:kill:{trial.random.randint(1, 3)}").ok
    trial.finish(jobs.seal_all, ARCHIVE)
    with trial.servers.admin(database=trial.database) as connection:
        seals: list[tuple[str, str, str]] = connection.execute("select hour, bucket, key from nats3.seal").fetchall()
    trial.expect(len(seals) == len({hour for hour, _, _ in seals}), "doubled", f"seals: {seals}")
    trial.expect(len(seals) >= 4, "lost", f"only {len(seals)} hours are sealed")
    trial.expect(all(trial.exists(bucket, key) for _, bucket, key in seals), "lost", "a manifest is not in the store")
