"""`nats3 load`: replays. Create, look at, stop, go on, delete.

The rule kept here: a replay is checked and recorded in this process, before Spark starts; whoever drives it then, the
shell that waits or a process of its own, does the same thing: `nats3 load resume ID`.
"""

from dataclasses import replace
from typing import Annotated

import typer

from nats3_dagster.cli import load_views as views
from nats3_dagster.cli.detached import log_of
from nats3_dagster.cli.drive import drive
from nats3_dagster.cli.options import Hours, Output, parse_seqs, parse_size
from nats3_dagster.cli.progress import step
from nats3_dagster.cli.terminal import Format, note, show, show_one
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Order, Pace, ReplaySpec, Selection, SeqRange

app = typer.Typer(no_args_is_help=True, help="Replays: archived messages published into NATS.")
ReplayId = Annotated[str, typer.Argument(metavar="ID", help="Id of the replay: see nats3 load list.")]
Detach = Annotated[bool, typer.Option("--detach", help="Do not wait: run it in a process of its own.")]


@app.command()
def create(
    write_subject: Annotated[
        str,
        typer.Option(
            "--write-subject", help="Where messages go: replay.orders.>, replay.{{wildcard(1)}}, or one subject."
        ),
    ],
    bucket: Annotated[str | None, typer.Option("--bucket", help="The bucket that the archive is in.")] = None,
    read_stream: Annotated[str | None, typer.Option("--read-stream", help="The stream that was archived.")] = None,
    archive: Annotated[
        str | None,
        typer.Option("--archive", help="The archive by name; needed where a bucket has several of the stream."),
    ] = None,
    read_subject: Annotated[
        str, typer.Option("--read-subject", help="Replay only these subjects (NATS filter).")
    ] = ">",
    hour: Hours = None,
    from_time: Annotated[
        str | None, typer.Option("--from-time", metavar="TIME", help="From this time on: 2026-11-21T07:00:00Z or -2h.")
    ] = None,
    to_time: Annotated[str | None, typer.Option("--to-time", metavar="TIME", help="Up to before this time.")] = None,
    seqs: Annotated[
        SeqRange | None, typer.Option("--seqs", metavar="A-B", parser=parse_seqs, help="Sequences, both included.")
    ] = None,
    order: Annotated[
        str, typer.Option("--order", metavar="stream|subject|none", help="Order kept: total, of each subject, or none.")
    ] = "stream",
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
        typer.Option("--create-stream", metavar="NAME", help="Make a stream for the target subjects if none listens."),
    ] = None,
    into_own_stream: Annotated[
        bool, typer.Option("--into-own-stream", help="Publish even into subjects that the archived stream captures.")
    ] = False,
    over_gaps: Annotated[
        bool, typer.Option("--over-gaps", help="Replay what there is, though messages were lost.")
    ] = False,
    delete_chunks: Annotated[
        bool, typer.Option("--delete-chunks", help="After success, delete the chunks that were replayed whole.")
    ] = False,
    poll_interval: Annotated[
        str | None, typer.Option("--poll-interval", metavar="DURATION", help="Go on with new chunks (not built yet).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do, and do nothing.")] = False,
    detach: Detach = False,
    output: Output = Format.table,
) -> None:
    """Replay archived messages into NATS: nothing lost, nothing doubled. All selections narrow it together."""
    if poll_interval is not None:
        raise OperatorError(
            "Replays that go on with new chunks (--poll-interval) are not built yet",
            "Leave it out, and create a replay of the new hours when they are captured",
        )
    spec = ReplaySpec(
        archive or "", write_subject, order=_order(order), pace=Pace(rate, byte_rate, speed),
        selection=Selection(
            hours=tuple(sorted(set(hour or ()))), from_ns=None if from_time is None else parse_time(from_time),
            to_ns=None if to_time is None else parse_time(to_time), sequences=seqs, subjects=(read_subject,),
        ),
        create_stream=create_stream, into_own_stream=into_own_stream, over_gaps=over_gaps, delete_chunks=delete_chunks,
    )  # fmt: skip
    from nats3_dagster.replay.begin import begin, resolve_archive
    from nats3_dagster.replay.plan import dry_run as planned
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    settings = Settings.load()
    with Workspace(settings) as ws:
        spec = replace(spec, archive=resolve_archive(ws, archive, bucket, read_stream, spec.selection.hours))
        if dry_run:
            plan = planned(ws, spec)
            show_one(output, plan, plan)
            note("A dry run: nothing was published or written")
            return
        # Without Java nothing could run what would be recorded now.
        from nats3_dagster.pipeline.session import prepare

        prepare(settings.spark_master)
        replay_id = begin(ws, spec)[0].id
    note(f"Replay {replay_id} of archive {spec.archive} is recorded")
    drive(settings, replay_id, detach, output)


@app.command("list")
def list_(
    archive: Annotated[str | None, typer.Option("--archive", help="Only replays of this archive.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = 100,
    output: Output = Format.table,
) -> None:
    """Replays, newest first."""
    from nats3_dagster.replay.status import statuses
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    with Workspace(Settings.load()) as ws:
        show(output, [views.replay(r.replay, r.state) for r in statuses(ws, archive, limit)], views.LIST)


@app.command()
def get(replay_id: ReplayId, output: Output = Format.table) -> None:
    """One replay: state, counts, targets, and what went wrong."""
    from nats3_dagster.replay.status import status
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    with Workspace(Settings.load()) as ws:
        found = status(ws, replay_id)
    view = views.replay(found.replay, found.state)
    log = log_of(replay_id)
    view["log"] = str(log) if log.exists() else None
    show_one(output, view, views.lines(view))


@app.command()
def resume(replay_id: ReplayId, detach: Detach = False, output: Output = Format.table) -> None:
    """Go on with a replay that was interrupted or failed. What it published already is not published again."""
    from nats3_dagster.settings import Settings

    drive(Settings.load(), replay_id, detach, output)


# The same under the name that archives have for it.
app.command("run", hidden=True)(resume)


@app.command()
def pause(replay_id: ReplayId, output: Output = Format.table) -> None:
    """Stop a replay that runs, wherever it runs. `nats3 load resume ID` goes on after its last message."""
    from nats3_dagster.replay import control
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    with Workspace(Settings.load()) as ws, step("Waiting until it has stopped"):
        paused = control.pause(ws, replay_id, "Stopped by nats3 load pause")
    view = views.replay(paused, paused.state) | {"log": None}
    show_one(output, view, views.lines(view))


@app.command()
def delete(replay_id: ReplayId, output: Output = Format.table) -> None:
    """Take a replay out of the list. What it published stays."""
    from nats3_dagster.replay import control
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    with Workspace(Settings.load()) as ws:
        control.delete(ws, replay_id)
    show_one(output, {"id": replay_id, "deleted": True}, {"deleted": replay_id})


def _order(text: str) -> Order:
    match text:
        case "stream" | "subject" | "none":
            return text
        case _:
            raise OperatorError(f"{text!r} is not an order", "Use stream, subject or none")

