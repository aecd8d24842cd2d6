"""`nats3 load create`: check and record a replay, then run it.

It is recorded before Spark starts. The shell that waits and a process in the background then do the same:
`nats3 load resume ID`.
"""

from datetime import timedelta
from typing import Annotated

import typer

from nats3_dagster.bodies.load_jobs import CreateLoadJob, Duration
from nats3_dagster.cli import processes
from nats3_dagster.cli.load import load_views as views
from nats3_dagster.cli.load.load_run import Detach, run_replay
from nats3_dagster.cli.remote import Server, server
from nats3_dagster.cli.terminal.asking import Interactive, ask_replay
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.creation import FromJson, body_of
from nats3_dagster.cli.terminal.options import Hours, Output, parse_duration, parse_size
from nats3_dagster.cli.terminal.output import Format, counted, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import ORDERS, SeqRange, parse_sequences
from nats3_dagster.replay import jobs
from nats3_dagster.replay.planning.plan import ReplayPlan, describe
from nats3_dagster.settings import Settings
from nats3_dagster.views.values import time_of
from nats3_dagster.workspace import Workspace


def create(
    context: typer.Context,
    write_subject: Annotated[
        str | None,
        typer.Option(
            "--write-subject", metavar="SUBJECT",
            help="Where messages go: replay.orders.>, replay.{{wildcard(1)}}, or one subject.",
        ),
    ] = None,
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
    read_subject: Annotated[
        str | None, typer.Option("--read-subject", metavar="FILTER", help="Replay only these subjects (NATS filter).")
    ] = None,
    read_consumer: Annotated[
        str | None,
        typer.Option(
            "--read-consumer", metavar="NAME",
            help="The consumer through which the archive takes its messages. A replay needs none.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="What you call the job.")] = None,
    hour: Hours = None,
    from_time: Annotated[
        str | None, typer.Option("--from-time", metavar="TIME", help="From this time on: 2026-11-21T07:00:00Z or -2h.")
    ] = None,
    to_time: Annotated[str | None, typer.Option("--to-time", metavar="TIME", help="Up to before this time.")] = None,
    sequences: Annotated[
        SeqRange | None,
        typer.Option("--sequences", metavar="A-B", parser=parse_sequences, help="Sequences, both included."),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option("--start", min=1, metavar="SEQUENCE", help="The first sequence, as in --sequences."),
    ] = None,
    end: Annotated[int | None, typer.Option("--end", min=1, metavar="SEQUENCE", help="The last one.")] = None,
    order: Annotated[
        str | None,
        typer.Option(
            "--order", metavar="|".join(ORDERS), help="Order kept: total (the default), of each subject, or none."
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="MSG/S", help="At most this many messages a second.")
    ] = None,
    byte_rate: Annotated[
        int | None,
        typer.Option("--byte-rate", metavar="SIZE", parser=parse_size, help="At most this many bytes a second."),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", metavar="FACTOR", help="The original timing: 1 as it was, 10 ten times as fast."),
    ] = None,
    create_stream: Annotated[
        str | None,
        typer.Option("--create-stream", metavar="NAME", help="Create a stream of the target subjects if none listens."),
    ] = None,
    into_own_stream: Annotated[
        bool, typer.Option("--into-own-stream", help="Publish even into subjects that the archived stream captures.")
    ] = False,
    over_gaps: Annotated[
        bool, typer.Option("--over-gaps", help="Replay what is archived, even if messages in between were lost.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Let rollup, TTL, counter and schedule headers act again."
        ),
    ] = False,
    no_marks: Annotated[
        bool,
        typer.Option("--no-marks", help="With --live: add no headers. Such a replay cannot be resumed."),
    ] = False,
    like_source: Annotated[
        bool,
        typer.Option("--like-source", help="Create the stream, or bucket, with the settings of the archived one."),
    ] = False,
    delete_chunks: Annotated[
        bool,
        typer.Option("--delete-chunks", help="After success, delete the chunks that were replayed whole. Asks first."),
    ] = False,
    delete_unexported: Annotated[
        bool,
        typer.Option("--delete-unexported", help="With --delete-chunks: also those that an export has not exported."),
    ] = False,
    poll_interval: Annotated[
        int | None,
        typer.Option(
            "--poll-interval", metavar="DURATION", parser=parse_duration,
            help="Follow the archive: look for new chunks every 5s, 1m, ..., until it is paused.",
        ),
    ] = None,
    from_json: FromJson = None,
    interactive: Interactive = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do, and do nothing.")] = False,
    detach: Detach = False,
    output: Output = Format.table,
) -> None:
    """Replay archived messages into NATS: nothing lost, nothing doubled. A selection is what all its options take."""
    if sequences is not None and (start is not None or end is not None):
        raise OperatorError("--sequences and --start or --end are the same", "Give one of them")
    fields = {
        "name": name, "archive": archive, "bucket": bucket, "prefix": prefix, "read_stream": read_stream,
        "read_consumer": read_consumer, "read_subject": read_subject, "write_subject": write_subject,
        "poll_interval": None if poll_interval is None else Duration(secs=poll_interval, nanos=0),
        "from_time": _absolute(from_time), "to_time": _absolute(to_time), "start": start, "end": end,
        "sequences": sequences, "hours": hour or None, "order": order, "rate": rate, "byte_rate": byte_rate,
        "speed": speed, "create_stream": create_stream, "delete_chunks": delete_chunks or None,
        "delete_unexported": delete_unexported or None,
        "into_own_stream": into_own_stream or None, "over_gaps": over_gaps or None, "live": live or None,
        "marks": False if no_marks else None, "like_source": like_source or None,
    }  # fmt: skip
    settings = Settings.load()
    if interactive and from_json is None:
        with Workspace(settings) as workspace:
            fields = ask_replay(None if settings.server_url else workspace, fields)
    body = body_of(CreateLoadJob, context, from_json, fields, {"write_subject": "--write-subject"})
    spec, planned = body.spec(), list[ReplayPlan]()
    with server(settings) as api:
        if api:
            _create_at(api, body, dry_run, yes, output)
            return
    with Workspace(settings) as workspace:
        if dry_run or body.dry_run:
            plan = describe(jobs.plan_job(workspace, body.source, spec, body.write_stream))
            show_one(output, plan, views.plan_lines(plan))
            note("A dry run: nothing was published or written")
            return
        # Without Java nothing could run what would be recorded now.
        processes.check_spark(workspace.settings)

        def agree(plan: ReplayPlan) -> None:
            planned.append(plan)
            _agree(plan, yes)

        replay, _ = jobs.begin_job(
            workspace, body.source, spec, write_stream=body.write_stream, name=body.name, agree=agree
        )
    note(f"Replay {replay.id} of archive {replay.spec.archive} is recorded")
    if planned[0].timing_s is not None:
        note(f"Its original timing takes at most {timedelta(seconds=round(planned[0].timing_s))}")
    run_replay(workspace.settings, replay.id, detach, output)


def _create_at(api: Server, body: CreateLoadJob, dry_run: bool, yes: bool, output: Format) -> None:
    """Have a server begin and run it. What its chunks would lose is asked with its plan."""
    fields = body.model_dump(mode="json", exclude_unset=True)
    if dry_run or body.dry_run:
        plan = api.create_replay(fields | {"dry_run": True})
        show_one(output, plan, views.plan_lines(plan))
        note("A dry run: nothing was published or written")
        return
    if body.delete_chunks:
        plan = api.create_replay(fields | {"dry_run": True})
        confirm(f"After the replay this deletes chunks of archive {plan['archive']} for good", yes)
    view = api.create_replay(fields)
    show_one(output, view, views.lines(view))
    note(f"The server runs it. To see its progress: nats3 load progress {view['id']} --watch")


def _absolute(time: str | None) -> str | None:
    """A time that a person wrote, as -2h, as the API takes it."""
    return None if time is None else time_of(parse_time(time))


def _agree(planned: ReplayPlan, yes: bool) -> None:
    """What is said before anything is created or published, and with --delete-chunks asked."""
    for text in planned.notes:
        note(text)
    if planned.creation and planned.creation.left_out:
        note(f"Stream {planned.creation.name} is created without {', '.join(planned.creation.left_out)}")
    parts, follows = planned.to_delete, planned.spec.poll_interval_s is not None
    if follows and planned.spec.delete_chunks:
        archive = planned.archive.name
        confirm(f"This deletes each chunk of archive {archive} for good as soon as it was replayed whole", yes)
        return
    if not parts:
        return
    most = "" if all(part.is_exact for part in parts) else "up to "
    messages = sum(part.messages for part in parts)
    confirm(
        f"After the replay this deletes {most}{counted(len(parts), 'chunk')} with {counted(messages, 'message')} from "
        f"archive {planned.archive.name} for good",
        yes,
    )
