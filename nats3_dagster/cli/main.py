"""`nats3`: the command line, put together.

The rule kept here: this module only assembles. `--debug` may stand anywhere, because it is what one adds to a command
that has just failed.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from nats3_dagster import __version__
from nats3_dagster.cli import (
    chunk_commands as chunks,
)
from nats3_dagster.cli import (
    dev_commands as stack,
)
from nats3_dagster.cli import (
    doctor,
    seals,
)
from nats3_dagster.cli import (
    ending as failures,
)
from nats3_dagster.cli import (
    load_commands as loads,
)
from nats3_dagster.cli import (
    store_commands as stores,
)

app = typer.Typer(
    name="nats3",
    help="Long-term memory for NATS JetStream: archives in object storage, and replays.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
DATA, HERE = "Archives and replays", "This installation"
stores.app.command()(seals.seal)
app.add_typer(stores.app, name="store", rich_help_panel=DATA)
app.add_typer(loads.app, name="load", rich_help_panel=DATA)
app.add_typer(chunks.app, name="chunk", rich_help_panel=DATA)
app.command(rich_help_panel=HERE)(doctor.doctor)
app.command(rich_help_panel=HERE)(stack.migrate)
app.command(rich_help_panel=HERE)(stack.demo)
app.add_typer(stack.app, name="dev", rich_help_panel=HERE)


def _version(asked: bool) -> None:
    if asked:
        print(f"nats3 {__version__}")
        raise typer.Exit


@app.callback()
def nats3(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and logs. May stand anywhere.")] = False,
) -> None:
    """What `--help` shows of options that stand before a command; `main` has taken care of them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (`sys.argv` by default); its exit status: 0, 1 (it failed), 2 (usage), 130 (interrupted)."""
    given = list(sys.argv[1:] if argv is None else argv)
    end = given.index("--") if "--" in given else len(given)
    args = [a for a in given[:end] if a != "--debug"] + given[end:]
    command = typer.main.get_command(app)
    return failures.run(
        lambda: command.main(args=args, prog_name="nats3", standalone_mode=False), debug=len(args) < len(given)
    )
