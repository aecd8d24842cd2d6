"""The driver of a bucket, by the store that has it."""

from nats3_dagster.objects.clouds import open_cloud
from nats3_dagster.objects.drivers.cloud_driver import CloudDriver
from nats3_dagster.objects.drivers.driver import Driver
from nats3_dagster.objects.drivers.folder_driver import FolderDriver
from nats3_dagster.objects.drivers.s3_driver import S3Driver
from nats3_dagster.objects.faults import Place
from nats3_dagster.objects.store_options import StoreOptions


def open_driver(options: StoreOptions, where: Place) -> Driver:
    """The driver of the bucket `where`. `options`: of the store that has it. Asks nothing yet. Raises OperatorError
    where the SDK of a cloud is not installed."""
    if options.cloud is not None:
        return CloudDriver(open_cloud(options.cloud, where, options.patience_s), where)
    if options.folder is not None:
        return FolderDriver(options, where, options.folder / where.bucket)
    return S3Driver(options, where)
