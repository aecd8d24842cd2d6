"""The embedded stack as commands show it: where its servers are, the Dagster UI in the foreground, what to do next.

The stack is an extra, and imported when a command opens it.
"""

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note, remark, step
from nats3_dagster.documents.stack import Addresses, AddressesWithUi
from nats3_dagster.errors import EngineError
from nats3_dagster.settings import Settings
from nats3_dagster.settings.sources import STACK
from nats3_dagster.steps import Next

if TYPE_CHECKING:
    from nats3_dagster.dev.stack import Stack
    from nats3_dagster.dev.supervisor import Supervisor

# How soon a server that ended is noticed.
_WATCH_EVERY_S = 0.5


def open_stack() -> "Stack":
    from nats3_dagster.dev.stack import Stack

    return Stack()


def addresses(stack: "Stack") -> Addresses:
    """Returns the addresses of all servers, without the secrets: those are in stack.json, for its owner's eyes."""
    at = stack.endpoints
    return Addresses(
        nats=at.nats_url,
        nats_monitor=at.nats_monitor_url,
        postgres=_postgres(stack),
        s3=at.s3_endpoint,
        settings=str(stack.file),
    )


def _postgres(stack: "Stack") -> str:
    return f"127.0.0.1:{stack.postgres.port}"


def running(stack: "Stack") -> dict[str, str | None]:
    """Returns the address of each server that runs and answers; None for one that does not."""
    answering, ui = stack.running(), stack.dagster.ui()
    return {
        "nats": stack.nats.url if answering["nats"] else None,
        "postgres": _postgres(stack) if answering["postgres"] else None,
        "s3": stack.s3.endpoint if answering["s3"] else None,
        "spark": stack.connect.address if stack.connect.listens else None,
        "dagster": ui.address if ui else None,
    }


def serve(stack: "Stack", port: int, output: Format | None, *, connect: bool = True) -> bool:
    """Run the Dagster UI and its daemon until an interrupt, or until a command stops the stack; with `connect` Spark
    Connect as well, where it can run. What ends by itself is started again, and named. True after an interrupt; False
    if the servers are left to another command: a Dagster ran already, or the stack was stopped. Without `output`
    nothing goes to stdout. Raises EngineError where something ends again and again."""
    from nats3_dagster.dev.supervisor import Supervisor

    dagster = stack.dagster
    # It starts beside Dagster and is not waited for: what needs it waits.
    owns_spark = connect and dagster.ui() is None and _launch(stack)
    try:
        with step("Starting the Dagster UI"):
            ui = dagster.start(port, stack.environment)
    except BaseException:
        if owns_spark:
            stack.connect.stop()
        raise
    if owns_spark and not ui.is_new:
        stack.connect.stop()  # another `nats3 dev` was sooner
        owns_spark = False
    supervisor = Supervisor(stack, ui)
    try:
        stack.announce(ui.address)
        if output:
            spark = stack.connect.address if stack.connect.find() else None
            view = AddressesWithUi.by_name(addresses(stack), ui=ui.address, log=str(dagster.log), spark=spark).plain()
            show_one(output, view, view)
            sys.stdout.flush()
        if not ui.is_new:
            remark(
                f"Dagster runs already at {ui.address} (pid {ui.pid}), started {ui.started_at:%Y-%m-%d %H:%M:%S} UTC; "
                "stop it with nats3 dev stop"
            )
            return False
        if ui.replaced:
            remark(f"Dagster ran already (pid {ui.replaced}) and did not answer: it was stopped, and this one started")
        note(f"The Dagster UI is at {ui.address} - interrupt (Ctrl-C) to stop")
        _watch(supervisor)
        return False
    except KeyboardInterrupt:
        note("Stopping the Dagster UI")
        return True
    finally:
        if supervisor.ui is not None and supervisor.ui.is_new:
            dagster.stop()
        if owns_spark:
            stack.connect.stop()
        if supervisor.ui is not None and supervisor.ui.is_new and not dagster.find():
            # Otherwise another `nats3 dev` has replaced it.
            stack.announce(None)


def _launch(stack: "Stack") -> bool:
    """Start Spark Connect, unless the settings name a server of the user's; True if it was started here."""
    settings = Settings.load()
    if settings.connect and settings.source("spark_remote") != STACK:
        return False
    try:
        return stack.connect.launch()
    except EngineError as error:
        remark(f"Spark Connect is left out, and each run starts a JVM: {error}")
        return False


def _watch(supervisor: "Supervisor") -> None:
    """Start again what ends. Returns when a command stopped the stack, or another process has started a Dagster."""
    from nats3_dagster.dev.stack import StoppedElsewhere

    supervisor.stack.running()  # those that this process did not start are found by it
    while supervisor.ui is not None and supervisor.ui.is_new:
        time.sleep(_WATCH_EVERY_S)
        try:
            ended = supervisor.restore(lambda ended: note(f"{ended}; starting it again"))
        except StoppedElsewhere:
            note("Another command stopped the servers")
            return
        for server in ended:
            note(f"{server.server} runs again")
    note("Another process started Dagster again: the servers are left to it")


def what_next(stack: "Stack", stream: str, archive: str) -> None:
    """Prints the servers that go on running, the command that stops them, and commands to go on with."""
    titles = {"nats": "NATS", "postgres": "Postgres", "s3": "S3", "spark": "Spark Connect", "dagster": "the Dagster UI"}
    at = running(stack)
    if places := [f"{titles[name]} at {place}" for name, place in at.items() if place]:
        remark(f"Still running: {', '.join(places)}. To stop them: nats3 dev stop")
    commands = {} if at["dagster"] else {"nats3 dev": "the Dagster UI, until you interrupt it"}
    commands |= {
        Next.LIST_CHUNKS(archive=archive).command: "what the archive has",
        f"nats3 store create --name applogs --stream {stream} --bucket archive --create-bucket": "",
    }
    if activate := _activate():
        commands = {activate: "this shell then finds nats3"} | commands
    width = max(len(command) for command, why in commands.items() if why)
    note("What next:")
    for command, why in commands.items():
        note(f"  {command:<{width}}  {why}".rstrip())


def _activate() -> str | None:
    """The command after which a shell finds `nats3`; None where it does, or where there is no virtual environment."""
    script = Path(sys.prefix, "bin", "activate")
    found = shutil.which("nats3")
    if not script.exists() or (found and Path(found).parent == script.parent):
        return None
    return f". {script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script}"
