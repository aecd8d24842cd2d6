"""Faults: a stream or a target whose configuration changes in the middle of a capture, a seal or a replay."""

import time
from dataclasses import dataclass
from typing import Any

from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.stream_faults import restore, take_what_went
from nats3_dagster_tests.faults.target_faults import FORGOT
from nats3_dagster_tests.faults.trial import ARCHIVE, DONE, Trial
from nats3_dagster_tests.faults.workload import DELETE_LIES, HEAD_LIES, make_messages, publish
from nats3_dagster_tests.support.wire import Wire

# What removes messages, while it holds. An age needs a window for ids that is no longer.
_REMOVES: dict[str, dict[str, int]] = {
    "max_msgs": {"max_msgs": 100},
    "max_bytes": {"max_bytes": 40_000},
    "max_msgs_per_subject": {"max_msgs_per_subject": 20},
    "max_age": {"max_age": 200_000_000, "duplicate_window": 100_000_000},
}
# What removes none. A server refuses consumer limits that a reader's consumer is beyond at that moment.
_KEEPS = ("consumer_limits", "discard new", "subjects", "max_consumers")
_CONSUMER_LIMITS = {"inactive_threshold": 2 * 10**9, "max_ack_pending": 5}


@dataclass
class Change:
    """What happens to the configuration of one stream."""

    trial: Trial
    stream: str
    # One of _REMOVES or _KEEPS.
    name: str
    # The configuration before.
    before: dict[str, Any]

    @property
    def removes(self) -> bool:
        return self.name in _REMOVES

    @property
    def more(self) -> str:
        """The prefix of subjects that the stream takes as well after the change."""
        return f"more{self.trial.seed}"

    def make(self, wire: Wire) -> None:
        match self.name:
            case "consumer_limits":
                asked = {**self.before, "consumer_limits": _CONSUMER_LIMITS}
                answer = wire.try_api(f"STREAM.UPDATE.{self.stream}", **asked)
                assert "error" not in answer or "violates consumers" in str(answer), answer
            case "discard new":  # with no room left, or with little
                room = self.trial.random.choice((0, 0, 30))
                self._update(wire, discard="new", max_msgs=max(1, wire.state(self.stream)["messages"] + room))
            case "subjects":
                self._update(wire, subjects=[*self.before["subjects"], f"{self.more}.>"])
            case "max_consumers":  # others take what the stream allows
                for number in range(self.before["max_consumers"]):
                    config = {"durable_name": f"o{number}", "ack_policy": "explicit"}
                    asked = {"stream_name": self.stream, "config": config}
                    wire.try_api(f"CONSUMER.DURABLE.CREATE.{self.stream}.o{number}", **asked)
            case _:
                self._update(wire, **_REMOVES[self.name])

    def put_back(self, wire: Wire) -> None:
        if self.name == "max_consumers":
            for number in range(self.before["max_consumers"]):
                wire.try_api(f"CONSUMER.DELETE.{self.stream}.o{number}")
        elif self.name != "subjects":
            self._update(wire)

    def _update(self, wire: Wire, **config: Any) -> None:
        wire.api(f"STREAM.UPDATE.{self.stream}", **{**self.before, **config})


def choose(trial: Trial, stream: str) -> Change:
    """A change that the seed chooses."""
    name = trial.random.choice((*_REMOVES, *_KEEPS))
    with trial.wire() as wire:
        before = wire.api(f"STREAM.INFO.{stream}")["config"]
    trial.log.append(f"the change of {stream}: {name}")
    return Change(trial, stream, name, before)


