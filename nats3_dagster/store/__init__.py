"""Object storage: the only place that speaks it.

The rule kept here: objects are written once, whole, and never changed. The store knows nothing of what they hold.
"""

from nats3_dagster.store.admin import bucket_exists, create_bucket
from nats3_dagster.store.bucket import Bucket, ObjectInfo
from nats3_dagster.store.options import StoreOptions

__all__ = ["Bucket", "ObjectInfo", "StoreOptions", "bucket_exists", "create_bucket"]
