"""Object storage: the only place that speaks it.

Invariant: objects of a bucket are written once, whole, and never changed; files of an outlet are replaced whole.
Nothing here knows what is in them.
"""

from nats3_dagster.objects.answers import ObjectInfo, ObjectVersion
from nats3_dagster.objects.bucket import Bucket
from nats3_dagster.objects.buckets import abort_upload, bucket_exists, create_bucket, engines_address, unended_uploads
from nats3_dagster.objects.identity import identity, profile_place, static_keys
from nats3_dagster.objects.outlet import Outlet, OutletOptions
from nats3_dagster.objects.owner_object import OwnerObject
from nats3_dagster.objects.store_options import StoreOptions
from nats3_dagster.objects.versions import (
    delete_version,
    delete_versions,
    get_version,
    list_versions,
    locked_until,
)

__all__ = [
    "Bucket",
    "ObjectInfo",
    "ObjectVersion",
    "Outlet",
    "OutletOptions",
    "OwnerObject",
    "StoreOptions",
    "abort_upload",
    "bucket_exists",
    "create_bucket",
    "delete_version",
    "delete_versions",
    "engines_address",
    "get_version",
    "identity",
    "list_versions",
    "locked_until",
    "profile_place",
    "static_keys",
    "unended_uploads",
]
