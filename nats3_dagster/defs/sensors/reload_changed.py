"""Reloading the code location when the catalog has other archives than Dagster has loaded.

Who creates or deletes an archive asks the webserver for a reload, and that request may be lost: the webserver was away
or had not loaded the location itself. Nothing would capture the archive then, and nothing would say so.
"""

from collections.abc import Mapping

from nats3_dagster.runs.reload import reload_locations
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Seconds that a tick waits for each of two answers of the webserver, which goes on without it. Dagster ends a tick
# after 60 s, and the tables of Iceberg may take 25 of them.
PATIENCE_S = 10.0
# Names in the sentence.
_SHOWN = 5


def reload_changed(settings: Settings, workspace: Workspace, loaded: Mapping[str, int]) -> str:
    """Has the webserver at NATS3_DAGSTER_URL reload our code locations if archives were created or deleted since they
    were loaded. `loaded`: name and id of each archive at that time. Returns a sentence; an empty one if nothing
    changed. Raises CatalogError."""
    present = {version.name: version.id for version in workspace.catalog.archives.versions()}
    changed = sorted(name for name in present.keys() | loaded.keys() if present.get(name) != loaded.get(name))
    if not changed:
        return ""
    names = ", ".join(changed[:_SHOWN]) + (f" and {len(changed) - _SHOWN:,} more" if len(changed) > _SHOWN else "")
    what = f"Created or deleted since Dagster loaded the archives: {names}"
    if not settings.dagster_url:
        return f"{what}. Reload the code location; with NATS3_DAGSTER_URL set, this sensor does it"
    done = reload_locations(settings.dagster_url, PATIENCE_S)
    problem = done.failure or "; ".join(done.refused) or ("" if done.names else "it has not loaded them itself")
    if problem:
        return f"{what}. The Dagster at NATS3_DAGSTER_URL did not reload ({problem}); the next tick asks it again"
    return f"{what}. Dagster reloads {', '.join(done.names)}"
