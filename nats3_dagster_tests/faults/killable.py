"""A capture that kills its own process at a named step: `python -m ... ARCHIVE HOUR STEP`.

It runs the driver's and the worker's code in one process, without Spark, because a step is a place in that code.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import nats3_dagster.archive.range_capture as capture_task
from nats3_dagster.archive import capture
from nats3_dagster.catalog import chunks
from nats3_dagster.catalog.chunks import Chunks
from nats3_dagster.objects import Bucket
from nats3_dagster.pipeline.capture_run import capture_range
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

STEPS = (
    "reading",
    "before the put",
    "in the put",
    "after the put",
    "before the commit",
    "in the commit",
    "after the commit",
)


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, act: Callable[..., None] = die) -> None:
    """Have `act` called before the method does its work."""
    was = getattr(owner, name)
    setattr(owner, name, lambda *args, **more: (act(), was(*args, **more))[1])


def after(owner: Any, name: str) -> None:
    was = getattr(owner, name)
    setattr(owner, name, lambda *args, **more: (was(*args, **more), die())[0])


def arm(step: str) -> None:
    if step == "reading":
        before(capture_task.ChunkWriter, "write")
    elif step == "before the put":
        before(Bucket, "put_new")
    elif step == "in the put":
        # The object is in the store, and nobody has yet checked what the store reports.
        after(Bucket, "_create")
    elif step == "after the put":
        after(Bucket, "put_new")
    elif step == "before the commit":
        before(Chunks, "commit")
    elif step == "in the commit":
        # All rows are inserted, and COMMIT has not been sent.
        after(chunks, "_add_chunks")
    elif step == "after the commit":
        after(Chunks, "commit")


def main(name: str, hour: str, step: str) -> None:
    assert step == "never" or step in STEPS, step
    arm(step)
    settings = Settings.load()
    with Workspace(settings) as workspace:
        planned = capture.plan(workspace, workspace.catalog.archives.get(name), hour)
        outcomes = [outcome for seqs in planned.tasks(2) for outcome in capture_range((planned.job, seqs))]
        capture.commit(workspace, planned, outcomes)


if __name__ == "__main__":
    main(*sys.argv[1:])
