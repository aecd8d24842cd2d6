"""`nats3 store create`: an archive of a stream."""

from enum import StrEnum
from typing import Annotated

import typer

from nats3_dagster.archive.create import create as create_archive
from nats3_dagster.archive.create import warning as creation_warning
from nats3_dagster.bodies.store_jobs import CreateStoreJob, Encoding
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.remote import server
from nats3_dagster.cli.store import store_views as views
from nats3_dagster.cli.terminal.asking import Interactive, ask_archive
from nats3_dagster.cli.terminal.creation import Codec, FromJson, body_of, once
from nats3_dagster.cli.terminal.options import Output, parse_duration, parse_size
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
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
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take the folder in the bucket from another catalog's archive.")
    ] = False,
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
            if take_over:
                raise OperatorError("--take-over needs the catalog, and --server is set", "Run it where the catalog is")
            view = api.create_archive(body.model_dump(mode="json", exclude_unset=True))
            show_one(output, view, views.archive_lines(view))
            if view["warning"]:
                note(f"Warning: {view['warning']}")
            note("Created. Its sensor captures what the stream has now and what comes")
            return
    with Workspace(settings) as workspace:
        job_name = None if body.name == spec.name else body.name
        archive = create_archive(
            workspace, spec, job_name=job_name, create_bucket=body.create_bucket, take_over=take_over
        )
        warning = creation_warning(workspace, archive)
    view = documents.archive(archive)
    show_one(output, view | {"warning": warning or None}, views.archive_lines(view))
    if warning:
        note(f"Warning: {warning}")
    if body.encoding:
        note("Chunks are Parquet, and payloads are kept as they came, whatever the codec")
    note(f"Created. To capture what the stream has now: nats3 store run {archive.name}")
    note(reload_dagster(workspace.settings))
