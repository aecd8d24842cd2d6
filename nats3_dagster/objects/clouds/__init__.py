"""Google Cloud Storage and Azure Blob Storage, each by its own SDK: one class for each, with the same methods.

Invariant: a method answers with the cloud's yes or raises StoreError. No text of an SDK is passed on but the cloud's
own error code.
"""

from nats3_dagster.objects.clouds.cloud_bucket import CloudBucket
from nats3_dagster.objects.clouds.open_cloud import open_cloud

__all__ = ["CloudBucket", "open_cloud"]
