"""A bucket of a cloud, by the scheme of its name. The SDK is imported with the first one: that takes half a second."""

from nats3_dagster.objects.clouds import refusals
from nats3_dagster.objects.clouds.cloud_bucket import CloudBucket
from nats3_dagster.objects.faults import Place


def open_cloud(scheme: str, where: Place, patience_s: float) -> CloudBucket:
    """The bucket `where`, whose name begins with `gs://` or `az://`. Asks nothing yet. Raises OperatorError where the
    cloud's SDK is not installed."""
    try:
        if scheme == "gs":
            from nats3_dagster.objects.clouds.google_bucket import GoogleBucket

            return GoogleBucket(where, patience_s)
        from nats3_dagster.objects.clouds.azure_bucket import AzureBucket

        return AzureBucket(where, patience_s)
    except ModuleNotFoundError as error:
        words = refusals.GOOGLE if scheme == "gs" else refusals.AZURE
        raise refusals.not_installed(where, words) from error
