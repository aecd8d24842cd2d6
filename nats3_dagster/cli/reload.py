"""Messages about the reload of Dagster, after a command has created or deleted an archive.

The command has done its work by then and succeeds, whether Dagster answers or not; the sentence says what is left to
do.
"""

from nats3_dagster.runs.reload import reload_locations
from nats3_dagster.settings import Settings

BY_HAND = "reload the code location in the Dagster UI (Deployment, Reload)"


def reload_dagster(settings: Settings) -> str:
    """Have the webserver that NATS3_DAGSTER_URL names load each of our code locations; a sentence about the outcome."""
    if not settings.dagster_url:
        return f"If Dagster runs, {BY_HAND}; with NATS3_DAGSTER_URL set, this command does it"
    done = reload_locations(settings.dagster_url)
    if done.failure:
        return f"The Dagster at NATS3_DAGSTER_URL did not reload ({done.failure}); {BY_HAND}"
    if not done.names:
        return "The Dagster at NATS3_DAGSTER_URL has no code location of nats3: add nats3_dagster.definitions to it"
    if done.refused:
        return f"Dagster did not load {'; '.join(done.refused)}; {BY_HAND}"
    return f"Dagster reloaded {', '.join(done.names)}; its daemon follows within a minute"
