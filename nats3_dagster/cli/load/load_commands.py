"""`nats3 load`: replays. Look at, pause, resume, delete; load_create.py creates them."""

from typing import Annotated, Any

import typer

from nats3_dagster.cli.load import load_views as views
from nats3_dagster.cli.load.load_run import Detach, ReplayId, run_replay
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.remote import server
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import JobId, Output, one_of
from nats3_dagster.cli.terminal.output import Format, counted, show, show_one
from nats3_dagster.cli.terminal.progress import step
from nats3_dagster.cli.terminal.prompts import Interactive, pick
from nats3_dagster.cli.terminal.watch import Watch, watched
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.replays import DeletedReplay, Replay
from nats3_dagster.replay import control, jobs, status
from nats3_dagster.runs.processes import log_of
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


def _confirm_delete(replay_id: str, state: str, chunks_done: int, chunks: int, yes: bool) -> None:
    if state not in ("succeeded", "running"):  # one that runs is not deleted at all
        done = f"{chunks_done:,} of {counted(chunks, 'chunk')}"
        confirm(f"Replay {replay_id} is {state}, with {done} done; deleted, it cannot be resumed", yes)


@app.command("list")
def list_(
    archive: Annotated[
        str | None, typer.Option("--archive", metavar="NAME", help="Only replays of this archive.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="COUNT", help="At most this many, newest first.")
    ] = 100,
    watch: Watch = None,
    output: Output = Format.table,
) -> None:
    """Replays, newest first."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with server(settings) as api:
            if api:
                return api.replays(archive, limit)
        with Workspace(settings) as workspace:
            return [Replay.of(r, WORDS).plain() for r in status.statuses(workspace, archive, limit)]

    watched(watch, output, look, lambda items: show(output, items, views.LIST))


@app.command()
def get(
    context: typer.Context,
    replay_id: ReplayId = None,
    job_id: JobId = None,
    watch: Watch = None,
    output: Output = Format.table,
) -> None:
    """One replay: state, counts, targets, and what went wrong."""
    chosen, settings = one_of(replay_id, job_id, context, "ID"), Settings.load()

    def look() -> dict[str, Any]:
        with server(settings) as api:
            if api:
                return api.replay(chosen)
        with Workspace(settings) as workspace:
            return Replay.of(jobs.named(workspace, chosen), WORDS).plain()

    # What a server started has its log there.
    log = (lambda _: None) if settings.server_url else log_of
    watched(watch, output, look, lambda view: show_one(output, view, views.lines(view, log(view["replay"]))))


@app.command()
def resume(
    context: typer.Context,
    replay_id: ReplayId = None,
    job_id: JobId = None,
    detach: Detach = False,
    launch: Annotated[int | None, typer.Option("--launch", hidden=True)] = None,  # what runs.loads starts
    output: Output = Format.table,
) -> None:
    """Resume a replay that was paused or interrupted, or failed. What it has published is not published again."""
    chosen, settings = one_of(replay_id, job_id, context, "ID"), Settings.load()
    # What a server has started is the work itself: it never asks a server.
    with server(settings, here=launch is not None) as api:
        if api:
            view = api.act_on_replay(chosen, "resume")
            show_one(output, view, views.lines(view))
            return
    with Workspace(settings) as workspace:
        replay = jobs.named(workspace, chosen).replay
    run_replay(settings, replay.id, detach, output, launch)


# The same under the name that archives have for it.
app.command("run", hidden=True)(resume)


@app.command()
def pause(
    context: typer.Context, replay_id: ReplayId = None, job_id: JobId = None, output: Output = Format.table
) -> None:
    """Pause a replay that runs, wherever it runs. `nats3 load resume ID` continues after its last message."""
    chosen, settings = one_of(replay_id, job_id, context, "ID"), Settings.load()
    with server(settings) as api:
        if api:
            view = api.act_on_replay(chosen, "pause")
            show_one(output, view, views.lines(view))
            return
    with Workspace(settings) as workspace:
        replay_id = jobs.named(workspace, chosen).replay.id
        with step("Waiting until it has stopped"):
            paused = control.pause(workspace, replay_id, "Paused by nats3 load pause")
        view = Replay.of(status.state_of(workspace, paused), WORDS).plain()
    show_one(output, view, views.lines(view))


@app.command()
def delete(
    context: typer.Context,
    replay_id: ReplayId = None,
    job_id: JobId = None,
    interactive: Interactive = False,
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Take a replay out of the list. What it published stays; one that is not finished cannot be resumed then."""
    settings = Settings.load()
    with server(settings) as api:
        if api:
            if interactive and replay_id is None and job_id is None:
                replay_id = pick("Replay to delete:", [one["replay"] for one in api.replays(None, 1000)])
            view = api.replay(one_of(replay_id, job_id, context, "ID"))
            _confirm_delete(view["replay"], view["state"], view["chunks_done"], view["chunks"], yes)
            api.delete_replay(view["id"])
            _show_deleted(DeletedReplay(id=view["id"], replay=view["replay"]), output)
            return
    with Workspace(settings) as workspace:
        if interactive and replay_id is None and job_id is None:
            replay_id = pick("Replay to delete:", [one.replay.id for one in status.statuses(workspace)])
        found = jobs.named(workspace, one_of(replay_id, job_id, context, "ID"))
        replay_id = found.replay.id
        _confirm_delete(replay_id, found.state, found.replay.chunks_done, found.replay.chunks, yes)
        control.delete(workspace, replay_id)
    _show_deleted(DeletedReplay(id=str(found.replay.job_id), replay=replay_id), output)


def _show_deleted(gone: DeletedReplay, output: Format) -> None:
    show_one(output, gone.plain(), {"deleted": gone.replay})
