"""`nats3 dev`, `nats3 migrate`, `nats3 demo`: everything on this machine.

The rule kept here: `nats3 dev` ends what it started and nothing else. Servers that ran before it go on running.
"""

import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nats3_dagster.cli.options import Output
from nats3_dagster.cli.progress import step, steps
from nats3_dagster.cli.resync import resync
from nats3_dagster.cli.terminal import Format, note, show, show_one
from nats3_dagster.errors import EngineError, Nats3Error

if TYPE_CHECKING:
    from nats3_dagster.dev.process import Process
    from nats3_dagster.dev.stack import Stack

app = typer.Typer(
    invoke_without_command=True, help="NATS, Postgres, S3 and the Dagster UI on this machine, under .nats3/."
)
Port = Annotated[int, typer.Option("--port", help="Port of the Dagster UI; another one is taken if it is not free.")]


@app.callback()
def dev(
    context: typer.Context,
    stack_only: Annotated[
        bool, typer.Option("--stack-only", help="Start the servers, leave them running, and return.")
    ] = False,
    port: Port = 3000,
    output: Output = Format.table,
) -> None:
    """Start the embedded servers and the Dagster UI, and stay until interrupted. `nats3 dev stop` ends what is left."""
    if context.invoked_subcommand is not None:
        return
    from nats3_dagster.dev.stack import Stack

    stack = Stack()
    before = any(stack.running().values())
    try:
        _start(stack)
        view = _addresses(stack)
        if stack_only:
            show_one(output, view, view)
            note("The servers go on running: nats3 finds them by itself. To stop them: nats3 dev stop")
            return
        _serve(stack, port, output)
    finally:
        if not before and not stack_only:
            with step("Stopping the servers"):
                stack.stop()


@app.command()
def status(output: Output = Format.table) -> None:
    """Which of the embedded servers run."""
    from nats3_dagster.dev.stack import Stack

    stack = Stack()
    running = stack.running() | {"dagster": _dagster_of(stack.home) is not None}
    items = [{"server": name, "running": is_running} for name, is_running in running.items()]
    show(output, items, {"SERVER": lambda s: s["server"], "RUNNING": lambda s: s["running"]})


@app.command()
def stop(output: Output = Format.table) -> None:
    """Stop the embedded servers and the Dagster UI. Their data stays."""
    from nats3_dagster.dev.stack import Stack

    stack = Stack()
    ran = [name for name, running in stack.running().items() if running]
    if process := _dagster_of(stack.home):
        process.stop()
        ran.append("dagster")
    stack.stop()
    show_one(output, {"stopped": ran}, {"stopped": ran or "nothing ran"})


app.command()(resync)


def migrate(output: Output = Format.table) -> None:
    """Bring the catalog in Postgres to this release's schema. Running it again changes nothing."""
    from nats3_dagster.catalog import migrate as run
    from nats3_dagster.catalog.schema import VERSION
    from nats3_dagster.settings import Settings

    run(Settings.load().postgres)
    show_one(output, {"schema": VERSION}, {"schema": VERSION})


def demo(
    messages: Annotated[int, typer.Option("--messages", min=1, help="How many log lines to ship.")] = 60_000,
    ui: Annotated[
        bool, typer.Option("--ui", help="Leave the Dagster UI running at the end, until interrupted.")
    ] = False,
    port: Port = 3000,
    output: Output = Format.table,
) -> None:
    """Archive this host's log lines, replay them into another stream, and compare both message by message."""
    from nats3_dagster.defs.instance import dagster_home
    from nats3_dagster.dev.demo import as_json, as_rows, run_demo
    from nats3_dagster.dev.stack import Stack

    # The runs of the demo are then in the UI.
    os.environ["DAGSTER_HOME"] = str(dagster_home())
    with steps() as told:
        result = run_demo(messages, on_step=told)
    show_one(output, as_json(result), dict(as_rows(result)))
    if not result.ok:
        raise Nats3Error(
            f"What came back is not what went in: {result.mismatches} mismatches, {result.replayed} messages "
            f"of {result.messages}",
            "This is a defect: report it with .nats3/nats/server.log",
        )
    if ui:
        sys.stdout.flush()
        _serve(Stack(), port, output)


def _start(stack: "Stack") -> None:
    from nats3_dagster.catalog import migrate as run

    with steps() as tell:
        stack.start(lambda name: tell(f"start {name}", 0, 0))
        tell("migrate the catalog", 0, 0)
        run(stack.endpoints.postgres_url)


def _addresses(stack: "Stack") -> dict[str, Any]:
    """Where it all is, without the secrets: those are in stack.json, for its owner's eyes."""
    at = stack.endpoints
    return {
        "nats": at.nats_url,
        "postgres": f"127.0.0.1:{stack.postgres.port}",
        "s3": at.s3_endpoint,
        "settings": str(stack.file),
    }


def _serve(stack: "Stack", port: int, output: Format) -> None:
    """Run the Dagster UI and its daemon until somebody interrupts us or they end."""
    dagster, address = _start_dagster(stack, port)
    try:
        stack.announce(address)
        view = _addresses(stack) | {"ui": address, "log": str(dagster.log)}
        show_one(output, view, view)
        sys.stdout.flush()
        note(f"The Dagster UI is at {address} - interrupt (Ctrl-C) to stop")
        while dagster.running:
            time.sleep(0.5)
        raise EngineError("Dagster ended", f"See {dagster.log}")
    except KeyboardInterrupt:
        note("Stopping the Dagster UI")
    finally:
        stack.announce(None)
        dagster.stop()


def _start_dagster(stack: "Stack", port: int) -> tuple["Process", str]:
    """Webserver, daemon and code server; when the UI answers. Raises EngineError."""
    from nats3_dagster.defs.instance import dagster_home
    from nats3_dagster.dev.process import HOST, Process, free_port

    home = dagster_home()
    workspace = _workspace(stack.home)
    workspace.write_text(
        "load_from:\n  - python_module: {module_name: nats3_dagster.definitions, location_name: nats3}\n"
    )
    if running := _dagster_of(stack.home):
        running.stop()
    try:
        port = free_port(port)
    except EngineError:
        port = free_port()
    log = stack.home / "logs" / "dagster.log"
    log.parent.mkdir(exist_ok=True)
    environment = (
        os.environ | stack.endpoints.environment | {"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    )
    argv = [sys.executable, "-m", "dagster", "dev", "-w", str(workspace), "-h", HOST, "-p", str(port)]
    with step("Starting the Dagster UI"):
        process = Process.start(argv, _marker(stack.home), log, env=environment, end_signal=signal.SIGINT)
        address = f"http://{HOST}:{port}"
        process.wait_until(lambda: _answers(f"{address}/server_info"), "Dagster", timeout_s=120)
    return process, address


def _dagster_of(home: Path) -> "Process | None":
    from nats3_dagster.dev.process import Process

    return Process.find(_marker(home), end_signal=signal.SIGINT)


def _workspace(home: Path) -> Path:
    return home / "dagster" / "workspace.yaml"


def _marker(home: Path) -> tuple[str, str]:
    """The words of its command line by which Dagster of this folder is known."""
    return "-w", str(_workspace(home))


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  our own http:// address
            return answer.status == 200
    except OSError:
        return False
