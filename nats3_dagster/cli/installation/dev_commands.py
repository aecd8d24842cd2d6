"""`nats3 dev`, `nats3 migrate` and `nats3 demo`: everything on this machine.

Invariant: `nats3 dev` ends what it started and nothing else. Servers that ran before it go on running, and so does a
Dagster that runs and answers.

The embedded stack is an extra, and Dagster takes a second to import: both are imported by the commands that use them,
so that `nats3 migrate` and `nats3 dev resync` work without the stack.
"""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nats3_dagster.cli.embedded import addresses, open_stack, running, serve, what_next
from nats3_dagster.cli.exit_status import end_by_interrupts
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, show, show_one
from nats3_dagster.cli.terminal.progress import bar, note, remark, step, steps
from nats3_dagster.defs.instance.instance import dagster_home
from nats3_dagster.documents.installation import Migrated, MigratedWithGrant
from nats3_dagster.documents.stack import EmbeddedServer, ResyncedArchive, StoppedServers
from nats3_dagster.errors import CatalogUnreachable, Nats3Error
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import grant as grant_role
from nats3_dagster.workspace import migrate as migrate_catalog

app = typer.Typer(
    cls=LazyGroup,
    invoke_without_command=True,
    add_completion=False,
    epilog="Everything is in the folder that NATS3_HOME names (default: .nats3 in the working directory): data, logs, "
    "and stack.json, which tells nats3 where the servers are.",
)
Port = Annotated[int, typer.Option("--port", help="Port of the Dagster UI; another one is taken if it is not free.")]
_STATUS: Columns = {
    "SERVER": lambda s: s["server"],
    "RUNNING": lambda s: s["running"],
    "ADDRESS": lambda s: s["address"],
}
_RESYNCED: Columns = {
    "ARCHIVE": lambda r: r["archive"],
    "CHUNKS": lambda r: r["chunks"],
    "SEALED": lambda r: r["sealed"],
    "REPLAY": lambda r: r["replay"],
    "EXPORTS": lambda r: r["exports"],
    "WIPED": lambda r: ", ".join(r["wiped"]) or "-",
}


@app.callback()
def dev(
    context: typer.Context,
    stack_only: Annotated[
        bool, typer.Option("--stack-only", help="Start the servers, leave them running, and return.")
    ] = False,
    no_connect: Annotated[
        bool, typer.Option("--no-connect", help="Without Spark Connect: each run starts a JVM of its own.")
    ] = False,
    port: Port = 3000,
    output: Output = Format.table,
) -> None:
    """Start the embedded servers, Spark Connect and the Dagster UI, and stay until interrupted.

    `nats3 dev stop` ends what is left."""
    if context.invoked_subcommand is not None:
        return
    end_by_interrupts()
    stack = open_stack()
    servers_stay = stack_only or any(stack.running().values())
    try:
        with steps() as on_step:
            stack.start(lambda step: on_step(step, 0, 0))
        if stack_only:
            view = addresses(stack).plain()
            show_one(output, view, view)
            remark("The servers go on running: nats3 finds them by itself. To stop them: nats3 dev stop")
        elif not serve(stack, port, output, connect=not no_connect):
            servers_stay = True
    finally:
        # Another `nats3 dev` may have replaced our Dagster: its servers are these.
        if not servers_stay and not stack.dagster.find():
            with step("Stopping the servers"):
                stack.stop()


@app.command()
def status(output: Output = Format.table) -> None:
    """Show which of the embedded servers run, and where."""
    stack = open_stack()
    at = running(stack)
    servers = [
        EmbeddedServer(server=name, running=address is not None, address=address) for name, address in at.items()
    ]
    show(output, [server.plain() for server in servers], _STATUS)
    ui, spark = at.pop("dagster"), at.pop("spark")
    if not ui and stack.dagster.find():
        remark("Dagster runs and does not answer. To start another in its place: nats3 dev")
    elif not ui and not any(at.values()):
        remark(
            "Nothing runs. To start the servers and the Dagster UI: nats3 dev; without the UI: nats3 dev --stack-only"
        )
    elif not all(at.values()):
        note("To start the servers that are missing: nats3 dev --stack-only")
    elif not ui:
        note("To start the Dagster UI: nats3 dev")
    elif not spark:
        note("Spark Connect does not run: each run starts a JVM")


