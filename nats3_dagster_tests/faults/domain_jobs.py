"""What processes of the domain's faults do: they serve the archives for a while."""

import time

from nats3_dagster.nats.serve import DomainServer
from nats3_dagster.settings import Settings


def serve(domain: str, seconds: float) -> None:
    """Serve the domain for this time."""
    with DomainServer(Settings.load(), domain):
        time.sleep(seconds)
