"""`nats3 token`: tokens of the HTTP API."""

from typing import Annotated

import typer

from nats3_dagster.api.tokens import new_token
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.installation import Token

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.callback()
def token() -> None:
    """Tokens that clients of the HTTP API send."""


@app.command()
def create(
    read: Annotated[bool, typer.Option("--read", help="Create a read token.")] = False, output: Output = Format.table
) -> None:
    """Print a new token, and the setting for the server. It is stored nowhere.

    Only its SHA-256 is in the settings. To replace a token, put the new one beside the old one, joined by a comma."""
    value, digest = new_token()
    setting = f"NATS3_API_{'READ_' if read else ''}TOKENS={digest}"
    item = Token(token=value, access="read" if read else "write", setting=setting).plain()
    show_one(output, item, item)
    note("It is not shown again. The client sends the token, the server has the setting.")
