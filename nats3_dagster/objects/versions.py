"""The versions of objects: what a bucket keeps of objects that were replaced or deleted.

Invariant: a listing is whole or an error. A refusal is never an answer of no versions. Only a store that does not know
the request at all, or a folder, has no versions: there each object is one, without an id.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from nats3_dagster.errors import AccessRefused, NotOffered, StoreError
from nats3_dagster.objects.answers import ObjectVersion
from nats3_dagster.objects.bucket import Bucket
from nats3_dagster.objects.clouds import open_cloud
from nats3_dagster.objects.foreign_keys import folder_prefix
from nats3_dagster.objects.sdk_calls import Request, located, send
from nats3_dagster.objects.store_options import StoreOptions

PAGE = 1000  # S3's own limit


def list_versions(store: StoreOptions, bucket: str, prefix: str) -> Iterator[ObjectVersion]:
    """All versions and delete markers of the objects under `prefix` (whole parts of a path), page by page. In a store
    without versions: its objects. Raises StoreError, AccessRefused where these credentials may not list versions."""
    options, where = located(store, bucket)
    if options.folder is not None:
        yield from _objects(store, bucket, prefix)
        return
    folder = folder_prefix(prefix)
    if options.cloud is not None:
        versions = open_cloud(options.cloud, where, options.patience_s).versions(prefix)
        yield from (one for one in versions if one.key == prefix or one.key.startswith(folder))
        return
    after: dict[str, str] = {}
    before = set[ObjectVersion]()
    while True:
        try:
            answer = send(options, where, Request.LIST_VERSIONS, Prefix=prefix, MaxKeys=PAGE, **after)
        except NotOffered:
            if after:
                raise
            yield from _objects(store, bucket, prefix)
            return
        page = [one for one in _versions(answer) if one not in before]  # some stores begin a page with the one before
        yield from (one for one in page if one.key == prefix or one.key.startswith(folder))
        before = {*page}
        if not answer.get("IsTruncated"):
            return
        next_page = {
            name: answer[f"Next{name}"] for name in ("KeyMarker", "VersionIdMarker") if answer.get(f"Next{name}")
        }
        if not next_page or next_page == after:
            raise StoreError(f"{where.place} does not go on with its list of versions", "Look at the store's own log")
        after = next_page


def get_version(store: StoreOptions, bucket: str, key: str, version_id: str | None) -> bytes:
    """The bytes of a version. Raises ObjectMissing, StoreError, AccessRefused."""
    options, where = located(store, bucket)
    if version_id is None:
        return bytes(Bucket(store, bucket).get(key))
    if options.cloud is not None:
        return open_cloud(options.cloud, where, options.patience_s).get(key, version_id)
    return send(options, where, Request.GET_VERSION, Key=key, VersionId=version_id)["Body"]


def delete_version(store: StoreOptions, bucket: str, key: str, version_id: str | None) -> None:
    """Delete a version or a delete marker for good; one that is not there is as good as deleted. Raises StoreError,
    AccessRefused where these credentials or Object Lock keep it."""
    options, where = located(store, bucket)
    if version_id is None:
        Bucket(store, bucket).delete(key)
    elif options.cloud is not None:
        open_cloud(options.cloud, where, options.patience_s).delete_version(key, version_id)
    else:
        send(options, where, Request.DELETE_VERSION, Key=key, VersionId=version_id)


def locked_until(store: StoreOptions, bucket: str, key: str, version_id: str) -> datetime | None:
    """Returns the time until which Object Lock, a retention policy or soft delete keeps a version, UTC; None if nothing
    says so: there is none, or these credentials may not ask."""
    options, where = located(store, bucket)
    try:
        if options.cloud is not None:
            return open_cloud(options.cloud, where, options.patience_s).locked_until(key, version_id)
        answer = send(options, where, Request.GET_RETENTION, Key=key, VersionId=version_id)
    except StoreError:
        return None
    return answer.get("Retention", {}).get("RetainUntilDate")


def delete_versions(store: StoreOptions, bucket: str, prefix: str) -> None:
    """Delete all versions and delete markers under `prefix` (whole parts of a path). One that the store keeps does not
    stop the others. Raises AccessRefused for these at the end, StoreError."""
    refusal: AccessRefused | None = None
    for one in list(list_versions(store, bucket, prefix)):
        try:
            # One by one: stores differ in the checksum that they want with a list.
            delete_version(store, bucket, one.key, one.version_id)
        except AccessRefused as error:
            refusal = refusal or error
    if refusal:
        raise refusal


def _objects(store: StoreOptions, bucket: str, prefix: str) -> Iterator[ObjectVersion]:
    for key, size in Bucket(store, bucket).list(prefix):
        yield ObjectVersion(key, None, False, size)


def _versions(answer: Any) -> Iterator[ObjectVersion]:
    for one in answer.get("Versions", ()):
        yield ObjectVersion(one["Key"], one.get("VersionId", "null"), False, one.get("Size", 0))
    for one in answer.get("DeleteMarkers", ()):
        yield ObjectVersion(one["Key"], one.get("VersionId", "null"), True, 0)
