"""A capture through a durable that kills its own process at a step, or stops it: `python -m ... ARCHIVE STEP [stop]`.

It runs the driver's and the worker's code in one process, without Spark, because a step is a place in that code.
"""

import signal
import sys
import time

from nats3_dagster.archive.source import durables
from nats3_dagster.archive.take import commit, driver
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.catalog.contents import chunks
from nats3_dagster.catalog.contents.chunks import Chunks
from nats3_dagster.hours import hour_of
from nats3_dagster.jetstream.take.pull import Pull
from nats3_dagster.objects import Bucket
from nats3_dagster.objects.drivers.folder_driver import FolderDriver
from nats3_dagster.objects.drivers.s3_driver import S3Driver
from nats3_dagster.pipeline.worker import take_task
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults.killable import SIGNALS, after, before, die

STEPS = {
    "claimed": lambda: after(Pull, "take"),
    "in the put": lambda: [after(driver, "put") for driver in (FolderDriver, S3Driver)],
    "after the put": lambda: after(Bucket, "put_new"),
    "before the commit": lambda: before(Chunks, "commit"),
    "in the commit": lambda: after(chunks, "add_chunks"),
    "after the commit": lambda: before(commit, "acknowledge"),
    "in the acknowledgements": lambda: setattr(commit, "acknowledge", lambda nats, replies: _half(nats, replies)),
    "after the acknowledgements": lambda: after(commit, "acknowledge"),
}


def _half(nats: object, replies: object, real: object = commit.acknowledge) -> None:
    real(nats, replies.slice(0, len(replies) // 2))  # type: ignore[attr-defined, operator]
    die()


def main(name: str, step: str, how: str = "kill") -> None:
    if how == "stop":
        SIGNALS[:] = [signal.SIGSTOP]
    durables.LEAST_ACK_WAIT_S = 1
    STEPS[step]()
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)

        def perform(job: TakeJob) -> tuple[list[object], None]:
            return list(take_task((job, 0))), None

        driver.run_rounds(workspace, archive, hour_of(time.time_ns()), perform)


if __name__ == "__main__":
    main(*sys.argv[1:])
