"""A Dagster project that has archives of NATS streams among its assets."""
