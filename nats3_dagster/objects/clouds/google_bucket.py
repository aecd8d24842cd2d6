"""A bucket of Google Cloud Storage, by Google's own SDK, with the login that it finds."""

import base64
import io
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

import google.auth
from google.api_core.exceptions import (
    GoogleAPICallError,
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
    RetryError,
)
from google.auth.credentials import Signing
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import Request
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse  # pyright: ignore[reportMissingTypeStubs]
from google.cloud.storage.retry import DEFAULT_RETRY  # pyright: ignore[reportMissingTypeStubs]
from requests.exceptions import RequestException, SSLError

from nats3_dagster.errors import AccessRefused, StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.answers import ListedObject, ObjectInfo, ObjectVersion, SignedUrl
from nats3_dagster.objects.clouds import refusals
from nats3_dagster.objects.clouds.cloud_bucket import BUSY, PAGE, SILENCE_OF_UPLOADS_S
from nats3_dagster.objects.clouds.google_login import client, described
from nats3_dagster.objects.retries import TRIES_OF_UPLOADS, Passing, again

_WORDS: Final = refusals.GOOGLE
_FAILURES: Final = (GoogleAPICallError, TransportError, RequestException)
_LISTED: Final = "items(name,size,updated,generation,timeDeleted,softDeleteTime),prefixes,nextPageToken"
_SOFT_DELETED: Final = "soft-deleted:"
# The SDK writes True as `True`, which not every server reads.
_TRUE: Final = "true"


