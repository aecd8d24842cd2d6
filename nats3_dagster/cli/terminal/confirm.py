"""Confirming what cannot be undone: asked on a terminal, refused without one, and not asked with `--yes`."""

import sys
from typing import Annotated

import typer

from nats3_dagster.cli.terminal.progress import printable_lines
from nats3_dagster.errors import OperatorError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(what: str, yes: bool) -> None:
    """`what` says what will be gone, without a full stop. Raises OperatorError unless it is confirmed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise OperatorError(f"{what}. There is no terminal to confirm this on", "Add --yes")
    if not typer.confirm(printable_lines(f"{what}. Go on?"), err=True):
        raise OperatorError("It was not confirmed: nothing was changed")
