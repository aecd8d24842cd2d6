"""What a code server loads in tests: the project's definitions, with all sensors asked every 10 s."""

from nats3_dagster.defs import catalog_sensor, sensors

sensors.CAPTURE_INTERVAL_S = sensors.SEAL_INTERVAL_S = catalog_sensor.INTERVAL_S = 10

from nats3_dagster.definitions import defs as defs  # noqa: E402  # after the intervals are set
