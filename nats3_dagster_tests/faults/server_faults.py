"""Faults: NATS killed, restarted or unreachable while a capture or a replay works, and two processes at once."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nats3_dagster.model import Selection, SeqRange
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

# Steps at which a process is held while a server goes.
_CAPTURE_STEPS = ("planned", "before_put", "object_put", "before_commit", "after_commit")
_REPLAY_STEPS = ("attempt_started", "chunk_fetched", "sent", "acknowledged", "before_record")
Trouble = Callable[[Trial], None]


def hold_capture(trial: Trial, trouble: Trouble, *, adopt: bool = False) -> None:
    """A capture is held somewhere while the trouble happens, then goes on as it can; at last it is complete."""
    step = trial.random.choice(_CAPTURE_STEPS)
    with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) as job:
        trouble(trial)
    trial.end(job, f"capture held at {step}")
    trial.finish_capture(adopt=adopt)


def hold_replay(trial: Trial, trouble: Trouble, **config: object) -> None:
    """The same with a replay."""
    trial.finish_capture()
    trial.make_target(**{**target_config(trial), **config})
    replay, step = trial.begin_replay(), trial.random.choice(_REPLAY_STEPS)
    with trial.held(f"replay.{step}", jobs.replay, replay, passes=trial.random.randint(1, 2)) as job:
        trouble(trial)
    trial.end(job, f"replay held at {step}")
    trial.finish_replay(replay)


@contextmanager
def meanwhile(act: Callable[[], object], every_s: float) -> Iterator[None]:
    """`act` again and again while the body runs."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every_s):
            act()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def capture_or_replay(trial: Trial, trouble: Trouble) -> None:
    """Either is held, as the seed chooses."""
    trial.make_stream(trial.random.randint(300, 700))
    (hold_capture if trial.random.random() < 0.5 else hold_replay)(trial, trouble)


def disturb(trial: Trial, act: Callable[[], object], every_s: float) -> None:
    """A whole capture and a whole replay under the trouble, and then without it."""
    trial.make_stream(trial.random.randint(400, 800))
    with meanwhile(act, every_s):
        trial.capture()
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    trial.through_proxy(*trial.proxied)
    with meanwhile(act, every_s):
        trial.run(jobs.replay, replay)
    trial.finish_replay(replay)


# NATS


@fault("nats killed", "kill -9 of the NATS server and a restart, in the middle", short=True)
def nats_killed(trial: Trial) -> None:
    def trouble(trial: Trial) -> None:
        trial.servers.nats.kill()
        trial.servers.nats.start()

    capture_or_replay(trial, trouble)


@fault("nats stopped", "the NATS server is stopped, and comes back after the run has failed")
def nats_stopped(trial: Trial) -> None:
    capture_or_replay(trial, lambda trial: trial.servers.nats.stop())


@fault("nats frozen", "the NATS server answers nothing for three seconds")
def nats_frozen(trial: Trial) -> None:
    def trouble(trial: Trial) -> None:
        trial.servers.nats.pause()
        threading.Timer(3, trial.servers.nats.resume).start()

    capture_or_replay(trial, trouble)


@fault("connections reset", "all connections to NATS are reset, again and again", short=True)
def connections_reset(trial: Trial) -> None:
    trial.through_proxy("nats")
    disturb(trial, trial.servers.nats_proxy.reset, trial.random.choice((0.15, 0.4)))


@fault("connection half-open", "connections to NATS stay, and nothing passes for three seconds; then they are reset")
def half_open(trial: Trial) -> None:
    def trouble(trial: Trial) -> None:
        trial.servers.nats_proxy.freeze()
        threading.Timer(3, end).start()

    def end() -> None:
        trial.servers.nats_proxy.reset()
        trial.servers.nats_proxy.repair()

    trial.through_proxy("nats")
    capture_or_replay(trial, trouble)


@fault("connection slow", "each piece to and from NATS is 10 ms late")
def slow(trial: Trial) -> None:
    trial.through_proxy("nats")
    disturb(trial, lambda: setattr(trial.servers.nats_proxy, "latency_s", 0.01), 0.02)


@fault("frame torn", "the connection is cut in the middle of a message that is published", short=True)
def frame_torn(trial: Trial) -> None:
    trial.make_stream(500)
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    trial.through_proxy("nats")
    trial.servers.nats_proxy.cut_after = trial.random.randint(5_000, 120_000)
    trial.run(jobs.replay, replay)
    trial.finish_replay(replay)


# Two at once


@fault("two captures", "two captures of the same hour at once", short=True)
def two_captures(trial: Trial) -> None:
    trial.make_stream(trial.random.randint(300, 900))
    step = trial.random.choice(_CAPTURE_STEPS[:4])
    with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) as first:
        second = trial.start(jobs.capture, ARCHIVE)
        if at_once := trial.random.random() < 0.5:
            trial.end(second, "the second")
    trial.end(first, f"the first, held at {step}")
    if not at_once:
        trial.end(second, "the second")
    trial.finish_capture()


@fault("two replays", "one replay run by two processes at once", short=True)
def two_replays(trial: Trial) -> None:
    trial.make_stream(500)
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay, step = trial.begin_replay(), trial.random.choice(_REPLAY_STEPS)
    with trial.held(f"replay.{step}", jobs.replay, replay) as first:
        second = trial.run(jobs.replay, replay)
        trial.expect(not second.ok, "silent", "a second process ran the replay as well")
    trial.end(first, "the first")
    trial.finish_replay(replay)


@fault("two replays of one hour", "two replays of the same messages into one target at once", short=True)
def two_replays_of_one_hour(trial: Trial) -> None:
    """Two of the same selection: one of them is refused. Two that overlap: each takes the other for somebody else who
    publishes there; one may be killed, and is run again."""
    trial.make_stream(trial.random.randint(200, 400))
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    begun = [trial.start(jobs.begin, trial.replay_spec()) for _ in range(2)]
    ends = [trial.end(job, "begun at once") for job in begun]
    refused = [end.text for end in ends if not end.ok]
    trial.expect(len(refused) == 1 and "same selection" in refused[0], "doubled", f"the same replay twice: {refused}")
    one = next(end.value for end in ends if end.ok)
    every = Selection(subjects=(f"{trial.prefix}.>",), sequences=SeqRange(1, 10**6))
    other = trial.begin_replay(selection=every)
    step = trial.random.choice(_REPLAY_STEPS)
    with trial.held(f"replay.{step}", jobs.replay, one, passes=trial.random.randint(1, 2)) as first:
        second = trial.start(jobs.replay, other, fault=trial.random.choice(("", "replay.sent:kill:2")))
        if at_once := trial.random.random() < 0.5:
            trial.end(second, "the other, while the one is held")
    trial.end(first, f"the one, held at {step}")
    if not at_once:
        trial.end(second, "the other")
    for replay in (one, other):
        trial.finish_replay(replay)


@fault("worker outlives driver", "the driver of a replay is killed; its worker goes on while it is resumed", short=True)
def orphan(trial: Trial) -> None:
    trial.make_stream(600)
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    step = trial.random.choice(("chunk_fetched", "sent", "acknowledged"))
    with trial.held(f"replay.{step}", jobs.replay, replay, passes=trial.random.randint(1, 3)) as job:
        job.kill()
        resumed = trial.start(jobs.replay, replay)
        time.sleep(trial.random.choice((0.0, 0.1, 0.4)))
    trial.end(job, "the killed driver")
    trial.end(resumed, "resumed")
    trial.finish_replay(replay)
