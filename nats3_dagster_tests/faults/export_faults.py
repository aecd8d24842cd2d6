"""Faults of exports: processes killed at each step, two that write at once, hours that change after their export."""

import random
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_of, hour_start
from nats3_dagster.model import ArchiveSpec, ExportSpec
from nats3_dagster_tests.faults import export_jobs, jobs
from nats3_dagster_tests.faults.judge_exports import PATH, judge_files, read_hours
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.stream_faults import restore, restore_at
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import Key
from nats3_dagster_tests.support.wire import Message

EXPORT = "files"
STEPS = ("owner.absent", "claimed", "planned", "put", "staged", "replacing", "moved", "removed", "done", "recorded")
# Steps that a driver passes once for each file: of each hour there is one at least.
_REPEATED = ("moved", "removed")
# What an export of another place's owner says.
FOREIGN = "belongs to export"


class Exported:
    """A trial with sealed hours of past messages, and an export of them into a folder."""

    def __init__(self, trial: Trial, hours: int = 3, times: list[int] | None = None) -> None:
        """`times`: those of the messages, in nanoseconds since 1970."""
        self.trial, self.settings = trial, settings(trial.random)
        # Another trial of this seed has another catalog, and would find its place owned.
        self.folder = trial.servers.folder / f"files-{uuid.uuid4().hex}"
        if times is None:
            restore(trial, [-2.5 - hour for hour in range(hours)][::-1])
        else:
            restore_at(trial, times)
        self.capture()

    def capture(self) -> None:
        self.trial.finish_capture()
        self.trial.finish(jobs.seal_all, ARCHIVE)

    def create(self, **fields: Any) -> None:
        self.settings |= fields
        spec = ExportSpec(EXPORT, f"file://{self.folder}", path=PATH, **self.settings)
        self.trial.must(export_jobs.create_export, ARCHIVE, spec)

    def finish(self, name: str = EXPORT, **more: Any) -> bool:
        return self.trial.finish(export_jobs.export_all, ARCHIVE, name, **more)

    def files(self) -> dict[str, bytes]:
        return read_files(self.folder)

    def judge(self, expected: dict[Key, Message] | None = None, *, clean: bool = True) -> None:
        """After a success: the files have these messages, by default all of the stream."""
        with self.trial.servers.admin(database=self.trial.database) as connection:
            hours = read_hours(connection, ARCHIVE)
        expected = self.trial.truth.messages if expected is None else expected
        key, minutes = self.settings["key"], self.settings["interval_minutes"]
        self.trial.blame(judge_files(self.files(), expected, hours, key=key, minutes=minutes, clean=clean))


