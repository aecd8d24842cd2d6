"""Faults of a store as StoreError: one line, with the next step.

Invariant: nothing of a library's text is passed on but S3's own error code and message. The rest may hold signatures,
addresses with a password, and forty lines of Rust.
"""

import errno
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from obstore.exceptions import BaseError, InvalidPathError

from nats3_dagster.errors import AccessRefused, BucketRefused, ChunkError, NotOffered, ObjectMissing, StoreError
from nats3_dagster.model.archive_spec import archive_folder
from nats3_dagster.redaction import redacted
from nats3_dagster.steps import Next, Step

_KEYS = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a pair that this store knows"
_GRANTS = "Grant s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket on the bucket"
_NOT_S3 = "Set AWS_ENDPOINT_URL_S3 to the address of the S3 API (not of a web console)"
_ROOM: Final = "Make room, then try again; what was captured before is safe"
# S3's error codes, as what and hint.
_CODES: Final[Mapping[str, tuple[str, str | Step]]] = {
    "NoSuchBucket": (
        "The bucket {bucket!r} does not exist in {place}",
        "Create it there, or name the store that has it",
    ),
    "SignatureDoesNotMatch": ("{place} refuses the S3 credentials", _KEYS),
    "InvalidAccessKeyId": ("{place} does not know the S3 access key", _KEYS),
    "NoCredentials": ("The AWS SDK finds no S3 credentials for {place}", f"{_KEYS}, or log in again"),
    "ExpiredToken": ("{place} says that the S3 credentials have expired", "Renew them, then try again"),
    "RequestTimeTooSkewed": ("{place} says that this machine's clock is wrong", "Set the clock, then try again"),
    "PermanentRedirect": ("The bucket {bucket!r} is in another region than {place}", "Set AWS_REGION to its region"),
    "AuthorizationHeaderMalformed": ("{place} expects another region", "Set AWS_REGION to the region it uses"),
    "InvalidStorageClass": ("{place} does not know the storage class", "Correct or unset NATS3_S3_STORAGE_CLASS"),
    "BucketAlreadyExists": ("The bucket name {bucket!r} belongs to another account in {place}", "Choose another name"),
    "InvalidObjectState": (
        "An object in the bucket {bucket!r} was moved to cold storage, and {place} does not read it from there",
        "Restore it in the store (s3 RestoreObject), then try again; or change the bucket's lifecycle rule",
    ),
    "ConditionalRequestConflict": (
        "{place} answered 409 ConditionalRequestConflict: another request for the same object is under way",
        "Nothing was committed; try again",
    ),
    "InvalidBucketName": ("{place} does not allow the bucket name {bucket!r}", "Use lower case letters, digits and -"),
}
# Codes of a store that is asked more often than it allows.
_LIMITS: Final = {"SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "Throttling", "TooManyRequests"}
# Those of the codes above that are about the name.
_NAME_CODES: Final = {"BucketAlreadyExists", "InvalidBucketName"}
# HTTP status codes where S3 gave no code that we know; a HEAD has no body at all.
_STATUSES: Final = {
    401: ("{place} refuses the S3 credentials", _KEYS),
    507: ("{place} is full", _ROOM),
}
_ERRNOS: Final = {
    errno.ENOSPC: ("The disk of {place} is full", _ROOM),
    errno.EDQUOT: ("The disk quota of {place} is used up", _ROOM),
    errno.EFBIG: ("{place} does not take files of this size", "Raise the limit, or lower the archive's max bytes"),
    errno.EACCES: ("This user may not use {place}/{bucket}", "Change the owner or mode of the folder, or the user"),
    errno.EROFS: ("{place} is mounted read-only", "Mount it for writing, or choose another store"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an operation, for texts only. Raises StoreError for an invalid bucket name."""

    place: str  # the store's name for people (StoreOptions.place)
    bucket: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"((gs|az)://)?[A-Za-z0-9][A-Za-z0-9._-]*", self.bucket):
            raise StoreError(f"{self.bucket!r} is not a bucket name", "Use letters, digits, dots and hyphens")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of a store, for the texts of its refusals."""

    name: str  # of the request, for a store that does not know it
    does: str  # it does to the bucket that `{bucket!r}` stands for
    hint: str  # the next step where the credentials may not make it
    without: str = "Look at what this store offers"  # the next step where the store does not know it


ANYTHING: Final = Asked("this request", "use the bucket {bucket!r}", _GRANTS)
CREATE: Final = Asked(
    "create-only PUT (If-None-Match)", ANYTHING.does, _GRANTS, "Use a store that does: an archive depends on it"
)


@contextmanager
def translated(
    where: Place, key: str, *, missing: Callable[[], StoreError], explained: Callable[[str], StoreError]
) -> Generator[None]:
    """Turns errors of obstore, and those of a folder, into StoreError. `key`: of the object, or empty. `missing`: gives
    the error where the bucket has no such object; `explained`: the error for a text of obstore."""
    check_key(key)
    try:
        yield
    except FileNotFoundError as error:
        raise (bucket_missing(where) if is_of_bucket(error) else missing()) from error
    except InvalidPathError as error:
        name = re.search(r'Error parsing Path "(.*?)":', str(error), re.DOTALL)
        what = f"{name[1]!r} in the bucket {where.bucket!r}" if name else f"An object in the bucket {where.bucket!r}"
        raise StoreError(f"{what} of {where.place} has a name that cannot be listed", "Move it away") from error
    except BaseError as error:
        raise explained(str(error)) from error
    except OSError as error:
        raise system_fault(where, error) from error


def check_key(key: str) -> None:
    """Raises StoreError for what cannot be a key in each store."""
    if key and {"", ".", ".."} & {*key.split("/")}:
        raise StoreError(f"{key!r} cannot be the key of an object", "Choose a prefix without empty parts, . and ..")


def is_of_bucket(error: FileNotFoundError) -> bool:
    """True if it is the bucket or container that does not exist."""
    return "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error)


def bucket_missing(where: Place) -> StoreError:
    return refused(where, "NoSuchBucket", 404, "")


def explain(where: Place, text: str) -> StoreError:
    """The StoreError for an exception of obstore, whose `text` is its only content."""
    code = re.search(r"<Code>\s*([\w.]+)", text)
    message = re.search(r"<Message>([^<]{1,200})", redacted(text))
    status = re.search(r"status code: (\d{3})", text)
    if code or status:
        asked = CREATE if re.search(r"\bPUT http", text) else ANYTHING
        return refused(
            where, code[1] if code else "", int(status[1]) if status else 0, message[1] if message else "", asked
        )
    if "os error" in text and (number := re.search(r"os error (\d+)", text)) and "HttpError" not in text:
        return system_fault(where, OSError(int(number[1]), ""))
    if "redirect without LOCATION" in text:
        return refused(where, "PermanentRedirect", 301, "")
    if "credential provider" in text:
        return refused(where, "NoCredentials", 0, "")
    if "ertificate" in text or "InvalidContentType" in text:
        return StoreError(
            f"{where.place} has no TLS certificate that is trusted here",
            "Trust its authority, or write http:// in AWS_ENDPOINT_URL_S3 if it speaks no TLS",
        )
    if "kind: Connect" in text or "kind: Timeout" in text or "kind: Interrupted" in text:
        return unreachable(where, "its name is unknown" if "dns error" in text else "no answer")
    return not_s3(where)


def unreachable(where: Place, why: str) -> StoreError:
    return StoreError(
        f"{where.place} cannot be reached: {why}", "Start it, or set AWS_ENDPOINT_URL_S3 to where it is; then try again"
    )


def not_s3(where: Place) -> StoreError:
    return StoreError(f"{where.place} does not answer as an S3 endpoint", _NOT_S3)


def refused(where: Place, code: str, status: int, message: str, asked: Asked = ANYTHING) -> StoreError:
    """The StoreError for a refusal of the store: S3's error code and message (or empty) and the HTTP status (or 0)."""
    if code.startswith("KMS.") or "ncryption" in message:
        return StoreError(
            f"{where.place} does not encrypt as it is asked to: {' '.join((code, message)).strip()}",
            "Correct or unset NATS3_S3_SSE and NATS3_S3_SSE_KMS_KEY_ID",
        )
    if code == "NotImplemented" or status == 501:
        return NotOffered(f"{where.place} does not know {asked.name}", asked.without)
    if code == "AccessDenied" or (status == 403 and code not in _CODES):
        return AccessRefused(
            f"{where.place} does not let these S3 credentials {asked.does.format(bucket=where.bucket)}", asked.hint
        )
    what, hint = _CODES.get(code) or _STATUSES.get(status) or ("", "")
    if not what:
        answer = " ".join(part for part in (str(status) if status else "", code, message) if part)
        what, hint = f"{{place}} answered {answer}".replace("{place}", where.place), "Look at the store's own log"
        if code in _LIMITS or status == 429:
            hint = "It limits how often it is asked: try again later, or run fewer captures and replays at a time"
        elif status >= 500:
            hint = "The store has a fault of its own; try again when it is well"
        return StoreError(what, hint)
    kind = BucketRefused if code in _NAME_CODES else AccessRefused if status == 403 else StoreError
    return kind(what.format(place=where.place, bucket=where.bucket), hint)


def system_fault(where: Place, error: OSError) -> StoreError:
    """The StoreError for an error of the operating system in a `file://` store."""
    what, hint = _ERRNOS.get(error.errno or 0, ("{place} has a fault: {fault}", "Look at the disk and its mount"))
    fault = os.strerror(error.errno or 0)
    return StoreError(what.format(place=where.place, bucket=where.bucket, fault=fault), hint)


def object_missing(where: Place, key: str) -> ObjectMissing:
    folder = archive_folder(key)
    step = Next.OBJECT_GONE(archive=folder[1]) if folder else "It was deleted or moved outside nats3; bring it back"
    return ObjectMissing(f"{key} is not in the bucket {where.bucket!r} of {where.place}", step)


def too_large(where: Place, key: str, size: int, most: int) -> ChunkError:
    """The ChunkError for an object that has more bytes than were written."""
    return ChunkError(
        f"{key} in the bucket {where.bucket!r} has {size:,} bytes, and {most:,} at most were written there",
        "Bring it back from a copy of the bucket",
    )