class GoogleBucket:
    """A bucket of Google Cloud: see CloudBucket. An id of a version is a generation."""

    def __init__(self, where: faults.Place, patience_s: float) -> None:
        self._where, self._patience_s = where, patience_s
        self._name = where.bucket.removeprefix("gs://")

    def put(self, key: str, data: memoryview, *, is_new: bool) -> bool:
        def upload() -> None:
            self._bucket.blob(key).upload_from_file(
                io.BytesIO(data),
                size=len(data),
                content_type="application/octet-stream",
                checksum="md5",
                if_generation_match=0 if is_new else None,
                **self._asking(SILENCE_OF_UPLOADS_S) | {"retry": None},
            )

        with self._faults():
            try:
                # A large one fails after a longer time than the SDK would go on for.
                again(upload, self._patience_s, kinds=_FAILURES, passing=_passing, tries=TRIES_OF_UPLOADS)
            except PreconditionFailed:
                return False
            return True

    def get(self, key: str, version_id: str | None = None) -> bytes:
        with self._faults(key):
            return self._blob(key, version_id).download_as_bytes(raw_download=True, **self._asking())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._faults(key):
            try:
                return self._blob(key).download_as_bytes(
                    start=start, end=start + length - 1, raw_download=True, checksum=None, **self._asking()
                )
            except RequestRangeNotSatisfiable:
                return b""

    def head(self, key: str) -> ObjectInfo:
        with self._faults(key):
            blob = self._blob(key)
            blob.reload(**self._asking())
            md5 = base64.b64decode(blob.md5_hash).hex() if blob.md5_hash else None
            return ObjectInfo(key, blob.size, md5)

    def list(self, prefix: str) -> Iterator[ListedObject]:
        for blob in self._listed(prefix):
            yield ListedObject(blob.name, blob.size, blob.updated)

    def folders(self, prefix: str) -> Iterator[str]:
        with self._faults():
            listing = self._client.list_blobs(
                self._bucket, prefix=prefix, delimiter="/", page_size=PAGE, fields=_LISTED, **self._asking()
            )
            for _ in listing.pages:
                pass
        yield from sorted(folder.removesuffix("/") for folder in listing.prefixes)

    def delete(self, key: str) -> None:
        self._delete(self._blob(key))

    def versions(self, prefix: str) -> Iterator[ObjectVersion]:
        for blob in self._listed(prefix, versions=_TRUE):
            yield ObjectVersion(blob.name, str(blob.generation), False, blob.size)
        for blob in self._listed(prefix, soft_deleted=_TRUE):
            if blob.soft_delete_time:  # an emulator without soft delete lists what is there
                version_id = f"{_SOFT_DELETED}{blob.generation}"
                yield ObjectVersion(blob.name, version_id, False, blob.size, is_soft_deleted=True)

    def delete_version(self, key: str, version_id: str) -> None:
        if version_id.startswith(_SOFT_DELETED):
            raise AccessRefused(f"Soft delete of the bucket {self._where.bucket!r} keeps it", "It goes by itself")
        self._delete(self._blob(key, version_id))

    def locked_until(self, key: str, version_id: str) -> datetime | None:
        is_soft_deleted = version_id.startswith(_SOFT_DELETED)
        with self._faults(key):
            blob = self._blob(key, version_id.removeprefix(_SOFT_DELETED))
            blob.reload(**self._asking(), **({"soft_deleted": _TRUE} if is_soft_deleted else {}))
            return blob.hard_delete_time if is_soft_deleted else blob.retention_expiration_time

    def exists(self) -> bool:
        with self._faults():
            try:
                next(self._client.list_blobs(self._bucket, max_results=1, **self._asking()).pages, None)
            except NotFound:
                return False
            return True

    def create(self) -> bool:
        if not os.environ.get("GOOGLE_CLOUD_PROJECT") and not os.environ.get("STORAGE_EMULATOR_HOST"):
            raise StoreError(
                f"Nothing says which project the bucket {self._where.bucket!r} is to belong to",
                "Set GOOGLE_CLOUD_PROJECT, or create the bucket in the cloud",
            )
        if self.exists():
            return False
        with self._faults():
            self._client.create_bucket(self._bucket, **self._asking())
            return True

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=expires_s)
        with self._faults():
            credentials = _credentials()
            signer: dict[str, Any] = {"credentials": credentials}
            if not isinstance(credentials, Signing):
                signer = self._remote_signer(credentials)
            url = self._blob(key).generate_signed_url(
                version="v4",
                expiration=timedelta(seconds=expires_s),
                method="GET",
                api_access_endpoint=self._client.api_endpoint,
                **signer,
            )
        return SignedUrl(url, expires_at, is_temporary="access_token" in signer)

    def _remote_signer(self, credentials: Any) -> dict[str, Any]:
        """Lets Google sign for a service account whose key is not here."""
        credentials.refresh(Request())
        email = getattr(credentials, "service_account_email", None)
        if not email:
            raise refusals.cannot_sign(self._where, "it is not a service account")
        return {"service_account_email": email, "access_token": credentials.token}

    def address(self) -> str:
        return f"gs://{self._name}"

    def identity(self) -> str:
        with self._faults():
            return described(self._client)

    def _listed(self, prefix: str, **which: str) -> Iterator[Any]:
        with self._faults():
            yield from self._client.list_blobs(
                self._bucket, prefix=prefix, page_size=PAGE, fields=_LISTED, **which, **self._asking()
            )

    def _delete(self, blob: Any) -> None:
        with self._faults():
            try:
                blob.delete(**self._asking())
            except NotFound:
                if not self.exists():
                    raise faults.bucket_missing(self._where) from None

    def _blob(self, key: str, version_id: str | None = None) -> Any:
        return self._bucket.blob(key, generation=int(version_id) if version_id else None)

    def _asking(self, silence_s: float | None = None) -> dict[str, Any]:
        silence_s = silence_s or self._patience_s * 0.8
        return {
            "timeout": (self._patience_s * 0.4, silence_s),
            "retry": DEFAULT_RETRY.with_timeout(self._patience_s).with_delay(initial=0.1, maximum=2.0),
        }

    @contextmanager
    def _faults(self, key: str = "") -> Generator[None]:
        """Turns errors of the SDK into StoreError. `key`: of the object that may be missing."""

        try:
            yield
        except NotFound as error:
            # Google says which of them it is that is missing; not every server does.
            if not key or ("No such object" not in str(error) and not self.exists()):
                raise faults.bucket_missing(self._where) from error
            raise faults.object_missing(self._where, key) from error
        except GoogleAPICallError as error:
            raise refusals.refused(self._where, _WORDS, int(error.code or 0), _reason(error)) from error
        except DataCorruption as error:
            raise refusals.altered(self._where, key or "An object") from error
        except InvalidResponse as error:
            raise refusals.refused(self._where, _WORDS, _status(error), "") from error
        except RetryError as error:  # of the last of several tries
            cause: Any = error.cause
            if isinstance(cause, GoogleAPICallError):
                raise refusals.refused(self._where, _WORDS, int(cause.code or 0), _reason(cause)) from error
            raise refusals.unreachable(self._where, _WORDS) from error
        except SSLError as error:
            raise refusals.unreachable(self._where, _WORDS, tls=True) from error
        except (TransportError, RequestException) as error:
            raise refusals.unreachable(self._where, _WORDS) from error
        except GoogleAuthError as error:
            raise refusals.not_logged_in(self._where, _WORDS, error) from error

    @cached_property
    def _client(self) -> Any:
        return client()

    @cached_property
    def _bucket(self) -> Any:
        return self._client.bucket(self._name)


def _passing(error: Any) -> Passing:
    """Returns how often an upload that failed so is made again."""
    if isinstance(error, GoogleAPICallError):
        return Passing.LONG if error.code in BUSY else Passing.NEVER
    return Passing.NEVER if isinstance(error, SSLError) else Passing.LONG


def _credentials() -> Any:
    found: Any = google.auth
    return found.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])[0]


def _reason(error: Any) -> str:
    """Google's own code of an error, empty where there is none."""
    found: list[Any] = [one for one in error.errors if "reason" in one]
    return str(found[0]["reason"]) if found else ""


def _status(error: Any) -> int:
    return int(error.response.status_code)