def read_files(folder: Path) -> dict[str, bytes]:
    """What is below a destination."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def settings(rng: random.Random) -> dict[str, Any]:
    """Those of an export whose files the judge reads."""
    return {
        "decode": "raw",
        "format": rng.choice(("csv", "ndjson", "messages", "parquet")),
        "key": rng.choice((None, "subject:2", "subject:2")),
        "interval_minutes": rng.choice((1, 5, 15, 60)),
    }


@contextmanager
def other_catalog(trial: Trial) -> Iterator[None]:
    """Processes that are started meanwhile have another catalog."""
    with ExitStack() as stack:
        if not hasattr(trial, "_other"):
            trial._other = trial._stack.enter_context(trial.servers.database())  # type: ignore[attr-defined]
        before = trial.environment["NATS3_POSTGRES_URL"]
        stack.callback(trial.environment.__setitem__, "NATS3_POSTGRES_URL", before)
        trial.environment["NATS3_POSTGRES_URL"] = trial.servers.postgres.url(trial._other)  # type: ignore[attr-defined]
        yield


def _point(step: str) -> str:
    return step if "." in step else f"export.{step}"


def _step(trial: Trial, step: str) -> str:
    return f"{_point(step)}:kill:{trial.random.randint(1, 3) if step in _REPEATED else 1}"


def kill_export(trial: Trial, step: str) -> None:
    """Of hours that were exported by other settings in every second case, so that files are replaced and removed."""
    work = Exported(trial)
    work.create()
    if step == "removed" or (step != "owner.absent" and trial.random.random() < 0.5):
        work.finish()
        work.judge()
        before = work.settings
        work.settings = {**settings(trial.random), "key": None if before["key"] else "subject:2"}
        trial.must(export_jobs.change_export, ARCHIVE, EXPORT, work.settings)
        killed = trial.run(export_jobs.export_all, ARCHIVE, EXPORT, True, fault=_step(trial, step))
        again = True
    else:
        killed = trial.run(export_jobs.export_all, ARCHIVE, EXPORT, fault=_step(trial, step))
        again = False
    assert not killed.ok, "the fault did not happen"
    trial.finish(export_jobs.export_all, ARCHIVE, EXPORT, again)
    work.judge()


for _name in STEPS:
    fault(
        f"kill {_point(_name)}",
        "kill -9 of driver or worker at this step of an export",
        since=(2, 15),
        short=_name == "moved",
    )(partial(kill_export, step=_name))


@fault(
    "exports: one hour twice",
    "two processes export the same hours of one export at once, one may be killed",
    since=(2, 15),
)
def one_hour_twice(trial: Trial) -> None:
    work = Exported(trial)
    work.create()
    held = trial.random.choice(("claimed", "planned", "staged", "replacing", "moved", "done", "recorded"))
    action = trial.random.choice(("hold", "kill", "hold"))
    if action == "kill":
        first = trial.start(export_jobs.export_all, ARCHIVE, EXPORT, fault=_step(trial, held))
        trial.run(export_jobs.export_all, ARCHIVE, EXPORT, trial.random.random() < 0.5)
        trial.end(first, f"export killed at {held}")
    else:
        with trial.held(f"export.{held}", export_jobs.export_all, ARCHIVE, EXPORT) as first:
            second = trial.start(export_jobs.export_all, ARCHIVE, EXPORT, trial.random.random() < 0.5)
        trial.end(first, f"export held at {held}")
        trial.end(second, "the other export")
    work.finish()
    work.judge()


@fault("exports: one place twice", "exports of two catalogs are sent to one destination at once", since=(2, 15))
def one_place_twice(trial: Trial) -> None:
    """Archives and exports of the same names. One of them is refused, until it takes the place over."""
    work = Exported(trial, 2)
    work.create()
    spec = ExportSpec(EXPORT, f"file://{work.folder}", path=PATH, **work.settings)
    # The other archive has one of the subjects.
    subject = f"{trial.prefix}.a"
    part = {key: message for key, message in trial.truth.messages.items() if message.subject == subject}
    with other_catalog(trial):
        trial.must(jobs.create, ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix="other", subjects=(subject,)))
        trial.finish(jobs.capture, ARCHIVE)
        trial.finish(jobs.seal_all, ARCHIVE)
        trial.must(export_jobs.create_export, ARCHIVE, spec)
    step = trial.random.choice(("owner.absent", "claimed", "staged", "moved", "done"))
    with trial.held(_point(step), export_jobs.export_all, ARCHIVE, EXPORT) as first, other_catalog(trial):
        second = trial.start(export_jobs.export_all, ARCHIVE, EXPORT)
        if trial.random.random() < 0.5:
            trial.note("the other export", second.wait(30))
            second = trial.start(export_jobs.export_all, ARCHIVE, EXPORT)
    ended, other = trial.end(first, f"export held at {step}"), trial.end(second, "the other export")
    trial.expect(ended.ok != other.ok, "silent", f"of two exports into one place: {ended}; {other}")
    loser = other if ended.ok else ended
    trial.expect(FOREIGN in loser.text, "unclear", f"the refused export says: {loser}")
    work.judge(trial.truth.messages if ended.ok else part)
    with ExitStack() as stack:
        if ended.ok:
            stack.enter_context(other_catalog(trial))
        trial.must(export_jobs.take_over, ARCHIVE, EXPORT)
        work.finish()
        work.judge(part if ended.ok else trial.truth.messages)


@fault("exports: hour recaptured", "hours are captured again after their export, some while it runs", since=(2, 15))
def hour_recaptured(trial: Trial) -> None:
    work = Exported(trial)
    work.create()
    work.finish()
    hours = sorted({path.split("/")[1].split("+")[0] for path in work.files() if path[0] != "_"})
    chosen = [f"{h[:10]}-{h[11:13]}:00" for h in trial.random.sample(hours, trial.random.randint(1, len(hours)))]
    if trial.random.random() < 0.5:
        step = trial.random.choice(("planned", "staged", "moved"))
        trial.must(export_jobs.change_export, ARCHIVE, EXPORT, {"key": None if work.settings["key"] else "subject:2"})
        work.settings["key"] = None if work.settings["key"] else "subject:2"
        with trial.held(f"export.{step}", export_jobs.export_all, ARCHIVE, EXPORT, True) as job:
            trial.must(export_jobs.recapture, ARCHIVE, chosen)
        trial.end(job, f"export held at {step}")
        work.capture()
        trial.finish(export_jobs.export_all, ARCHIVE, EXPORT, True)
    else:
        trial.must(export_jobs.recapture, ARCHIVE, chosen)
        work.capture()
    damage(trial, work)
    trial.finish(export_jobs.export_all, ARCHIVE, EXPORT, True)
    work.judge()


def damage(trial: Trial, work: Exported) -> None:
    """Another program writes over a file, with as many bytes, or removes one."""
    path = work.folder / trial.random.choice(sorted(p for p in work.files() if p[0] != "_"))
    data = path.read_bytes()
    path.write_bytes(bytes(reversed(data))) if trial.random.random() < 0.5 else path.unlink()


@fault(
    "exports: hour deleted",
    "a replay deletes chunks before, while and after they are exported",
    since=(2, 15),
    short=True,
)
def hour_deleted(trial: Trial) -> None:
    work = Exported(trial)
    work.create()
    trial.make_target(**target_config(trial))
    spec = trial.replay_spec(delete_chunks=True)
    refused = trial.run(jobs.begin, spec)
    trial.expect("has not exported" in refused.text, "silent", f"a replay that deletes what no export has: {refused}")
    work.finish()
    replay = trial.must(jobs.begin, spec)
    trial.finish_replay(replay)
    if trial.random.random() < 0.5:
        step = trial.random.choice(("claimed", "planned", "staged", "moved", "done"))
        with trial.held(f"export.{step}", export_jobs.export_all, ARCHIVE, EXPORT, True) as job:
            deleted = trial.must(export_jobs.delete_chunks, replay)
        trial.end(job, f"export held at {step}")
    else:
        deleted = trial.must(export_jobs.delete_chunks, replay)
    trial.expect(deleted > 0, "stuck", "no chunk was deleted")
    trial.finish(jobs.seal_all, ARCHIVE)
    work.finish()
    work.judge(clean=False)


@fault("exports: clock steps", "messages were stored before and after their hour by time", since=(2, 15), short=True)
def clock_steps(trial: Trial) -> None:
    begin = hour_start(hour_of(time.time_ns() - 8 * HOUR_NS))
    times = list[int]()
    for hour in range(trial.random.randint(1, 3)):
        for _ in range(trial.random.randint(20, 60)):
            offset = trial.random.choice(
                (
                    trial.random.randrange(HOUR_NS),
                    trial.random.randrange(HOUR_NS),
                    -50_000_000,
                    HOUR_NS + trial.random.randrange(MINUTE_NS),
                    -trial.random.randrange(MINUTE_NS),
                )
            )
            times.append(begin + hour * HOUR_NS + offset)
    work = Exported(trial, times=times)
    work.create()
    work.finish()
    work.judge()
