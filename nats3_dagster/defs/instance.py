"""The Dagster instance: the folder that DAGSTER_HOME names, and the dagster.yaml in it.

Invariant: the file holds names of environment variables and no value of them.
"""

from pathlib import Path

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
    package = Path(__file__).parent.parent
    return next(f for f in (package.parent / "dagster.yaml", package / "_dagster.yaml") if f.exists())
