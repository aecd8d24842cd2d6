"""Buckets themselves: whether one is there, making one, and removing the versions that it keeps."""

from contextlib import closing
from datetime import datetime
from typing import Any

from nats3_dagster.errors import StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.identity import sdk_client
from nats3_dagster.objects.store_options import StoreOptions


def bucket_exists(options: StoreOptions, name: str) -> bool:
    """True if the bucket exists and these credentials may list it. Raises StoreError for anything but yes and no."""
    options, where = _located(options, name)
    if options.folder is not None:
        return (options.folder / name).is_dir()
    answer = _call(options, where, "list_objects_v2", Bucket=name, MaxKeys=1)
    if isinstance(answer, StoreError):
        if answer.args == faults.bucket_missing(where).args:
            return False
        raise answer
    if answer.get("Name") != name:  # a web server that answers 200 to everything
        raise faults.not_s3(where)
    return True


def create_bucket(options: StoreOptions, name: str) -> bool:
    """Creates the bucket; False if it already exists and belongs to this account. Raises StoreError."""
    options, where = _located(options, name)
    if options.folder is not None:
        try:
            (options.folder / name).mkdir(parents=True)
        except FileExistsError:
            return False
        except OSError as error:
            raise faults.system_fault(where, error) from error
        return True
    if bucket_exists(options, name):
        return False
    # AWS needs the region in every region but `us-east-1`, which refuses it.
    place = (
        {} if options.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": options.region}}
    )
    answer = _call(options, where, "create_bucket", Bucket=name, **place)
    if isinstance(answer, StoreError):
        raise answer
    return True


def delete_versions(options: StoreOptions, name: str, prefix: str) -> int:
    """Delete all versions and delete markers under the prefix for good; the number of those that stay, because these
    credentials or the store do not delete versions. Raises OperatorError where there is no such profile."""
    options, where = _located(options, name)
    if options.folder is not None:
        return 0
    answer = _call(options, where, "list_object_versions", Bucket=name, Prefix=prefix)
    if isinstance(answer, StoreError):  # a store without versions, or credentials that may not list them
        return 0
    versions = [*answer.get("Versions", ()), *answer.get("DeleteMarkers", ())]
    for done, version in enumerate(versions):
        # One by one: stores differ in the checksum that they want with a list.
        given = {"Bucket": name, "Key": version["Key"], "VersionId": version["VersionId"]}
        if isinstance(_call(options, where, "delete_object", **given), StoreError):
            return len(versions) - done
    return 0


def unended_uploads(options: StoreOptions, name: str, prefix: str, before: datetime) -> list[tuple[str, str]]:
    """Key and id of the multipart uploads under the prefix that were begun before the moment and have not ended. Raises
    StoreError."""
    options, where = _located(options, name)
    if options.folder is not None:
        return []
    found: list[tuple[str, str]] = []
    after: dict[str, str] = {}
    while True:
        answer = _call(options, where, "list_multipart_uploads", Bucket=name, Prefix=prefix, **after)
        if isinstance(answer, StoreError):
            raise answer
        uploads = answer.get("Uploads", ())
        found += [(one["Key"], one["UploadId"]) for one in uploads if one["Initiated"] < before]
        if not answer.get("IsTruncated"):
            return found
        after = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}


def abort_upload(options: StoreOptions, name: str, key: str, upload_id: str) -> None:
    """End a multipart upload without an object. Raises StoreError."""
    options, where = _located(options, name)
    answer = _call(options, where, "abort_multipart_upload", Bucket=name, Key=key, UploadId=upload_id)
    if isinstance(answer, StoreError):
        raise answer


def _located(options: StoreOptions, name: str) -> tuple[StoreOptions, faults.Place]:
    """The store that has the bucket, and the bucket's name for people."""
    there = options.of(name)
    return there, faults.Place(there.place, name)


def _call(options: StoreOptions, where: faults.Place, operation: str, **arguments: Any) -> Any:
    """The answer of the SDK, or the StoreError for its failure. Raises OperatorError where there is no such profile."""
    from botocore.config import Config
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        EndpointConnectionError,
        HTTPClientError,
        NoCredentialsError,
        ParamValidationError,
        SSLError,
    )
    from botocore.parsers import ResponseParserError

    try:
        config = Config(
            connect_timeout=options.patience_s * 0.4,
            read_timeout=options.patience_s * 0.6,
            retries={"total_max_attempts": 2, "mode": "standard"},
            s3={"addressing_style": "path"} if options.endpoint else {},
        )
        with closing(sdk_client(options, config)) as client:
            return getattr(client, operation)(**arguments)
    except ClientError as error:
        fault = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return faults.refused(where, fault.get("Code", ""), status, fault.get("Message", ""))
    except NoCredentialsError:
        return faults.refused(where, "NoCredentials", 0, "")
    except ParamValidationError:
        return faults.refused(where, "InvalidBucketName", 0, "")
    except ResponseParserError:
        return faults.not_s3(where)
    except SSLError:
        return faults.explain(where, "certificate")
    except (EndpointConnectionError, HTTPClientError):
        return faults.unreachable(where, "no answer")
    except BotoCoreError as error:
        return StoreError(f"{where.place} cannot be asked: {type(error).__name__}", "Look at the S3 settings")
