"""Drive a recorded replay: in this process, which waits, or in one of its own.

The rule kept here: whoever drives it, it is `nats3 load resume ID`, and chunks go only after the replay has succeeded.
"""

from typing import TYPE_CHECKING

from nats3_dagster.cli import load_views as views
from nats3_dagster.cli.detached import log_of, start_detached
from nats3_dagster.cli.progress import bar
from nats3_dagster.cli.spark import spark_for
from nats3_dagster.cli.terminal import Format, note, show_one

if TYPE_CHECKING:
    from nats3_dagster.settings import Settings


def drive(settings: "Settings", replay_id: str, detach: bool, output: Format) -> None:
    """Run a recorded replay here, or leave it to a process of its own."""
    from nats3_dagster.replay.control import delete_chunks
    from nats3_dagster.replay.status import status
    from nats3_dagster.workspace import Workspace

    with Workspace(settings) as ws:
        record = status(ws, replay_id).replay
    if record.state == "succeeded" and record.spec.delete_chunks:
        # Killed after its success was recorded, it has only that left to do.
        view = {"id": replay_id, "archive": record.spec.archive, "state": record.state}
        with Workspace(settings) as ws:
            show_one(output, view | {"chunks_deleted": delete_chunks(ws, replay_id)}, view)
        return
    if detach:
        pid, log = start_detached(["load", "resume", replay_id], log_of(replay_id))
        view = {"id": replay_id, "archive": record.spec.archive, "state": record.state, "pid": pid, "log": str(log)}
        show_one(output, view, view)
        note(f"It runs by itself. How far it is: nats3 load get {replay_id}")
        return
    try:
        with spark_for(settings) as spark:
            from nats3_dagster.pipeline.replay_run import run_replay

            with bar(f"replay {replay_id}") as told:
                result = run_replay(spark, settings, replay_id, on_progress=told)
    except KeyboardInterrupt:
        note(f"Replay {replay_id} is not finished. To go on: nats3 load resume {replay_id}")
        raise
    view = views.result(result)
    if record.spec.delete_chunks:
        with Workspace(settings) as ws:
            view["chunks_deleted"] = delete_chunks(ws, replay_id)
    show_one(output, view, views.result_lines(view))

