"""The Dagster instance: the folder that DAGSTER_HOME names, and the dagster.yaml in it.

Invariant: the file holds names of environment variables and no value of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from nats3_dagster.archive.health.dagster_health import AREA, InstanceState, check
from nats3_dagster.archive.health.finding import Finding, findings
from nats3_dagster.errors import DagsterError, Nats3Error
from nats3_dagster.redaction import brief
from nats3_dagster.settings import home
from nats3_dagster.settings.private import make_folder


def dagster_home() -> Path:
    """`.nats3/dagster` (NATS3_HOME) with this release's dagster.yaml: set DAGSTER_HOME to it for webserver, daemon and
    runs. Where Postgres is, NATS3_POSTGRES_URL says: set that for them as well."""
    folder = home() / "dagster"
    make_folder(folder)
    text = instance_file().read_text()
    target = folder / "dagster.yaml"
    if not target.exists() or target.read_text() != text:
        new = folder / f".dagster.yaml.{id(text)}"
        new.write_text(text)
        new.replace(target)
    return folder


def instance_file() -> Path:
    """The project's dagster.yaml: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).parents[2]
    return next(f for f in (package.parent / "dagster.yaml", package / "_dagster.yaml") if f.exists())


def examine() -> Iterator[Finding]:
    """Yields the findings about the user's instance; one line where no instance is found."""
    try:
        state = instance_state()
    except Nats3Error as error:
        yield Finding("fail", AREA, error.what, error.hint)
        return
    if state is None:
        yield Finding("ok", AREA, "DAGSTER_HOME is not set here: no Dagster instance was looked at")
    else:
        yield from check(state)
        yield from findings(AREA, _check_definitions)


def _check_definitions() -> Iterator[Finding]:
    """An archive whose definitions cannot be made is a finding. What keeps the catalog from being read is one
    elsewhere."""
    from nats3_dagster.defs.project.project import undefined_archives

    try:
        undefined = undefined_archives()
    except Nats3Error:
        return
    for error in undefined:
        yield Finding("fail", AREA, error.what, error.hint)


def instance_state() -> InstanceState | None:
    """The instance that DAGSTER_HOME names, or else that of `nats3 dev`; None if there is none. Raises DagsterError if
    it cannot be read."""
    folder = Path(os.environ.get("DAGSTER_HOME") or home() / "dagster")
    if not (folder / "dagster.yaml").exists() and "DAGSTER_HOME" not in os.environ:
        return None
    from dagster import DagsterInstance, DefaultRunLauncher

    try:
        with DagsterInstance.from_config(str(folder)) as instance:
            config = instance.get_concurrency_config()
            limits = instance.event_log_storage.get_pool_limits()
            return InstanceState(
                str(folder),
                config.run_queue_config is not None,
                {one.name: one.limit for one in limits if not one.from_default},
                config.pool_config.default_pool_limit,
                instance.run_monitoring_enabled,
                type(instance.run_launcher) is not DefaultRunLauncher,
                instance.run_retries_max_retries if instance.run_retries_enabled else 0,
            )
    except Exception as error:  # of its storage, which may be any
        raise DagsterError(
            f"The Dagster instance of {folder} cannot be read: {brief(error)}",
            "Run it where Dagster's processes run, with their environment",
        ) from None
