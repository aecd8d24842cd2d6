"""Buckets themselves: whether one is there, making one, and the uploads in it that did not end."""

from contextlib import suppress
from datetime import datetime

from nats3_dagster.errors import ObjectMissing, StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.clouds import open_cloud
from nats3_dagster.objects.sdk_calls import Request, located, send
from nats3_dagster.objects.store_options import StoreOptions


def bucket_exists(options: StoreOptions, name: str) -> bool:
    """True if the bucket exists and these credentials may list it. Raises StoreError for anything but yes and no."""
    options, where = located(options, name)
    if options.folder is not None:
        return (options.folder / name).is_dir()
    if options.cloud is not None:
        return open_cloud(options.cloud, where, options.patience_s).exists()
    try:
        answer = send(options, where, Request.LIST, MaxKeys=1)
    except StoreError as error:
        if error.args == faults.bucket_missing(where).args:
            return False
        raise
    if answer.get("Name") != name:
        raise faults.not_s3(where)
    return True


def create_bucket(options: StoreOptions, name: str) -> bool:
    """Creates the bucket; False if it already exists and belongs to this account. Raises StoreError."""
    options, where = located(options, name)
    if options.folder is not None:
        try:
            (options.folder / name).mkdir(parents=True)
        except FileExistsError:
            return False
        except OSError as error:
            raise faults.system_fault(where, error) from error
        return True
    if options.cloud is not None:
        return open_cloud(options.cloud, where, options.patience_s).create()
    if bucket_exists(options, name):
        return False
    # AWS needs the region in every region but `us-east-1`, which refuses it.
    place = (
        {} if options.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": options.region}}
    )
    try:
        send(options, where, Request.CREATE_BUCKET, **place)
    except StoreError as error:
        # The answer to an earlier try of this request was lost, or another process was first.
        if "BucketAlreadyOwnedByYou" not in error.what:
            raise
    return True


def engines_address(options: StoreOptions, name: str) -> str:
    """The address of a bucket in a cloud as engines read it, without a slash at its end. Raises OperatorError."""
    options, where = located(options, name)
    return open_cloud(options.cloud or "", where, options.patience_s).address()


def unended_uploads(options: StoreOptions, name: str, prefix: str, before: datetime) -> list[tuple[str, str]]:
    """Key and id of the multipart uploads under the prefix that were begun before the moment and have not ended. Raises
    StoreError."""
    options, where = located(options, name)
    if options.folder is not None or options.cloud is not None:  # a cloud ends them by itself
        return []
    found: list[tuple[str, str]] = []
    after: dict[str, str] = {}
    while True:
        answer = send(options, where, Request.LIST_UPLOADS, Prefix=prefix, **after)
        uploads = answer.get("Uploads", ())
        found += [(one["Key"], one["UploadId"]) for one in uploads if one["Initiated"] < before]
        if not answer.get("IsTruncated"):
            return found
        after = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}


def abort_upload(options: StoreOptions, name: str, key: str, upload_id: str) -> None:
    """End a multipart upload without an object; one that has ended meanwhile is as good. Raises StoreError."""
    options, where = located(options, name)
    with suppress(ObjectMissing):
        send(options, where, Request.ABORT_UPLOAD, Key=key, UploadId=upload_id)