@app.command()
def stop(output: Output = Format.table) -> None:
    """Stop the embedded servers, Spark Connect and the Dagster UI. Their data stays."""
    stack = open_stack()
    stopped = [name for name, is_running in stack.running().items() if is_running]
    if stack.dagster.find():
        stopped.append("dagster")
    if stack.connect.find():
        stopped.append("spark")
    stack.stop_all()
    show_one(output, StoppedServers(stopped=stopped).plain(), {"stopped": stopped or "nothing ran"})


@app.command()
def resync(output: Output = Format.table) -> None:
    """Make what Dagster shows of archives equal to the catalog.

    The sensor catalog_sensor does so every 20 s; this is for when no daemon runs.

    DAGSTER_HOME names the instance; without it, the one of `nats3 dev`."""
    from nats3_dagster.defs.sensors.catalog_sensor import resync as resync_dagster

    with bar("resync", "hours") as on_progress:
        resynced = resync_dagster(Settings.load(), on_progress)
    show(output, [ResyncedArchive.by_name(one, wiped=list(one.wiped)).plain() for one in resynced], _RESYNCED)
    if any(one.wiped for one in resynced):
        remark(
            "Dagster had hours that the catalog does not have. It cannot forget single hours: those assets were wiped, "
            "and what the catalog has of them was reported again"
        )


def migrate(
    grant: Annotated[
        str | None,
        typer.Option(
            "--grant",
            metavar="ROLE",
            help="Then let this role of Postgres use the catalog and Dagster's tables, which are made if they are "
            "missing. It may change neither. Needed again after each migration.",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="Try for this long to reach Postgres.")
    ] = 0,
    output: Output = Format.table,
) -> None:
    """Bring the catalog in Postgres to this release's schema. Running it again changes nothing."""
    settings = Settings.load()
    document = Migrated(schema=_reached(lambda: migrate_catalog(settings), wait))
    if grant is not None:
        from nats3_dagster.defs.storage import make_tables

        grant_role(settings, grant, make_tables(settings.postgres))
        document = MigratedWithGrant(schema=document.schema_, granted=grant)
    view = document.plain()
    show_one(output, view, view)


def _reached(migrate: Callable[[], str], wait_s: float) -> str:
    """The result of `migrate`, tried again for `wait_s` while Postgres takes no connection. Raises what the last try
    raised, and any other error at once."""

    def say(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            note(f"{state.outcome.exception()}. Trying again")

    return Retrying(
        retry=retry_if_exception_type(CatalogUnreachable),
        stop=stop_after_delay(wait_s),
        wait=wait_fixed(1),
        before_sleep=say,
        reraise=True,
    )(migrate)


def demo(
    messages: Annotated[int, typer.Option("--messages", min=1, help="How many log lines to ship.")] = 60_000,
    ui: Annotated[
        bool, typer.Option("--ui", help="Leave the Dagster UI running at the end, until interrupted.")
    ] = False,
    port: Port = 3000,
    output: Output = Format.table,
) -> None:
    """Archive this host's log lines, replay them into another stream, and compare both message by message."""
    from nats3_dagster.dev.demo import run_demo
    from nats3_dagster.dev.demo_report import as_rows, document_of

    end_by_interrupts()
    # The runs of the demo are then in the UI.
    os.environ["DAGSTER_HOME"] = str(dagster_home())
    with steps() as on_step:
        result = run_demo(messages, on_step=on_step)
    show_one(output, document_of(result).plain(), dict(as_rows(result)))
    if not result.ok:
        raise Nats3Error(
            f"What came back is not what went in: {result.mismatches} mismatches, {result.replayed} messages "
            f"of {result.messages}",
            "This is a defect: report it with .nats3/nats/server.log",
        )
    sys.stdout.flush()
    stack = open_stack()
    if stack.dagster.ui():
        # It knows nothing yet of the demo's archive.
        note(reload_dagster(Settings.load()))
    if ui:
        serve(stack, port, None)
    what_next(stack, result.names.stream, result.names.archive)
