"""`nats3 store`: archives. Look at, capture now, pause, resume; store_create.py and store_delete.py have the rest."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from nats3_dagster.archive import status
from nats3_dagster.archive.captures.due import select_hours
from nats3_dagster.archive.lifecycle import jobs
from nats3_dagster.archive.source.condition import RecentConditions
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.processes import capture_hours
from nats3_dagster.cli.remote import server
from nats3_dagster.cli.store import store_views as views
from nats3_dagster.cli.terminal.options import ArchiveName, ArchiveOrNone, Hours, JobId, Output, one_of
from nats3_dagster.cli.terminal.output import Format, show, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.watch import Watch, watched
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.archives import Archive as ArchiveDocument
from nats3_dagster.documents.holdings import ArchiveDetail, CapturedHour
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import Archive
from nats3_dagster.replay.overview import overview
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.command("list")
def list_(watch: Watch = None, output: Output = Format.table) -> None:
    """All archives: what they hold, and what of their streams is not captured yet (LAG)."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with server(settings) as api:
            if api:
                return api.archives()
        with Workspace(settings) as workspace:
            found = jobs.jobs(workspace, RecentConditions(workspace))
        return [ArchiveDocument.of(job, WORDS).plain() for job in found]

    watched(watch, output, look, lambda items: show(output, items, views.LIST))


@app.command()
def get(
    context: typer.Context,
    name: ArchiveOrNone = None,
    job_id: JobId = None,
    watch: Watch = None,
    output: Output = Format.table,
) -> None:
    """One archive: settings, its stream, what is captured, what is not yet, what was lost."""
    chosen, settings = one_of(name, job_id, context, "ARCHIVE"), Settings.load()

    def look() -> dict[str, Any]:
        with server(settings) as api:
            if api:
                return api.archive(chosen)
        with Workspace(settings) as workspace:
            return ArchiveDetail.of_overview(overview(workspace, chosen), WORDS).plain()

    watched(watch, output, look, lambda view: show_one(output, view, views.archive_lines(view)))


@app.command()
def run(
    name: ArchiveName,
    hour: Hours = None,
    every: Annotated[bool, typer.Option("--all", help="Every hour that is not complete (the default).")] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="The stream was deleted and created again: archive the new one as well.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Capture now. What is captured already is not captured again."""
    if hour and every:
        raise OperatorError(
            "--hour and --all exclude each other", "Give one of them, or neither for all that is missing"
        )
    with Workspace(Settings.load()) as workspace:
        hours = select_hours(workspace, name, hour or (), adopt=adopt)
        if not hours:
            # It imports pyarrow, 0.1 s.
            from nats3_dagster.archive.captures.consumers import record_where_complete

            record_where_complete(workspace, workspace.catalog.archives.get(name))
    if not hours:
        note(f"Archive {name} is complete: everything in the stream is captured")
        if output is not Format.table:
            show(output, [], views.RUN)
        return
    results: list[dict[str, Any]] = []
    try:
        for result in capture_hours(workspace.settings, name, hours, adopt=adopt):
            results.append(CapturedHour.of(result).plain())
    except (Nats3Error, KeyboardInterrupt):
        if results:  # these hours are committed
            _show_run(output, results)
        raise
    _show_run(output, results)


def _show_run(output: Format, results: list[dict[str, Any]]) -> None:
    """The hours of a run, in a table those with gaps and the sum of the others if they are many."""
    show(output, views.run_rows(results) if output is Format.table else results, views.RUN)


@app.command()
def pause(
    context: typer.Context, name: ArchiveOrNone = None, job_id: JobId = None, output: Output = Format.table
) -> None:
    """Stop continuous capture. `nats3 store run` still works."""
    _act(one_of(name, job_id, context, "ARCHIVE"), "pause", status.pause, output)


@app.command()
def resume(
    context: typer.Context, name: ArchiveOrNone = None, job_id: JobId = None, output: Output = Format.table
) -> None:
    """Go on with continuous capture."""
    _act(one_of(name, job_id, context, "ARCHIVE"), "resume", status.resume, output)


def _act(chosen: str, action: str, here: Callable[[Workspace, str], Archive], output: Format) -> None:
    """Do it over HTTP if there is a server, else `here`; and show the archive."""
    settings = Settings.load()
    with server(settings) as api:
        if api:
            view = api.act_on_archive(chosen, action)
            show_one(output, view, views.archive_lines(view))
            return
    with Workspace(settings) as workspace:
        archive = here(workspace, jobs.named(workspace, chosen).name)
        view = ArchiveDocument.of(jobs.aged(workspace, archive), WORDS).plain()
    show_one(output, view, views.archive_lines(view))
