"""`nats3 token`: tokens of the HTTP API."""

from typing import Annotated

import typer

from nats3_dagster.api.tokens import new_token
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.installation import Token
from nats3_dagster.settings.token_scopes import Scope, token_setting

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.callback()
def token() -> None:
    """Tokens that clients of the HTTP API send."""


@app.command(epilog="nats3 token create --scope read")
def create(
    scope: Annotated[
        list[Scope] | None,
        typer.Option("--scope", help="What it may do beside reading; repeat it for several. Default: write."),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Print a new token, and the setting for the server. It is stored nowhere.

    Only its SHA-256 is in the settings. The scope erase is for erasures, purges and replays that delete what they
    publish; hold is for placing and ending holds; write is for everything else that changes something. To replace a
    token, put the new one beside the old one, joined by a comma."""
    value, digest = new_token()
    scopes = frozenset({Scope.read, *(scope or [Scope.write])})
    setting = f"NATS3_API_TOKENS={token_setting(digest, scopes)}"
    item = Token(token=value, scopes=[one for one in Scope if one in scopes], setting=setting).plain()
    show_one(output, item, item)
    note("It is not shown again. The client sends the token, the server has the setting.")
