"""Reloading the code locations of a running Dagster when an archive is created or deleted.

What a reload does (Dagster 1.13): the webserver asks the code server (`dagster code-server start`, which `dagster dev`
uses too) to start its code again. The daemon asks that server once a second who it is, and loads the definitions when
the answer changed. Where webserver and daemon load the module each by itself (`python_module` in workspace.yaml) a
reload reaches the webserver only; the daemon reloads all its locations every 60 s.
"""

from dataclasses import dataclass

from nats3_dagster.runs.webserver import FAILURES, TIMEOUT_S, brief, locations, reload


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload."""

    # Names of the code locations with our definitions.
    names: tuple[str, ...] = ()
    # Those of them that did not load, each with the reason: `name: reason`.
    refused: tuple[str, ...] = ()
    # Why the webserver could not be asked for all of them; empty if it could.
    failure: str = ""


def reload_locations(url: str, timeout_s: float = TIMEOUT_S) -> Reloaded:
    """Makes the webserver at this address reload each code location with nats3's definitions. `timeout_s`: for each of
    its answers."""
    try:
        names = tuple(locations(url, timeout_s))
        return Reloaded(names, tuple(f"{name}: {why}" for name in names if (why := reload(url, name, timeout_s))))
    except FAILURES as error:
        return Reloaded(failure=brief(error))
