"""`nats3 load`: replays. Create, look at, stop, go on, delete.

The rule kept here: a replay is checked and recorded in this process, before Spark starts; whoever drives it then, the
shell that waits or a process of its own, does the same thing: `nats3 load resume ID`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from nats3_dagster.cli import load_views as views
from nats3_dagster.cli.detached import log_of
from nats3_dagster.cli.drive import drive
from nats3_dagster.cli.options import Hours, Output, parse_seqs, parse_size
from nats3_dagster.cli.progress import step
from nats3_dagster.cli.terminal import Format, note, show, show_one
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Order, Pace, ReplaySpec, SeqRange

if TYPE_CHECKING:
    from nats3_dagster.settings import Settings

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
        archive=archive or "", read_subject=read_subject, write_subject=write_subject,
        hours=tuple(sorted(set(hour or ()))), from_ns=None if from_time is None else parse_time(from_time),
        to_ns=None if to_time is None else parse_time(to_time), seqs=seqs, order=_order(order),
        pace=Pace(rate, byte_rate, speed), create_stream=create_stream,
        into_own_stream=into_own_stream, over_gaps=over_gaps, delete_chunks=delete_chunks,
    )  # fmt: skip
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    spec = replace(spec, archive=_archive(settings, archive, bucket, read_stream, spec.hours))
    if dry_run:
        plan = views.planned(settings, spec)
        show_one(output, plan, plan)
        note("A dry run: nothing was published or written")
        return
    # Without Java nothing could run what would be recorded now.
    from nats3_dagster.pipeline.replay_run import create_replay
    from nats3_dagster.pipeline.session import prepare

    prepare(settings.spark_master)
    replay_id = create_replay(settings, spec)
    note(f"Replay {replay_id} of archive {spec.archive} is recorded")
    drive(settings, replay_id, detach, output)


@app.command("list")
def list_(
    archive: Annotated[str | None, typer.Option("--archive", help="Only replays of this archive.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = 100,
    output: Output = Format.table,
) -> None:
    """Replays, newest first."""
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    with Catalog.connect(Settings.load().postgres) as catalog:
        found = catalog.replays.select(catalog.archives.get(archive) if archive else None, limit=limit)
        show(output, [views.replay(r, views.state_of(catalog, r)) for r in found], views.LIST)


@app.command()
def get(replay_id: ReplayId, output: Output = Format.table) -> None:
    """One replay: state, counts, targets, and what went wrong."""
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    with Catalog.connect(Settings.load().postgres) as catalog:
        found = catalog.replays.get(replay_id)
        view = views.replay(found, views.state_of(catalog, found))
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
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.jetstream.link import Link
    from nats3_dagster.replay.control import cancel
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        state = views.state_of(catalog, catalog.replays.get(replay_id))
        if state != "running":
            raise OperatorError(
                f"Replay {replay_id} does not run: it is {state}", f"See it: nats3 load get {replay_id}"
            )
        with step("Waiting until it has stopped"):
            cancel(catalog, link, replay_id, "Stopped by nats3 load pause")
        view = views.replay(catalog.replays.get(replay_id), "canceled") | {"log": None}
    show_one(output, view, views.lines(view))


@app.command()
def delete(replay_id: ReplayId, output: Output = Format.table) -> None:
    """Take a replay out of the list. What it published stays."""
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    with Catalog.connect(Settings.load().postgres) as catalog:
        catalog.replays.delete(replay_id)
    show_one(output, {"id": replay_id, "deleted": True}, {"deleted": replay_id})


def _order(text: str) -> Order:
    match text:
        case "stream" | "subject" | "none":
            return text
        case _:
            raise OperatorError(f"{text!r} is not an order", "Use stream, subject or none")


def _archive(
    settings: "Settings", name: str | None, bucket: str | None, stream: str | None, hours: tuple[str, ...]
) -> str:
    """The one archive that is meant, and that it has those hours. Raises OperatorError."""
    from nats3_dagster.catalog import Catalog

    if name is None and (bucket is None or stream is None):
        raise OperatorError("Nothing says which archive to replay", "Give --bucket and --read-stream, or --archive")
    with Catalog.connect(settings.postgres) as catalog:
        every = [catalog.archives.get(name)] if name is not None else list(catalog.archives.all())
        found = [a for a in every if stream in (None, a.spec.stream) and bucket in (None, a.spec.bucket)]
        if not found:
            there = ", ".join(f"{a.name} (stream {a.spec.stream}, bucket {a.spec.bucket})" for a in every[:5])
            raise OperatorError(
                f"No archive of stream {stream or 'of any name'} is in bucket {bucket or 'of any name'}",
                f"There is {there}" if there else "Create one: nats3 store create",
            )
        if len(found) > 1:
            raise OperatorError(
                f"Bucket {bucket} has {len(found)} archives of stream {stream}: {', '.join(a.name for a in found)}",
                "Say which with --archive NAME",
            )
        chosen = found[0]
        known = {h.hour for h in catalog.hours.select(chosen, first=hours[0], last=hours[-1])} if hours else set[str]()
        if unknown := [hour for hour in hours if hour not in known]:
            raise OperatorError(
                f"Archive {chosen.name} has nothing of the hour {', '.join(unknown[:3])}",
                f"See the hours it has: nats3 chunk list {chosen.name}",
            )
        return chosen.name
