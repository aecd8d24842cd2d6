"""Settings: where NATS, Postgres and the store are, how to log in, and where each value came from.

Invariant: nothing else reads the environment or nats3.toml for these.
"""

from nats3_dagster.settings.home import home
from nats3_dagster.settings.settings import Settings

__all__ = ["Settings", "home"]
