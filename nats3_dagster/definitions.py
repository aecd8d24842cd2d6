"""The definitions that Dagster loads: `dagster ... -m nats3_dagster.definitions`."""

from nats3_dagster.defs.project.project import load

defs = load()
