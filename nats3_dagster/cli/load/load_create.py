"""`nats3 load create`: check and record a replay, then run it.

It is recorded before Spark starts. The shell that waits and a process in the background then do the same:
`nats3 load resume ID`.
"""

from datetime import timedelta
from typing import Annotated

import typer

from nats3_dagster.bodies.load_jobs import CreateLoadJob
from nats3_dagster.cli import processes
from nats3_dagster.cli.load import load_views as views
from nats3_dagster.cli.load.load_run import Detach, run_replay
from nats3_dagster.cli.remote import Server, server
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Format, counted, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.prompts import Interactive, ask_replay
from nats3_dagster.cli.terminal.request_body import FromJson, body_of
from nats3_dagster.cli.terminal.spec_options import Given, required_options, with_settings
from nats3_dagster.documents.replay_plans import ReplayPlan
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ReplaySpec
from nats3_dagster.replay import jobs
from nats3_dagster.replay.planning.plan import ReplayPlan as Planned
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@with_settings(ReplaySpec, one_way=True)
def create(
    context: typer.Context,
    given: Given,
    bucket: Annotated[
        str | None, typer.Option("--bucket", metavar="BUCKET", help="The bucket that the archive is in.")
    ] = None,
    read_stream: Annotated[
        str | None, typer.Option("--read-stream", metavar="STREAM", help="The stream that was archived.")
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            "--archive", metavar="NAME", help="The archive by name; needed where a bucket has several of the stream."
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="PREFIX", help="The key prefix of the archive.")
    ] = None,
    read_consumer: Annotated[
        str | None,
        typer.Option(
            "--read-consumer",
            metavar="NAME",
            help="The consumer through which the archive takes its messages. A replay needs none.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Your name for the job.")] = None,
    start: Annotated[
        int | None,
        typer.Option("--start", min=1, metavar="SEQUENCE", help="The first sequence, as in --sequences."),
    ] = None,
    end: Annotated[int | None, typer.Option("--end", min=1, metavar="SEQUENCE", help="The last one.")] = None,
    from_json: FromJson = None,
    interactive: Interactive = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")] = False,
    detach: Detach = False,
    output: Output = Format.table,
) -> None:
    """Replay archived messages into NATS: nothing lost, nothing doubled. Options narrow the selection; all must
    match."""
    if "sequences" in given and (start is not None or end is not None):
        raise OperatorError("--sequences and --start or --end are the same", "Give one of them")
    fields = {
        "name": name,
        "archive": archive,
        "bucket": bucket,
        "prefix": prefix,
        "read_stream": read_stream,
        "read_consumer": read_consumer,
        "start": start,
        "end": end,
    } | given
    settings = Settings.load()
    if interactive and from_json is None:
        with Workspace(settings) as workspace:
            fields = ask_replay(None if settings.server_url else workspace, fields)
    body = body_of(CreateLoadJob, context, from_json, fields, required_options(ReplaySpec))
    asked, planned = body.request(), list[Planned]()
    with server(settings) as api:
        if api:
            _create_at(api, body, dry_run, yes, output)
            return
    with Workspace(settings) as workspace:
        if dry_run or body.dry_run:
            plan = ReplayPlan.of(jobs.plan_job(workspace, asked)).plain()
            show_one(output, plan, views.plan_lines(plan))
            note("A dry run: nothing was published or written")
            return
        # Without Java nothing could run what would be recorded now.
        processes.check_spark(workspace.settings)

        def agree(plan: Planned) -> None:
            planned.append(plan)
            _agree(plan, yes)

        replay, _ = jobs.begin_job(workspace, asked, agree=agree)
    note(f"Replay {replay.id} of archive {replay.spec.archive} is recorded")
    if planned[0].timing_s is not None:
        note(f"Its original timing takes at most {timedelta(seconds=round(planned[0].timing_s))}")
    run_replay(workspace.settings, replay.id, detach, output)


def _create_at(api: Server, body: CreateLoadJob, dry_run: bool, yes: bool, output: Format) -> None:
    """Have a server begin and run it. What its chunks would lose is asked with its plan."""
    fields = body.model_dump(mode="json", exclude_unset=True)
    if dry_run or body.dry_run:
        plan = api.plan_replay(fields)
        show_one(output, plan, views.plan_lines(plan))
        note("A dry run: nothing was published or written")
        return
    if body.spec().delete_chunks:
        plan = api.plan_replay(fields)
        confirm(f"After the replay this deletes chunks of archive {plan['archive']} for good", yes)
    view = api.create_replay(fields)
    show_one(output, view, views.lines(view))
    note(f"The server runs it. To see its progress: {Next.WATCH_REPLAY(replay=view['replay']).command}")


def _agree(planned: Planned, yes: bool) -> None:
    """Prints notes before anything is created or published, and asks with --delete-chunks."""
    for text in planned.notes:
        note(text)
    if planned.creation and planned.creation.left_out:
        note(f"Stream {planned.creation.name} is created without {', '.join(planned.creation.left_out)}")
    follows = planned.spec.poll_interval_s is not None
    if follows and planned.spec.delete_chunks:
        archive = planned.archive.name
        confirm(f"This deletes each chunk of archive {archive} for good as soon as it was replayed whole", yes)
        return
    if not planned.deletes_chunks:
        return
    most = "" if planned.extent.whole_is_exact else "up to "
    messages = counted(planned.extent.whole_messages, "message")
    confirm(
        f"After the replay this deletes {most}{counted(planned.deletes_chunks, 'chunk')} with {messages} from "
        f"archive {planned.archive.name} for good",
        yes,
    )
