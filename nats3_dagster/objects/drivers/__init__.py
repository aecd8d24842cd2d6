"""Drivers: a bucket in S3, in a folder, in a cloud. Each is a class with the same methods, and `open_driver` chooses it
once."""

from nats3_dagster.objects.drivers.driver import Driver
from nats3_dagster.objects.drivers.open_driver import open_driver

__all__ = ["Driver", "open_driver"]
