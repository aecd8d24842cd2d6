"""`nats3 store`: archives. Create, look at, capture now, pause, delete."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from nats3_dagster.archive import condition, jobs, remove, status
from nats3_dagster.archive.create import create as create_archive
from nats3_dagster.archive.create import warning as creation_warning
from nats3_dagster.archive.due import hours_asked
from nats3_dagster.archive.jobs import as_id
from nats3_dagster.bodies.store_jobs import CreateStoreJob, Encoding
from nats3_dagster.cli import store_views as views
from nats3_dagster.cli.asking import Interactive, ask_archive, pick
from nats3_dagster.cli.confirm import Yes, confirm
from nats3_dagster.cli.creation import Codec, FromJson, body_of, once
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.options import (
    ArchiveName,
    ArchiveOrNone,
    Hours,
    JobId,
    Output,
    one_of,
    parse_duration,
    parse_size,
)
from nats3_dagster.cli.output import Format, Size, counted, show, show_one
from nats3_dagster.cli.processes import capture_hours
from nats3_dagster.cli.progress import bar, note
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.remote import Server, server
from nats3_dagster.cli.watch import Watch, watched
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.replay.status import replayed_hours
from nats3_dagster.settings import Settings
from nats3_dagster.views import archives as documents
from nats3_dagster.workspace import Workspace


class ModeOption(StrEnum):
    """The modes of an archive: model.Mode, as typer wants a choice."""

    stream = "stream"
    consumer = "consumer"


_DEFAULTS = {
    name: ArchiveSpec.__dataclass_fields__[name].default
    for name in ("max_messages", "max_bytes", "max_age_s", "zstd_level")
}
_REQUIRED = {"name": "--name", "stream": "--stream", "bucket": "--bucket"}
app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the archive; - and others become _.")
    ] = None,
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="STREAM", help="The JetStream stream to archive.")
    ] = None,
    bucket: Annotated[
        str | None, typer.Option("--bucket", metavar="BUCKET", help="The bucket that takes the chunks.")
    ] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option("--subject", metavar="FILTER", help="Archive only these subjects (NATS filter). May be repeated."),
    ] = None,
    mode: Annotated[
        ModeOption | None,
        typer.Option(
            "--mode", help="stream: read it (the default). consumer: take the messages through a "
            "durable consumer, and acknowledge them once they are in a chunk; for workqueue and interest retention.",
        ),
    ] = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            "--consumer", metavar="NAME", help="Take the messages through this durable of yours (--mode consumer). "
            "Without it the archive makes one: nats3-<archive>.",
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="PREFIX", help="Key prefix of the chunks, like team/logs.")
    ] = None,
    max_messages: Annotated[
        int | None,
        typer.Option(
            "--max-messages", metavar="COUNT",
            help=f"A capture is due at this many uncaptured messages (default: {_DEFAULTS['max_messages']:,}).",
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-bytes", parser=parse_size, metavar="SIZE",
            help=f"... or at this many bytes of them (default: {_DEFAULTS['max_bytes'] >> 20} MiB).",
        ),
    ] = None,
    max_age: Annotated[
        int | None,
        typer.Option(
            "--max-age", parser=parse_duration, metavar="DURATION",
            help=f"... or when the oldest is this old (default: {_DEFAULTS['max_age_s']} s).",
        ),
    ] = None,
    zstd_level: Annotated[
        int | None,
        typer.Option(
            "--zstd-level", metavar="LEVEL",
            help=f"Compression, 1 (fast) to 22 (small) (default: {_DEFAULTS['zstd_level']}).",
        ),
    ] = None,
    create_bucket: Annotated[bool, typer.Option("--create-bucket", help="Create the bucket if there is none.")] = False,
    batch_max_count: Annotated[
        int | None, typer.Option("--batch-max-count", metavar="COUNT", help="The same as --max-messages.")
    ] = None,
    batch_max_bytes: Annotated[
        int | None,
        typer.Option("--batch-max-bytes", parser=parse_size, metavar="SIZE", help="The same as --max-bytes."),
    ] = None,
    codec: Annotated[
        Codec | None,
        typer.Option("--codec", help="Changes nothing: chunks are Parquet, and payloads are kept as they came."),
    ] = None,
    from_json: FromJson = None,
    interactive: Interactive = False,
    output: Output = Format.table,
) -> None:
    """Create an archive. Nothing is captured yet: see `nats3 store run`."""
    fields = {
        "name": name, "stream": stream, "bucket": bucket, "subjects": subject or None, "consumer": consumer,
        "mode": mode.value if mode else None, "prefix": prefix,
        "max_messages": once(max_messages, batch_max_count, "--max-messages and --batch-max-count"),
        "max_bytes": once(max_bytes, batch_max_bytes, "--max-bytes and --batch-max-bytes"),
        "max_age_s": max_age, "zstd_level": zstd_level, "create_bucket": create_bucket or None,
        "encoding": Encoding(codec=codec.value) if codec else None,
    }  # fmt: skip
    settings = Settings.load()
    if interactive and from_json is None:
        with Workspace(settings) as workspace:
            fields = ask_archive(None if settings.server_url else workspace, fields)
    body = body_of(CreateStoreJob, context, from_json, fields, _REQUIRED)
    spec = body.spec()
    with server(settings) as api:
        if api:
            view = api.create_archive(body.model_dump(mode="json", exclude_unset=True))
            show_one(output, view, views.archive_lines(view))
            if view["warning"]:
                note(f"Warning: {view['warning']}")
            note("Created. Its sensor captures what the stream has now and what comes")
            return
    with Workspace(settings) as workspace:
        job_name = None if body.name == spec.name else body.name
        archive = create_archive(workspace, spec, job_name=job_name, create_bucket=body.create_bucket)
        warning = creation_warning(workspace, archive)
    view = documents.archive(archive)
    show_one(output, view | {"warning": warning or None}, views.archive_lines(view))
    if warning:
        note(f"Warning: {warning}")
    if body.encoding:
        note("Chunks are Parquet, and payloads are kept as they came, whatever the codec")
    note(f"Created. To capture what the stream has now: nats3 store run {archive.name}")
    note(reload_dagster(workspace.settings))


@app.command("list")
def list_(watch: Watch = None, output: Output = Format.table) -> None:
    """All archives: what they hold, and what of their streams is not captured yet (LAG)."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with server(settings) as api:
            if api:
                return api.archives()
        with Workspace(settings) as workspace:
            sums = status.archives(workspace)
            found = condition.conditions(workspace, [t.archive for t in sums])
        return [documents.totals(t, found[t.archive.id], WORDS) for t in sums]

    watched(watch, output, look, lambda items: show(output, items, views.LIST))


