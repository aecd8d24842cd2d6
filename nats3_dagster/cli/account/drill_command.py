"""`nats3 account drill`: a restore of archived messages into a server of our own, to know that it works."""

from typing import Annotated

import typer

from nats3_dagster.archive.account_restore.drill import DrillSpec
from nats3_dagster.archive.account_restore.drill import drill as drill_account
from nats3_dagster.cli.account.streams_options import Exclude, Match, RuleName
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, Prose, counted, show, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.account_restores import AccountDrill
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

_COLUMNS: Columns = {
    "ARCHIVE": lambda a: a["archive"],
    "MESSAGES": lambda a: a["messages"],
    "LIVE": lambda a: a["live"],
    "SECONDS": lambda a: a["seconds"],
    "RPO S": lambda a: a["rpo_s"],
    "ERROR": lambda a: Prose(a["error"]) if a["error"] else None,
}


def drill(
    name: RuleName,
    match: Match = None,
    exclude: Exclude = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Restore all messages, and not only those of each stream's newest hour.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Restore the newest hour of each archive into a nats-server of its own, and compare each message.

    It is compared with the archive, and with the live stream where that still has it. The server runs on loopback, in a
    folder of NATS3_HOME, and ends with the command. Time and result are kept: the archive shows them, and metrics have
    them."""
    # It imports psutil, which is of an extra.
    from nats3_dagster.dev.own_server import drill_server

    settings = Settings.load()
    spec = DrillSpec(name, tuple(match or ("*",)), tuple(exclude or ()), whole)
    with (
        Workspace(settings) as workspace,
        drill_server(settings, workspace.catalog.accounts.get(name).name) as server,
        Workspace(server.settings) as own,
    ):
        view = AccountDrill.of(name, drill_account(workspace, own, spec), WORDS).plain()
    lines = {"rule": view["rule"], "messages": view["messages"], "seconds": view["seconds"], "failed": view["failed"]}
    show_one(output, view, lines)
    if output is Format.table:
        show(output, view["archives"], _COLUMNS)
    if view["failed"]:
        note(f"{counted(view['failed'], 'archive')} would not come back as it should")
        raise typer.Exit(1)
