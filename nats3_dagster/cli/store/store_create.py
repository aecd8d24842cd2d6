"""`nats3 store create`: an archive of a stream."""

from typing import Annotated

import typer

from nats3_dagster.archive.lifecycle import jobs
from nats3_dagster.archive.lifecycle.create import create as create_archive
from nats3_dagster.archive.lifecycle.create import warning as creation_warning
from nats3_dagster.bodies.store_jobs import CreateStoreJob, Encoding
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.remote import server
from nats3_dagster.cli.store import store_views as views
from nats3_dagster.cli.terminal.options import Output, parse_size
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.prompts import Interactive, ask_archive
from nats3_dagster.cli.terminal.request_body import Codec, FromJson, body_of, once
from nats3_dagster.cli.terminal.spec_options import Given, required_options, with_settings
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.archives import CreatedArchive
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@with_settings(ArchiveSpec)
def create(
    context: typer.Context,
    given: Given,
    create_bucket: Annotated[bool, typer.Option("--create-bucket", help="Create buckets that do not exist.")] = False,
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
    fields = given | {
        "max_messages": once(given.get("max_messages"), batch_max_count, "--max-messages and --batch-max-count"),
        "max_bytes": once(given.get("max_bytes"), batch_max_bytes, "--max-bytes and --batch-max-bytes"),
        "create_bucket": create_bucket or None,
        "encoding": Encoding(codec=codec.value) if codec else None,
    }
    settings = Settings.load()
    if interactive and from_json is None:
        with Workspace(settings) as workspace:
            fields = ask_archive(None if settings.server_url else workspace, fields)
    body = body_of(CreateStoreJob, context, from_json, fields, required_options(ArchiveSpec))
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
        view = CreatedArchive.of_new(jobs.aged(workspace, archive), WORDS, warning).plain()
    show_one(output, view, views.archive_lines(view))
    if warning:
        note(f"Warning: {warning}")
    if body.encoding:
        note("Chunks are Parquet, and payloads are kept as they came, whatever the codec")
    note(f"Created. To capture what the stream has now: {Next.CAPTURE(archive=archive.name).command}")
    note(reload_dagster(workspace.settings))