@fault("limits change in a capture", "limits, consumers or subjects of the stream change in the middle of a capture")
def capture(trial: Trial) -> None:
    trial.make_stream(trial.random.randint(300, 900), max_consumers=2, allow_direct=trial.random.random() < 0.5)
    if trial.random.random() < 0.3:
        trial.finish_capture()
        trial.publish(300)
    change = choose(trial, trial.stream)
    # What a limit took, and that is off again, nobody can tell from what a client deleted.
    is_put_back = trial.random.random() < 0.4
    lies = DELETE_LIES if is_put_back else HEAD_LIES
    step = trial.random.choice(("planned", "planned", "before_put", "object_put"))
    passes = 1 if step == "planned" else trial.random.randint(1, 2)
    with trial.held(f"capture.{step}", jobs.capture, ARCHIVE, passes=passes) as job, trial.wire() as wire:
        change.make(wire)
        if change.name == "subjects":
            more = make_messages(trial.random, change.more, 40, len(trial.truth.messages))
            publish(wire, trial.stream, more, trial.truth, trial.window)
        _await_removal(change, wire)
        take_what_went(trial, wire, lies)
        if is_put_back:
            change.put_back(wire)
    ended = trial.end(job, f"capture held at {step}")
    with trial.wire() as wire:
        change.put_back(wire)
        take_what_went(trial, wire, lies)
    needs_nobody = change.removes or change.name in ("discard new", "subjects") or is_put_back
    trial.expect(ended.ok or not needs_nobody, "stuck", f"{change.name} ended the capture: {ended}")
    trial.publish(50)
    trial.finish_capture()


@fault("limits change in a seal", "the same of a stream whose hours are sealed meanwhile", since=(2, 15))
def seal(trial: Trial) -> None:
    restore(trial, [-5.0, -4.0, -3.0, -2.0])
    trial.finish_capture()
    change = choose(trial, trial.stream)
    step = trial.random.choice(("planned", "object_put", "added"))
    passes = trial.random.randint(1, 3)
    with trial.held(f"seal.{step}", jobs.seal_all, ARCHIVE, passes=passes) as job, trial.wire() as wire:
        change.make(wire)
        _await_removal(change, wire)
    sealed = trial.end(job, f"seal held at {step}")
    trial.expect(sealed.ok, "stuck", f"{change.name} ended the seal: {sealed}")
    trial.finish(jobs.seal_all, ARCHIVE)
    trial.judge_seals()
    # All was archived before it went.
    trial.finish_capture()
    trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "the archive is not intact")


@fault("limits change in a replay", "limits, consumers or subjects of the target change in the middle of a replay")
def replay(trial: Trial) -> None:
    trial.make_stream(trial.random.randint(400, 700))
    trial.finish_capture()
    trial.make_target(**target_config(trial), max_consumers=2)
    begun = trial.begin_replay()
    change = choose(trial, trial.target)
    step = trial.random.choice(("chunk_fetched", "sent", "acknowledged"))
    is_killed, is_put_back = trial.random.random() < 0.4, trial.random.random() < 0.4
    with trial.held(f"replay.{step}", jobs.replay, begun, passes=trial.random.randint(1, 4)) as job:
        with trial.wire() as wire:
            change.make(wire)
            _await_removal(change, wire)
            if is_put_back:
                change.put_back(wire)
        if is_killed:
            job.kill()
    trial.end(job, f"replay {'killed' if is_killed else 'held'} at {step}")
    with trial.wire() as wire:
        change.put_back(wire)
    if not change.removes:
        trial.finish_replay(begun)
    else:
        done = trial.finish(jobs.replay, begun, refusals=(*FORGOT, DONE))
        _judge_removed(trial, begun, is_done=done or DONE in trial.log[-1])


def _await_removal(change: Change, wire: Wire) -> None:
    """Return when an age has taken everything. The other limits take it at once."""
    while change.name == "max_age" and wire.state(change.stream)["messages"]:
        time.sleep(0.02)


def _judge_removed(trial: Trial, replay_id: str, *, is_done: bool) -> None:
    """Of a target that removed messages: each was stored once, in order, so its sequence is its place in the replay."""
    keys = trial.archived_keys()
    with trial.wire() as wire:
        last = wire.state(trial.target)["last_seq"]
    trial.expect(last <= len(keys), "doubled", f"the target stored {last} messages of {len(keys)}")
    trial.expect(last >= len(keys) or not is_done, "lost", f"the target stored {last} messages of {len(keys)}")
    places = [message.seq for message in trial.stored()]
    trial.judge_target(replay_id, kept=[keys[seq - 1] for seq in places if seq <= len(keys)])
