"""Faults: kill -9 of a process at each named step, and what nobody foresees raised there."""

from collections.abc import Callable
from functools import partial

from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

CAPTURE = (
    "planned",
    "before_put",
    "object_put",
    "task_returned",
    "before_commit",
    "in_commit",
    "after_commit",
)
REPLAY = (
    "attempt_started",
    "chunk_fetched",
    "sent",
    "acknowledged",
    "before_record",
    "recorded",
    "after_record",
)
# Those that every suite plays.
_SHORT = ("before_put", "object_put", "in_commit", "after_commit", "sent", "before_record", "recorded")
# Steps that a run passes once for each chunk, or page of a replay, so that a later pass is another moment.
_REPEATED = ("before_put", "object_put", "chunk_fetched", "sent", "acknowledged", "before_record", "recorded")


def _pass(trial: Trial, point: str) -> int:
    return trial.random.randint(1, 3) if point in _REPEATED else 1


def break_capture(trial: Trial, point: str, action: str) -> None:
    trial.make_stream(trial.random.randint(300, 900))
    if trial.capture(f"capture.{point}:{action}:{_pass(trial, point)}").ok:
        # No task had so many chunks. The next capture has one that is broken at its first.
        trial.publish(100)
        assert not trial.capture(f"capture.{point}:{action}").ok, "the fault did not happen"
    if trial.random.random() < 0.5:
        trial.publish(100)
    trial.finish_capture()


def break_replay(trial: Trial, point: str, action: str) -> None:
    trial.make_stream(trial.random.randint(300, 900))
    trial.finish_capture()
    # The server remembers ids for less time than a resume takes: an id must not be what saves it.
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    if trial.run(jobs.replay, replay, fault=f"replay.{point}:{action}:{_pass(trial, point)}").ok:
        replay = trial.begin_replay()
        assert not trial.run(jobs.replay, replay, fault=f"replay.{point}:{action}").ok, "the fault did not happen"
    trial.finish_replay(replay)


def target_config(trial: Trial) -> dict[str, object]:
    """Of a target; where the server has them with fast-ingest batches every second time, and with atomic batches every
    third time of the others."""
    config: dict[str, object] = {"duplicate_window": 100_000_000}
    if trial.servers.nats.version >= (2, 14) and (drawn := trial.random.random()) < 0.67:
        config["allow_batched" if drawn < 0.5 else "allow_atomic"] = True
    return config


def _register(action: str, verb: str) -> None:
    parts: list[tuple[str, tuple[str, ...], Callable[..., None]]] = [
        ("capture", CAPTURE, break_capture),
        ("replay", REPLAY, break_replay),
    ]
    for what, points, play in parts:
        for point in points:
            if action == "raise" and point not in ("object_put", "sent", "in_commit", "before_record"):
                continue
            short = action == "kill" and point in _SHORT
            fault(f"{action} {what}.{point}", f"{verb} at this step of a {what}", short=short)(
                partial(play, point=point, action=action)
            )


_register("kill", "kill -9 of driver or worker")
_register("raise", "an unforeseen error")


@fault("kill replay.begun", "kill -9 after a replay was recorded, before its id is known; begun again", short=True)
def kill_begun(trial: Trial) -> None:
    trial.make_stream(300)
    trial.finish_capture()
    trial.make_target()
    replay = f"{trial.random.getrandbits(64):016x}"
    assert not trial.run(jobs.begin, trial.replay_spec(), replay, fault="replay.begun:kill").ok
    trial.finish_replay(replay)


@fault("kill delete", "kill -9 at each step of the removal of an archive's objects", short=True)
def kill_delete(trial: Trial) -> None:
    trial.make_stream(500)
    trial.finish_capture()
    keys = [(bucket, key) for bucket, key in trial.live_objects()]
    point = trial.random.choice(("claimed:kill", "deleted:kill:1", "deleted:kill:3", "finished:kill"))
    assert not trial.run(jobs.delete, ARCHIVE, fault=f"delete.{point}").ok
    trial.finish(jobs.remove_rest, ARCHIVE)
    trial.expect(not [key for key in keys if trial.exists(*key)], "lost", "objects of a deleted archive are left")
    trial.expect(not trial.stored_keys(), "lost", "objects of the folder are left")
