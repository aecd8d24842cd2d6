"""What a code server loads in tests: the project's definitions, their sensors every 2 s instead of every 20 and 30."""

from nats3_dagster.defs import seals, sensors

sensors.INTERVAL_S = seals.INTERVAL_S = 2

from nats3_dagster.definitions import defs as defs  # noqa: E402  # after the intervals are set
