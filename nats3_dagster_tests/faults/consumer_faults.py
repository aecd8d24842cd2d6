"""Faults: an application reads a stream through a durable, the stream is lost, and captures and restores die. It has to
go on after the restore: no message twice that it acknowledged, and none left out."""

from functools import partial

from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import restore
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.restore_faults import is_marked
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import publish
from nats3_dagster_tests.support.applications import Application

_CAPTURE = ("consumers.object_put", "consumers.added")
_RESTORE = ("restore.sending", "restore.sent", "restore.proven")


def restore_consumers(archive: str) -> int:
    """In a process of its own: make the stream again with its consumers; its messages."""
    with Workspace(Settings.load()) as workspace:
        return restore(workspace, plan(workspace, RestoreSpec(archive, consumers=("all",)))).messages


def _play(trial: Trial, capture: str, restoring: str) -> None:
    """`capture`, `restoring`: the steps at which these processes die."""
    rng = trial.random
    trial.make_stream(0)
    _publish(trial, rng.randint(30, 200))
    app = Application(trial.servers.nats.url, trial.stream, "app")
    app.make(ack_policy="explicit", ack_wait=1, max_ack_pending=1000)
    acked = _work(trial, app)
    trial.capture(f"{capture}:kill:1" if rng.random() < 0.8 else "")
    if rng.random() < 0.5:
        _publish(trial, rng.randint(1, 60))
    acked |= _work(trial, app)
    # The next capture keeps what the one that died did not; also where it has no message to take.
    trial.finish(jobs.capture, ARCHIVE)
    with trial.wire() as wire:
        every = {message.seq for message in wire.messages(trial.stream)}
        wire.api(f"STREAM.DELETE.{trial.stream}")
    for _ in range(rng.randint(1, 2)):
        trial.run(restore_consumers, ARCHIVE, fault=f"{restoring}:kill:1")
        with trial.wire() as wire:
            there = trial.stream in (wire.api("STREAM.NAMES")["streams"] or ())
        trial.expect(not there or is_marked(trial), "silent", "a restore that died left a stream without a mark")
        trial.expect(not there or app.rest(0.3) == [], "silent", "messages of an unproven stream were delivered")
    trial.finish(restore_consumers, ARCHIVE)
    _judge(trial, every, acked, [seq for seq, _ in app.rest(2.5)])


def _judge(trial: Trial, every: set[int], acked: set[int], rest: list[int]) -> None:
    """`every`: the stream's messages; `acked`: before it was lost; `rest`: what came after it was restored."""
    twice = sorted(acked.intersection(rest))
    trial.expect(not twice, "doubled", f"{len(twice)} acknowledged messages come again: {twice[:5]}")
    lost = sorted(every - acked - {*rest})
    trial.expect(not lost, "lost", f"{len(lost)} messages do not come: {lost[:5]}")
    trial.finish(jobs.capture, ARCHIVE)
    trial.judge_archive()


def _publish(trial: Trial, count: int) -> None:
    """Messages that the application's client can read: it fails at some header blocks that are legal."""
    first = len(trial.truth.messages)
    sent = [(f"{trial.prefix}.{number % 3}", b"", b"%d" % number) for number in range(first, first + count)]
    with trial.wire() as wire:
        publish(wire, trial.stream, sent, trial.truth, trial.window)


def _work(trial: Trial, app: Application) -> set[int]:
    """The application takes some messages and acknowledges some of them, in any order; those."""
    rng = trial.random
    chosen = {seq for seq in range(1, 1000) if rng.random() < 0.6}
    return chosen.intersection(app.take(rng.randint(1, 40), acked=chosen))


for _capture in _CAPTURE:
    for _restoring in _RESTORE:
        fault(
            f"consumers, {_capture.partition('.')[2]}, {_restoring.partition('.')[2]}",
            f"kill -9 of a capture at {_capture}, and of a restore with consumers at {_restoring}",
            since=(2, 15),
            short=(_capture, _restoring) == (_CAPTURE[0], _RESTORE[1]),
        )(partial(_play, capture=_capture, restoring=_restoring))


@fault(
    "cluster: consumers",
    "a server of three is killed while a stream of three replicas is restored with its consumers",
    cluster=True,
    since=(2, 15),
)
def in_a_cluster(trial: Trial) -> None:
    """There the floor is known: the application acknowledges in order, and then it is all."""
    rng = trial.random
    trial.make_stream(0)
    _publish(trial, rng.randint(30, 200))
    app = Application(trial.cluster[0].url, trial.stream, "app")
    app.make(ack_policy="explicit", ack_wait=1, max_ack_pending=1000)
    acked = set(app.take(rng.randint(1, 40), acked=range(1000)))
    trial.finish(jobs.capture, ARCHIVE)
    with trial.wire() as wire:
        every = {message.seq for message in wire.messages(trial.stream)}
        wire.api(f"STREAM.DELETE.{trial.stream}")
    with trial.held("restore.sent", restore_consumers, ARCHIVE) as job:
        if rng.random() < 0.7:
            server = rng.choice(trial.cluster)
            server.kill()
            server.start()
    if not trial.end(job, "restore").ok:
        trial.finish(restore_consumers, ARCHIVE)
    _judge(trial, every, acked, [seq for seq, _ in app.rest(2.5)])
