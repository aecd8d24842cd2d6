"""`nats3 chunk`: the objects of an archive. What needs pyarrow is in proof_commands and fetch_command."""

from typing import Any

import typer

from nats3_dagster.archive import status
from nats3_dagster.cli.chunk import chunk_views as views
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.remote import server
from nats3_dagster.cli.terminal.options import ArchiveName, ChunkName, Hours, Output
from nats3_dagster.cli.terminal.output import Format, show, show_one
from nats3_dagster.cli.terminal.watch import Watch, watched
from nats3_dagster.documents.chunks import Chunk, ChunkDetail
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.command("list")
def list_(name: ArchiveName, hour: Hours = None, watch: Watch = None, output: Output = Format.table) -> None:
    """The chunks of an archive, in the order of the stream. Their object keys are in `-o json`."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with server(settings) as api:
            if api:
                return api.chunks(name, hour)
        with Workspace(settings) as workspace:
            return [Chunk.of(c).plain() for c in status.chunks(workspace, name, hour)]

    watched(watch, output, look, lambda items: show(output, items, views.LIST))


@app.command()
def get(name: ArchiveName, chunk: ChunkName, watch: Watch = None, output: Output = Format.table) -> None:
    """One chunk: what it holds, which run made it, which replays published it."""
    settings = Settings.load()

    def look() -> dict[str, Any]:
        with Workspace(settings) as workspace:
            return ChunkDetail.of_report(status.chunk(workspace, name, chunk), workspace.settings.dagster_url).plain()

    watched(watch, output, look, lambda view: show_one(output, view, views.lines(view)))
