"""Faults: a stream is made again from its archive, and the process dies, or the server, or two do it at once."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from nats3_dagster.archive.restore.folder import write_folder
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import restore
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.support.backups import restore_backup
from nats3_dagster_tests.support.wire import Message

_POINTS = {
    "sending": "kill -9 of a restore of a stream while it sends",
    "sent": "kill -9 of a restore of a stream before it compares",
}

_OF_FOLDERS = {
    "writing": "kill -9 of a process that writes an archive as a backup, while it writes",
    "written": "kill -9 of a process that writes an archive as a backup, before the folder has its name",
}


def restore_stream(archive: str) -> int:
    """In a process of its own: make the stream again; its messages."""
    with Workspace(Settings.load()) as workspace:
        return restore(workspace, plan(workspace, RestoreSpec(archive))).messages


def write_backup(archive: str, folder: str) -> int:
    """In a process of its own: write the stream as a backup; its messages."""
    with Workspace(Settings.load()) as workspace:
        return write_folder(workspace, plan(workspace, RestoreSpec(archive, as_backup=True)), Path(folder)).messages


def lost_stream(trial: Trial, **config: object) -> list[Message]:
    """A stream that is archived and deleted; what it had."""
    trial.make_stream(trial.random.randint(200, 900), **config)
    with trial.wire() as wire:
        state = wire.state(trial.stream)
        for seq in trial.random.sample(range(1, state["last_seq"] + 1), trial.random.randint(0, 20)):
            wire.api(f"STREAM.MSG.DELETE.{trial.stream}", seq=seq)
    trial.must(jobs.capture, ARCHIVE)
    with trial.wire() as wire:
        before = list(wire.messages(trial.stream))
        wire.api(f"STREAM.DELETE.{trial.stream}")
    return before


def judge(trial: Trial, before: list[Message]) -> None:
    with trial.wire() as wire:
        after = list(wire.messages(trial.stream))
    wrong = [one.seq for one, other in zip(before, after, strict=False) if one != other]
    trial.expect(not wrong, "lost", f"messages {wrong[:5]} differ from those that were")
    trial.expect(len(before) == len(after), "lost", f"{len(after)} messages are there of {len(before)}")


def is_marked(trial: Trial) -> bool:
    """True if the stream is what a restore left that did not end."""
    with trial.wire() as wire:
        return "nats3.restoring" in (wire.api(f"STREAM.INFO.{trial.stream}")["config"].get("metadata") or {})


def _killed(trial: Trial, point: str) -> None:
    before = lost_stream(trial)
    for _ in range(trial.random.randint(1, 3)):
        trial.run(restore_stream, ARCHIVE, fault=f"restore.{point}:kill:{trial.random.randint(1, 3)}")
    with trial.wire() as wire:  # the last one may have come to its end
        if trial.stream in (wire.api("STREAM.NAMES")["streams"] or ()) and not is_marked(trial):
            judge(trial, before)
            return
    trial.finish(restore_stream, ARCHIVE)
    judge(trial, before)


for _point, _breaks in _POINTS.items():
    fault(f"restore a stream, {_point}", _breaks, since=(2, 15), short=_point == "sending")(
        partial(_killed, point=_point)
    )


def _folder_killed(trial: Trial, point: str) -> None:
    """There is no folder until one is whole; the next run leaves nothing of those that were cut."""
    before = lost_stream(trial)
    with TemporaryDirectory() as parent:
        folder = Path(parent, "backup")
        for _ in range(trial.random.randint(1, 3)):
            if not folder.exists():
                passes = trial.random.randint(1, 3) if point == "writing" else 1
                trial.run(write_backup, ARCHIVE, str(folder), fault=f"backup.{point}:kill:{passes}")
        if not folder.exists():
            trial.finish(write_backup, ARCHIVE, str(folder))
        left = sorted(path.name for path in Path(parent).iterdir())
        trial.expect(left == ["backup"], "unclear", f"beside the backup there is {left}")
        restore_backup(trial.servers.nats.url, folder)
    judge(trial, before)


for _point, _breaks in _OF_FOLDERS.items():
    fault(f"write a backup, {_point}", _breaks, since=(2, 15), short=_point == "writing")(
        partial(_folder_killed, point=_point)
    )


@fault("restore a stream, twice", "two processes restore a stream of one name at once", since=(2, 15))
def twice(trial: Trial) -> None:
    """One of them makes it; the other one is refused, whichever comes first."""
    before = lost_stream(trial)
    running = [trial.start(restore_stream, ARCHIVE) for _ in range(2)]
    ended = [trial.end(job, "restore") for job in running]
    trial.expect(sum(one.ok for one in ended) == 1, "doubled", "not exactly one of two restores succeeded")
    judge(trial, before)


@fault("restore a stream, server killed", "kill -9 of nats-server while a stream is restored", since=(2, 15))
def server_killed(trial: Trial) -> None:
    """The restore fails, or it had ended; the next one makes the stream whole."""
    before = lost_stream(trial)
    with trial.held("restore.sending", restore_stream, ARCHIVE) as job:
        trial.servers.nats.kill()
        trial.servers.nats.start()
    if not trial.end(job, "restore").ok:
        trial.finish(restore_stream, ARCHIVE)
    judge(trial, before)


@fault(
    "cluster: restore a stream",
    "a server is killed while a stream of three replicas is restored",
    cluster=True,
    since=(2, 15),
)
def in_a_cluster(trial: Trial) -> None:
    """Whichever of the three servers it is, the stream is whole after the next restore, on every replica."""
    before = lost_stream(trial)
    with trial.held("restore.sending", restore_stream, ARCHIVE) as job:
        if trial.random.random() < 0.7:
            server = trial.random.choice(trial.cluster)
            server.kill()
            server.start()
    if not trial.end(job, "restore").ok:
        trial.finish(restore_stream, ARCHIVE)
    judge(trial, before)
