"""`nats3 dagster`: the user's own Dagster instance."""

import typer

from nats3_dagster.archive.health.dagster_health import lines
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.defs.instance.instance import instance_state

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)


@app.callback()
def dagster() -> None:
    """Dagster: what your own instance needs for archives."""


@app.command()
def instance() -> None:
    """Print the lines to add to the dagster.yaml of your instance. Pools and jobs of others stay as they are.

    Looks at the instance that DAGSTER_HOME names. Without one it prints all lines."""
    print(lines(instance_state()))