@app.command()
def get(
    context: typer.Context, name: ArchiveOrNone = None, job_id: JobId = None, watch: Watch = None,
    output: Output = Format.table,
) -> None:  # fmt: skip
    """One archive: settings, its stream, what is captured, what is not yet, what was lost."""
    chosen, settings = one_of(name, job_id, context, "ARCHIVE"), Settings.load()

    def look() -> dict[str, Any]:
        with server(settings) as api:
            if api:
                return api.archive(chosen)
        with Workspace(settings) as workspace:
            report = status.holdings(workspace, jobs.named(workspace, chosen).name)
            replayed = len(replayed_hours(workspace, report.archive))
            return documents.holdings(report, condition.condition(workspace, report.archive), replayed, WORDS)

    watched(watch, output, look, lambda view: show_one(output, view, views.archive_lines(view)))


@app.command()
def run(
    name: ArchiveName,
    hour: Hours = None,
    every: Annotated[bool, typer.Option("--all", help="Every hour that is not complete (the default).")] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="The stream was deleted and made again: archive the new one as well.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Capture now. What is captured already is not captured again."""
    if hour and every:
        raise OperatorError(
            "--hour and --all exclude each other", "Give one of them, or neither for all that is missing"
        )
    with Workspace(Settings.load()) as workspace:
        hours = hours_asked(workspace, name, hour or (), adopt=adopt)
    if not hours:
        note(f"Archive {name} is complete: everything in the stream is captured")
        show(output, [], views.RUN)
        return
    results: list[dict[str, object]] = []
    try:
        for result in capture_hours(workspace.settings, name, hours, adopt=adopt):
            results.append(documents.captured(result))
    except (Nats3Error, KeyboardInterrupt):
        if results:  # these hours are committed
            show(output, results, views.RUN)
        raise
    show(output, results, views.RUN)


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


@app.command()
def delete(
    context: typer.Context,
    name: ArchiveOrNone = None,
    job_id: JobId = None,
    interactive: Interactive = False,
    yes: Yes = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the chunk objects as well.")] = False,
    keep_consumer: Annotated[
        bool, typer.Option("--keep-consumer", help="Keep the durable consumer that the archive made in the stream.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Delete an archive from the catalog. Its objects stay unless --purge is given, which may be given later as well,
    and again after it failed. The consumer that it made goes, and with it what the stream keeps for nobody else."""
    settings = Settings.load()
    with server(settings) as api:
        if api:
            if keep_consumer:
                raise OperatorError("The API does not take --keep-consumer", "Delete it where the server runs")
            if interactive and name is None and job_id is None:
                name = pick("Archive to delete:", [one["name"] for one in api.archives()])
            _delete_at(api, one_of(name, job_id, context, "ARCHIVE"), purge, yes, output)
            return
    with Workspace(settings) as workspace:
        if interactive and name is None and job_id is None:
            name = pick("Archive to delete:", [sums.archive.name for sums in status.archives(workspace)])
        name = jobs.name_to_delete(workspace, one_of(name, job_id, context, "ARCHIVE"))
        planned = remove.to_delete(workspace, name, purge=purge)
        if planned.holdings:
            chunks = counted(sum(c.chunks for c in planned.holdings.coverages), "chunk")
            messages = counted(sum(c.messages for c in planned.holdings.coverages), "message")
            objects = ", and deletes their objects for good" if purge else "; their objects stay"
            consumer = views.consumer_to_delete(planned.holdings.archive, keep_consumer)
            confirm(f"This deletes archive {name} with {chunks} ({messages}){objects}{consumer}", yes)
        else:
            left = counted(planned.left, "object")
            confirm(f"Archive {name} was deleted before. This deletes {left} of it for good", yes)
        if purge:
            with bar("Deleting objects", "objects") as on_progress:
                deleted = remove.delete(
                    workspace, name, purge=True, keep_consumer=keep_consumer, on_progress=on_progress
                )
        else:
            deleted = remove.delete(workspace, name, keep_consumer=keep_consumer)
    view = {
        "name": name, "deleted": True, "chunks": deleted.chunks, "objects_deleted": deleted.objects,
        "consumer_deleted": deleted.consumer,
    }  # fmt: skip
    lines = {"deleted": name, "chunks": deleted.chunks, "objects deleted": deleted.objects}
    show_one(output, view, lines | ({"consumer deleted": deleted.consumer} if deleted.consumer else {}))
    if not purge and deleted.chunks:
        note("The objects are still in the store: the metadata of each chunk says what it holds")
    if deleted.objects:
        note("A bucket with versions keeps what was deleted as earlier versions, until its own rules remove them")
    note(reload_dagster(workspace.settings))


@app.command()
def sweep(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would remove, and remove nothing.")] = False,
    output: Output = Format.table,
) -> None:
    """Remove the objects of chunks that were deleted after their replay, once their time of grace has passed
    (delete_grace). Dagster's sweep_sensor does it by itself."""
    with Workspace(Settings.load()) as workspace:
        swept = remove.sweepable(workspace) if dry_run else remove.sweep(workspace)
        view = {
            "objects": swept.objects, "bytes": swept.bytes, "delete_grace_s": workspace.settings.delete_grace,
            "dry_run": dry_run,
        }  # fmt: skip
    show_one(output, view, {"objects removed": swept.objects, "stored": Size(swept.bytes)})
    if dry_run:
        note("A dry run: nothing was removed")


def _delete_at(api: Server, name: str, purge: bool, yes: bool, output: Format) -> None:
    # An id may be that of an archive that was deleted before, whose objects go now.
    known = None if purge and as_id(name) else api.archive(name)
    objects = ", and deletes its objects for good" if purge else "; its objects stay"
    confirm(f"This deletes archive {known['name'] if known else name}{objects}", yes)
    gone = api.delete_archive(known["job_id"] if known else name, purge=purge)
    view = {"name": gone["archive"], **{k: v for k, v in gone.items() if k not in ("id", "name", "archive")}}
    lines = {"deleted": gone["archive"], "chunks": gone["chunks"], "objects deleted": gone["objects_deleted"]}
    show_one(output, view, lines | ({"consumer deleted": gone["consumer_deleted"]} if gone["consumer_deleted"] else {}))


def _act(chosen: str, action: str, here: Callable[[Workspace, str], Archive], output: Format) -> None:
    """Do it over HTTP if there is a server, else `here`; and show the archive."""
    settings = Settings.load()
    with server(settings) as api:
        if api:
            view = api.act_on_archive(chosen, action)
            show_one(output, view, views.archive_lines(view))
            return
    with Workspace(settings) as workspace:
        _show(here(workspace, jobs.named(workspace, chosen).name), output)


def _show(archive: Archive, output: Format) -> None:
    view = documents.archive(archive)
    show_one(output, view, views.archive_lines(view))
