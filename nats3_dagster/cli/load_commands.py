"""`nats3 load`: replays. Create, look at, pause, resume, delete.

A replay is checked and recorded in this process before Spark starts. The shell that waits and a process in the
background then do the same: `nats3 load resume ID`.
"""

from datetime import timedelta
from typing import Annotated, Any

import typer

from nats3_dagster.bodies.load_jobs import CreateLoadJob, Duration
from nats3_dagster.cli import completing, processes
from nats3_dagster.cli import load_views as views
from nats3_dagster.cli.asking import Interactive, ask_replay, pick
from nats3_dagster.cli.confirm import Yes, confirm
from nats3_dagster.cli.creation import FromJson, body_of
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.options import Hours, JobId, Output, one_of, parse_duration, parse_size
from nats3_dagster.cli.output import Format, counted, show, show_one
from nats3_dagster.cli.progress import note, step
from nats3_dagster.cli.remote import Server, server
from nats3_dagster.cli.watch import Watch, watched
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import ORDERS, SeqRange, parse_sequences
from nats3_dagster.replay import control, jobs, status
from nats3_dagster.replay.plan import ReplayPlan, describe
from nats3_dagster.runs.processes import log_of, start_detached
from nats3_dagster.settings import Settings
from nats3_dagster.views import replays as documents
from nats3_dagster.views.values import time_of
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
ReplayId = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]", help="Id of the replay (see nats3 load list), or name of its job.",
        autocompletion=completing.replays,
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Do not wait: run it in the background.")]


@app.command(epilog="What a replay does to headers, times and sequences: docs/replays.md.")
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
    _run(workspace.settings, replay.id, detach, output)


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
    note(f"The server runs it. To see its progress: nats3 load get {view['id']}")


def _confirm_delete(replay_id: str, state: str, chunks_done: int, chunks: int, yes: bool) -> None:
    if state not in ("succeeded", "running"):  # one that runs is not deleted at all
        done = f"{chunks_done:,} of {counted(chunks, 'chunk')}"
        confirm(f"Replay {replay_id} is {state}, with {done} done; deleted, it cannot be resumed", yes)


def _absolute(time: str | None) -> str | None:
    """A time that a person wrote, as -2h, as the API takes it."""
    return None if time is None else time_of(parse_time(time))


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
            return [documents.replay(r) for r in status.statuses(workspace, archive, limit)]

    watched(watch, output, look, lambda items: show(output, items, views.LIST))


@app.command()
def get(
    context: typer.Context, replay_id: ReplayId = None, job_id: JobId = None, watch: Watch = None,
    output: Output = Format.table,
) -> None:  # fmt: skip
    """One replay: state, counts, targets, and what went wrong."""
    chosen, settings = one_of(replay_id, job_id, context, "ID"), Settings.load()

    def look() -> dict[str, Any]:
        with server(settings) as api:
            if api:
                return api.replay(chosen)
        with Workspace(settings) as workspace:
            view = documents.replay(jobs.named(workspace, chosen))
        log = log_of(view["id"])
        return view | {"log": str(log) if log.exists() else None}

    watched(watch, output, look, lambda view: show_one(output, view, views.lines(view)))


@app.command()
def resume(
    context: typer.Context, replay_id: ReplayId = None, job_id: JobId = None, detach: Detach = False,
    launch: Annotated[int | None, typer.Option("--launch", hidden=True)] = None,  # what runs.loads starts
    output: Output = Format.table,
) -> None:  # fmt: skip
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
    _run(settings, replay.id, detach, output, launch)


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
        view = documents.replay(status.ReplayStatus(paused, paused.state)) | {"log": None}
    show_one(output, view, views.lines(view))


@app.command()
def delete(
    context: typer.Context, replay_id: ReplayId = None, job_id: JobId = None,
    interactive: Interactive = False, yes: Yes = False, output: Output = Format.table,
) -> None:  # fmt: skip
    """Take a replay out of the list. What it published stays; one that is not finished cannot be resumed then."""
    settings = Settings.load()
    with server(settings) as api:
        if api:
            if interactive and replay_id is None and job_id is None:
                replay_id = pick("Replay to delete:", [one["id"] for one in api.replays(None, 1000)])
            view = api.replay(one_of(replay_id, job_id, context, "ID"))
            _confirm_delete(view["id"], view["state"], view["chunks_done"], view["chunks"], yes)
            api.delete_replay(view["job_id"])
            show_one(output, {"id": view["id"], "deleted": True}, {"deleted": view["id"]})
            return
    with Workspace(settings) as workspace:
        if interactive and replay_id is None and job_id is None:
            replay_id = pick("Replay to delete:", [one.replay.id for one in status.statuses(workspace)])
        found = jobs.named(workspace, one_of(replay_id, job_id, context, "ID"))
        replay_id = found.replay.id
        _confirm_delete(replay_id, found.state, found.replay.chunks_done, found.replay.chunks, yes)
        control.delete(workspace, replay_id)
    show_one(output, {"id": replay_id, "deleted": True}, {"deleted": replay_id})


def _run(settings: Settings, replay_id: str, detach: bool, output: Format, launch: int | None = None) -> None:
    """Run a recorded replay here, or leave it to a process of its own. Chunks go only after it has succeeded."""
    with Workspace(settings) as workspace:
        record = status.status(workspace, replay_id).replay
    view: dict[str, object] = {"id": replay_id, "archive": record.spec.archive, "state": record.state}
    if record.state == "succeeded" and record.spec.delete_chunks:
        # Killed after its success was recorded, it has only that left to do.
        show_one(output, view | {"chunks_deleted": _delete_chunks(settings, replay_id)}, view)
        return
    if detach:
        log = log_of(replay_id)
        view |= {"pid": start_detached(["load", "resume", replay_id], log), "log": str(log)}
        show_one(output, view, view | {"pid": str(view["pid"])})
        note(f"It runs in the background. To see its progress: nats3 load get {replay_id}")
        return
    try:
        result = documents.result(processes.replay(settings, replay_id, launch))
    except KeyboardInterrupt:
        note(f"Replay {replay_id} is not finished. To go on: nats3 load resume {replay_id}")
        raise
    if record.spec.delete_chunks:
        result["chunks_deleted"] = _delete_chunks(settings, replay_id)
    show_one(output, result, views.result_lines(result))


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


def _delete_chunks(settings: Settings, replay_id: str) -> int:
    with Workspace(settings) as workspace:
        return control.delete_chunks(workspace, replay_id)
