"""Reloading the code location of a running Dagster when an archive is created or deleted.

The command has done its work by then and succeeds, whether Dagster answers or not; the sentence says what is left to
do.

What a reload does (Dagster 1.13): the webserver asks the code server (`dagster code-server start`, which `dagster dev`
uses too) to start its code again. The daemon asks that server once a second who it is, and loads the definitions when
the answer changed. Where webserver and daemon load the module each by itself (`python_module` in workspace.yaml) a
reload reaches the webserver only; the daemon reloads all its locations every 60 s.
"""

from nats3_dagster.runs.webserver import FAILURES, brief, locations, reload
from nats3_dagster.settings import Settings

BY_HAND = "reload the code location in the Dagster UI (Deployment, Reload)"


def reload_dagster(settings: Settings) -> str:
    """Have the webserver that NATS3_DAGSTER_URL names load each of our code locations; a sentence about the outcome."""
    if not settings.dagster_url:
        return f"If Dagster runs, {BY_HAND}; with NATS3_DAGSTER_URL set, this command does it"
    try:
        names = list(locations(settings.dagster_url))
        if not names:
            return "The Dagster at NATS3_DAGSTER_URL has no code location of nats3: add nats3_dagster.definitions to it"
        refused = [f"{name}: {why}" for name in names if (why := reload(settings.dagster_url, name))]
    except FAILURES as error:
        return f"The Dagster at NATS3_DAGSTER_URL did not reload ({brief(error)}); {BY_HAND}"
    if refused:
        return f"Dagster did not load {'; '.join(refused)}; {BY_HAND}"
    return f"Dagster reloaded {', '.join(names)}; its daemon follows within a minute"
