"""Object storage: the only place that speaks it.

Invariant: objects are written once, whole, and never changed. Nothing here knows what is in them.
"""

from nats3_dagster.objects.bucket import Bucket, ObjectInfo
from nats3_dagster.objects.buckets import bucket_exists, create_bucket
from nats3_dagster.objects.identity import identity, profile_place
from nats3_dagster.objects.store_options import StoreOptions

__all__ = ["Bucket", "ObjectInfo", "StoreOptions", "bucket_exists", "create_bucket", "identity", "profile_place"]
