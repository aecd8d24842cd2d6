"""A recorded replay, run by this command or left to a process of its own."""

from typing import Annotated

import typer

from nats3_dagster.cli import processes
from nats3_dagster.cli.load import load_views as views
from nats3_dagster.cli.terminal import completing
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.replays import DetachedReplay, ReplayRun
from nats3_dagster.model import Replay
from nats3_dagster.replay import control, status
from nats3_dagster.replay.job import ReplayResult
from nats3_dagster.runs.processes import log_of, start_detached
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

ReplayId = Annotated[
    str | None,
    typer.Argument(
        metavar="ID",
        help="Id of the replay (see nats3 load list), or name of its job.",
        autocompletion=completing.replays,
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Do not wait: run it in the background.")]


def run_replay(settings: Settings, replay_id: str, detach: bool, output: Format, launch: int | None = None) -> None:
    """Run a recorded replay here, or leave it to a process of its own. Chunks go only after it has succeeded."""
    with Workspace(settings) as workspace:
        known = status.status(workspace, replay_id)
    record = known.replay
    if record.state == "succeeded" and record.spec.delete_chunks:
        # Killed after its success was recorded, it has only that left to do.
        _show(settings, record, None, output)
        return
    if detach:
        log = log_of(replay_id)
        pid = start_detached(["load", "resume", replay_id], log)
        lines = {
            "replay": replay_id,
            "archive": record.spec.archive,
            "state": known.state,
            "pid": str(pid),
            "log": str(log),
        }
        show_one(output, DetachedReplay.of_process(known, WORDS, pid, str(log)).plain(), lines)
        note(f"It runs in the background. To see its progress: {Next.WATCH_REPLAY(replay=replay_id).command}")
        return
    try:
        result = processes.replay(settings, replay_id, launch)
    except KeyboardInterrupt:
        note(f"Replay {replay_id} is not finished. To go on: {Next.RESUME_REPLAY(replay=replay_id).command}")
        raise
    _show(settings, result.replay, result, output)


def _show(settings: Settings, replay: Replay, result: ReplayResult | None, output: Format) -> None:
    """Delete its chunks where it asks for that, and show what was done."""
    deleted = _delete_chunks(settings, replay.id) if replay.spec.delete_chunks else None
    with Workspace(settings) as workspace:
        view = ReplayRun.of_run(status.state_of(workspace, replay), WORDS, result, deleted).plain()
    show_one(output, view, views.result_lines(view))


def _delete_chunks(settings: Settings, replay_id: str) -> int:
    with Workspace(settings) as workspace:
        deleted = control.delete_chunks(workspace, replay_id)
        for kept in control.kept_for(workspace, replay_id):
            note(f"Chunks stay, because {kept}. Once it has: {Next.RESUME_REPLAY(replay=replay_id).command}")
        return deleted
