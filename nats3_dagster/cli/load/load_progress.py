"""`nats3 load progress`: the progress of a replay, once or until it has ended."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from nats3_dagster.cli.load import load_views as views
from nats3_dagster.cli.load.load_run import ReplayId
from nats3_dagster.cli.remote import server
from nats3_dagster.cli.terminal.options import JobId, Output, one_of
from nats3_dagster.cli.terminal.output import Format, print_document, show_one
from nats3_dagster.cli.terminal.progress import bar
from nats3_dagster.cli.terminal.watch import looks
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.replays import ReplayProgress
from nats3_dagster.errors import Nats3Error
from nats3_dagster.replay import jobs
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# What the bar shows in place of a rate while nothing is published.
_WAITS = {"Created": "waits for its start", "Paused": "is paused"}


def progress(
    context: typer.Context,
    replay_id: ReplayId = None,
    job_id: JobId = None,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            min=0.1,
            metavar="[=SECONDS]",
            help="Follow it, looking every 2 s, until it has succeeded (exit status 0) or failed (1). json is then a "
            "line at each change.",
        ),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Show the progress of a replay, once or, with --watch, until it has ended; as GET /load/job/progress has it."""
    chosen, settings = one_of(replay_id, job_id, context, "ID"), Settings.load()

    def look() -> ReplayProgress:
        with server(settings) as api:
            if api:
                return api.progress(chosen)
        with Workspace(settings) as workspace:
            return ReplayProgress.of(jobs.progress(workspace, jobs.named(workspace, chosen).replay.job_id), WORDS)

    if watch is None:
        document = look().plain()
        show_one(output, document, views.progress_lines(document))
        return
    last = _followed(watch, output, look)
    if output is Format.table:
        show_one(output, last.plain(), views.progress_lines(last.plain()))
    if last.status != "Success":
        raise Nats3Error(f"Replay {chosen} has failed: {last.error}", Next.RESUME_REPLAY(replay=last.replay))


def _followed(seconds: float, output: Format, look: Callable[[], ReplayProgress]) -> ReplayProgress:
    """Returns the last document. Each changed one is printed, as one line in JSON; a table has a bar for them."""
    shown: dict[str, Any] | None = None
    with bar("replay") as on_count:
        for document in looks(seconds, look):
            is_end = document.status in jobs.ENDS
            on_count(document.messages_done, document.messages, _WAITS.get(document.status, ""))
            if output is not Format.table and (is_end or document.without_clock() != shown):
                if output is Format.yaml:
                    print("---")
                print_document(output, document.plain(), one_line=True)
                shown = document.without_clock()
            if is_end:
                return document
    raise AssertionError("unreachable: `looks` has no end")
