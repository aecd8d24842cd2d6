"""Faults: an archive is made of a backup, and the process dies, or two do it at once."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from nats3_dagster.archive.imports import run as imports
from nats3_dagster.archive.imports.backup import read_backup
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import restore
from nats3_dagster.dev.history import Past
from nats3_dagster.dev.history import restore_stream as restore_stream_of
from nats3_dagster.dev.own_server import import_server
from nats3_dagster.hours import HOUR_NS, SECOND_NS
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.judge import read_archive
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.restore_faults import judge
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import Trial
from nats3_dagster_tests.support.backups import take_backup

NAME = "imported"
MINUTE_NS = 60 * SECOND_NS
# An hour that has ended, whenever this is played.
LONG_AGO = 1_790_000_000_000_000_000 // HOUR_NS * HOUR_NS
_POINTS = {
    "import.sending": "kill -9 of an import of a backup while it restores the backup",
    "import.copied": "kill -9 of an import of a backup before it makes the archive",
    "archive.created": "kill -9 of an import of a backup after the archive is in the catalog, before its folder is",
    "capture.object_put": "kill -9 of an import of a backup while it captures",
    "import.captured": "kill -9 of an import of a backup before it seals",
    "import.sealing": "kill -9 of an import of a backup while it seals",
}


def import_backup(folder: str) -> int:
    """In a process of its own: archive the backup; its messages."""
    settings = Settings.load()
    backup = read_backup(Path(folder))
    spec = ArchiveSpec(NAME, backup.stream, BUCKET)
    with import_server(settings, NAME) as server, Workspace(server.settings) as workspace:

        def capture(hours: Sequence[str]) -> None:
            jobs.capture_hours(jobs.SESSION, server.settings, NAME, hours)

        def begun() -> None:
            server.keep = True

        done = imports.run(workspace, backup, spec, capture, on_begun=begun)
        server.keep = False
    return done.messages


def restore_stream() -> int:
    """In a process of its own: make the stream again from the archive of its backup; its messages."""
    with Workspace(Settings.load()) as workspace:
        return restore(workspace, plan(workspace, RestoreSpec(NAME, over_gaps=True))).messages


def _cut(trial: Trial, point: str) -> None:
    """Whatever was cut, the next import has all of the backup, each message once, and leaves no server's folder."""
    past = [
        Past(seq, LONG_AGO + seq * MINUTE_NS, f"{trial.prefix}.{seq % 5}", b"", b"%d" % seq)
        for seq in range(1, trial.random.randint(200, 900))
    ]
    restore_stream_of(trial.servers.nats.url, trial.stream, [f"{trial.prefix}.>"], past)
    folder = Path(mkdtemp())
    trial.environment["NATS3_HOME"] = str(folder / "home")
    try:
        with trial.wire() as wire:
            for seq in trial.random.sample(range(1, wire.state(trial.stream)["last_seq"] + 1), 10):
                wire.api(f"STREAM.MSG.DELETE.{trial.stream}", seq=seq)
            before = list(wire.messages(trial.stream))
        take_backup(trial.servers.nats.url, trial.stream, folder / "backup")
        with trial.wire() as wire:
            wire.api(f"STREAM.DELETE.{trial.stream}")
        for _ in range(trial.random.randint(1, 3)):
            passes = trial.random.randint(1, 3) if point == "capture.object_put" else 1
            trial.run(import_backup, str(folder / "backup"), fault=f"{point}:kill:{passes}")
            if trial.random.random() < 0.3:
                shutil.rmtree(folder / "home", ignore_errors=True)
        _finish(trial, folder)
        left = [*(folder / "home").glob("imports/*")]
        trial.expect(not left, "unclear", f"the server's folder is still there: {left}")
        with trial.servers.admin(database=trial.database) as connection:
            archived = read_archive(connection, NAME, trial.fetch)
        more = sum(len(every) - 1 for every in archived.messages.values())
        trial.expect(not more, "doubled", f"{more} messages are in two chunks")
        trial.expect(len(archived.messages) == len(before), "lost", f"{len(archived.messages)} of {len(before)}")
        trial.blame(archived.findings)
        trial.finish(restore_stream)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    judge(trial, before)


def _finish(trial: Trial, folder: Path) -> None:
    """Import until it has ended; one that had ended before is refused, as the name is taken then."""
    with trial.servers.admin(database=trial.database) as connection:
        ended = connection.execute("select 1 from nats3.imported_archive where finished_at is not null").fetchone()
    if not ended:
        trial.finish(import_backup, str(folder / "backup"))


for _point, _breaks in _POINTS.items():
    fault(f"import a backup, {_point.partition('.')[2]}", _breaks, since=(2, 15), short=_point == "capture.object_put")(
        partial(_cut, point=_point)
    )
