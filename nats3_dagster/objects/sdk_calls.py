"""Requests that obstore does not make, sent by the AWS SDK: about buckets, versions, and uploads that did not end.

Invariant: an answer is the store's yes. A refusal, a store without the request and silence are each an error of their
own.
"""

import re
from contextlib import closing
from enum import Enum, unique
from typing import Any, Final

from nats3_dagster.errors import StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.identity import not_logged_in, sdk_client
from nats3_dagster.objects.retries import Passing, again, of_code
from nats3_dagster.objects.store_options import StoreOptions

# HTTP status codes of a store that is busy or ails; 501 is none of them.
_BUSY: Final = {429, 500, 502, 503, 504}


@unique
class Request(Enum):
    """A request by S3's name, what it does, the grant that it needs, and the root of its answer where that is XML."""

    LIST = "ListObjectsV2", "list the objects in the bucket {bucket!r}", "s3:ListBucket", "ListBucketResult"
    CREATE_BUCKET = "CreateBucket", "create the bucket {bucket!r}", "s3:CreateBucket"
    LIST_VERSIONS = (
        "ListObjectVersions",
        "list the versions in the bucket {bucket!r}",
        "s3:ListBucketVersions",
        "ListVersionsResult",
    )
    GET_VERSION = "GetObject", "read a version in the bucket {bucket!r}", "s3:GetObjectVersion"
    DELETE_VERSION = (
        "DeleteObject",
        "delete a version in the bucket {bucket!r}",
        "s3:DeleteObjectVersion; what Object Lock or a retention policy keeps goes after its time",
    )
    GET_RETENTION = "GetObjectRetention", "ask how long Object Lock keeps a version", "s3:GetObjectRetention"
    LIST_UPLOADS = (
        "ListMultipartUploads",
        "list the uploads in the bucket {bucket!r} that did not end",
        "s3:ListBucketMultipartUploads",
        "ListMultipartUploadsResult",
    )
    ABORT_UPLOAD = "AbortMultipartUpload", "end an upload in the bucket {bucket!r}", "s3:AbortMultipartUpload"

    def __init__(self, operation: str, does: str, grant: str, root: str = "") -> None:
        self.operation = operation
        self.root = root
        self.asked = faults.Asked(f"the request {operation}", does, f"Grant {grant}")


def located(options: StoreOptions, name: str) -> tuple[StoreOptions, faults.Place]:
    """The store that has the bucket, and the bucket's name for people."""
    there = options.of(name)
    return there, faults.Place(there.place, name)


def send(options: StoreOptions, where: faults.Place, request: Request, **arguments: Any) -> Any:
    """The answer of the SDK to a request about the bucket `where`. Raises StoreError, AccessRefused where the store
    refuses it and NotOffered where it does not know it, and OperatorError where there is no such profile."""
    from botocore import xform_name
    from botocore.config import Config
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,
        CredentialRetrievalError,
        HTTPClientError,
        IncompleteReadError,
        NoCredentialsError,
        ParamValidationError,
        SSLError,
    )
    from botocore.parsers import ResponseParserError

    config = Config(
        connect_timeout=options.patience_s * 0.4,
        read_timeout=options.patience_s * 0.6,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": "path"} if options.endpoint else {},
    )

    silent = (ConnectionError, HTTPClientError, IncompleteReadError)

    def passing(error: Any) -> Passing:
        if not isinstance(error, ClientError):
            return Passing.NEVER if isinstance(error, SSLError) else Passing.LONG
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in _BUSY:
            return Passing.LONG
        return of_code(error.response.get("Error", {}).get("Code", ""))

    try:
        with closing(sdk_client(options, config)) as client:
            client.meta.events.register("before-parse.s3.*", _note_root)
            operation = getattr(client, xform_name(request.operation))

            def ask() -> Any:
                answer = operation(Bucket=where.bucket, **arguments)
                if body := answer.get("Body"):
                    answer["Body"] = body.read()
                return answer

            answer = again(ask, options.patience_s, kinds=(ClientError, *silent), passing=passing)
        if request.root and answer["Root"] != request.root:
            raise _answer_of_another(where, request, answer["Root"])
        return answer
    except ClientError as error:
        fault = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if fault.get("Code") in ("NoSuchKey", "NoSuchVersion", "NoSuchUpload") and "Key" in arguments:
            raise faults.object_missing(where, arguments["Key"]) from error
        raise faults.refused(where, fault.get("Code", ""), status, fault.get("Message", ""), request.asked) from error
    except NoCredentialsError as error:
        raise faults.refused(where, "NoCredentials", 0, "") from error
    except ParamValidationError as error:
        raise faults.refused(where, "InvalidBucketName", 0, "") from error
    except ResponseParserError as error:
        raise faults.not_s3(where) from error
    except SSLError as error:
        raise faults.explain(where, "certificate") from error
    except silent as error:
        raise faults.unreachable(where, "no answer") from error
    except (CredentialRetrievalError, ValueError, OSError) as error:
        raise not_logged_in(error) from error
    except BotoCoreError as error:
        raise StoreError(f"{where.place} cannot be asked: {type(error).__name__}", "Look at the S3 settings") from error


def _note_root(response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
    """Adds the name of the root element of the answer. The SDK itself takes any root."""
    body = response_dict["body"]
    found = re.match(rb"\s*(?:<\?[^>]*>\s*)?<(?:\w+:)?(\w+)", body) if isinstance(body, bytes) else None
    customized_response_dict["Root"] = found[1].decode() if found else ""


def _answer_of_another(where: faults.Place, request: Request, root: str) -> StoreError:
    """The error for a store that ignores what it does not know of a request, and lists its objects; or that is a web
    server with a page for every address."""
    is_listing = root in {one.root for one in Request if one.root}
    return faults.refused(where, "NotImplemented", 501, "", request.asked) if is_listing else faults.not_s3(where)
