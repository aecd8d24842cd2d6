"""Options that choose streams of an account by their names, and the rule, as commands share them."""

from typing import Annotated

import typer

RuleName = Annotated[str, typer.Argument(metavar="RULE", help="Name of the rule.")]
Match = Annotated[
    list[str] | None,
    typer.Option("--match", metavar="PATTERN", help="Only streams whose names this pattern takes. Repeatable."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="PATTERN", help="Leave out streams that this pattern takes. Repeatable."),
]
