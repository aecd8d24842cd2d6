"""A container of Azure Blob Storage, by Azure's own SDK."""

import io
import ssl
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, Final, TypeVar

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import BlobSasPermissions, generate_blob_sas

from nats3_dagster.errors import AccessRefused, StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.answers import ListedObject, ObjectInfo, ObjectVersion, SignedUrl
from nats3_dagster.objects.clouds import refusals
from nats3_dagster.objects.clouds.azure_login import described, service
from nats3_dagster.objects.clouds.cloud_bucket import BUSY, PAGE, SILENCE_OF_UPLOADS_S
from nats3_dagster.objects.retries import TRIES_OF_UPLOADS, Passing, again

AnswerT = TypeVar("AnswerT")
_WORDS: Final = refusals.AZURE
_EVERYTHING: Final = ["snapshots", "versions", "deleted"]
# An id of a version begins with its kind.
_VERSION, _SNAPSHOT, _SOFT_DELETED = "version:", "snapshot:", "soft-deleted:"
# Azure's code for a current version that is to be deleted by its id.
_CURRENT: Final = "OperationNotAllowedOnRootBlob"


class AzureBucket:
    """A bucket of Azure: see CloudBucket."""

    def __init__(self, where: faults.Place, patience_s: float) -> None:
        self._where, self._patience_s = where, patience_s
        self._name = where.bucket.removeprefix("az://")

    def put(self, key: str, data: memoryview, *, is_new: bool) -> bool:
        def upload() -> None:
            self._container.upload_blob(
                key,
                io.BytesIO(data),
                length=len(data),
                overwrite=not is_new,
                validate_content=True,
                max_concurrency=1,
                **self._asking(SILENCE_OF_UPLOADS_S),
            )

        with self._faults():
            try:
                again(upload, self._patience_s, kinds=AzureError, passing=_passing, tries=TRIES_OF_UPLOADS)
            except ResourceExistsError as error:
                if _code(error) != "BlobAlreadyExists":
                    raise
                return False
            return True

    def get(self, key: str, version_id: str | None = None) -> bytes:
        with self._faults(key):
            return self._ask(lambda: self._blob(key, version_id).download_blob(**self._asking()).readall())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        def ask() -> bytes:
            return self._blob(key).download_blob(offset=start, length=length, **self._asking()).readall()

        with self._faults(key):
            try:
                return self._ask(ask)
            except HttpResponseError as error:
                if error.status_code != 416:
                    raise
                return b""

    def head(self, key: str) -> ObjectInfo:
        with self._faults(key):
            properties = self._ask(lambda: self._blob(key).get_blob_properties(**self._asking()))
        md5 = properties.content_settings.content_md5
        return ObjectInfo(key, properties.size, bytes(md5).hex() if md5 else None)

    def list(self, prefix: str) -> Iterator[ListedObject]:
        for blob in self._pages(self._container.list_blobs, prefix):
            yield ListedObject(blob.name, blob.size, blob.last_modified)

    def folders(self, prefix: str) -> Iterator[str]:
        for item in self._pages(partial(self._container.walk_blobs, delimiter="/"), prefix):
            if item.name.endswith("/"):
                yield item.name.removesuffix("/")

    def delete(self, key: str) -> None:
        self._delete(self._blob(key), delete_snapshots="include")

    def versions(self, prefix: str) -> Iterator[ObjectVersion]:
        listing = partial(self._container.list_blobs, include=_EVERYTHING)
        for blob in self._pages(listing, prefix):
            if blob.deleted:
                version_id = f"{_SOFT_DELETED}{blob.version_id or blob.snapshot or ''}"
                yield ObjectVersion(blob.name, version_id, False, blob.size, is_soft_deleted=True)
            elif blob.snapshot:
                yield ObjectVersion(blob.name, f"{_SNAPSHOT}{blob.snapshot}", False, blob.size)
            else:
                yield ObjectVersion(
                    blob.name, f"{_VERSION}{blob.version_id}" if blob.version_id else None, False, blob.size
                )

    def delete_version(self, key: str, version_id: str) -> None:
        if version_id.startswith(_SOFT_DELETED):
            raise AccessRefused(f"Soft delete of the bucket {self._where.bucket!r} keeps it", "It goes by itself")
        try:
            self._delete(self._blob(key, version_id))
        except StoreError as error:
            # The current version goes with its blob first, and is an earlier one then.
            if _CURRENT not in error.what:
                raise
            self.delete(key)
            self._delete(self._blob(key, version_id))

    def locked_until(self, key: str, version_id: str) -> datetime | None:
        if not version_id.startswith(_SOFT_DELETED):
            with self._faults(key):
                properties = self._ask(lambda: self._blob(key, version_id).get_blob_properties(**self._asking()))
            return properties.immutability_policy.expiry_time
        own = version_id.removeprefix(_SOFT_DELETED)
        for blob in self._pages(partial(self._container.list_blobs, include=_EVERYTHING), key):
            if blob.name == key and blob.deleted and (blob.version_id or blob.snapshot or "") == own:
                return blob.deleted_time and datetime.now(UTC) + timedelta(days=blob.remaining_retention_days or 0)
        return None

    def exists(self) -> bool:
        with self._faults():
            try:
                self._ask(
                    lambda: next(self._container.list_blobs(results_per_page=1, **self._asking()).by_page(), None)
                )
            except HttpResponseError as error:
                if _code(error) != "ContainerNotFound":
                    raise
                return False
            return True

    def create(self) -> bool:
        with self._faults():
            try:
                self._ask(lambda: self._container.create_container(**self._asking()))
            except ResourceExistsError as error:
                if _code(error) != "ContainerAlreadyExists":
                    raise
                return False
            return True

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        begins = datetime.now(UTC).replace(microsecond=0)
        ends = begins + timedelta(seconds=expires_s)
        with self._faults():
            blob, client = self._blob(key), self._service
            if hasattr(client.credential, "account_key"):
                signer: dict[str, Any] = {"account_key": client.credential.account_key}
            elif hasattr(client.credential, "get_token"):
                signer = {"user_delegation_key": self._ask(lambda: client.get_user_delegation_key(begins, ends))}
            else:
                raise refusals.cannot_sign(self._where, "it is a SAS token itself")
            token = generate_blob_sas(
                client.account_name,
                self._name,
                key,
                permission=BlobSasPermissions(read=True),
                expiry=ends,
                **signer,
            )
        return SignedUrl(f"{blob.url.partition('?')[0]}?{token}", ends, is_temporary=False)

    def address(self) -> str:
        # The host of a national cloud; of a server that stands for Azure, which has its account in the path, the usual.
        account, host = self._service.account_name, str(self._service.primary_hostname)
        _, found, domain = host.partition(f"{account}.blob.")
        return f"abfss://{self._name}@{account}.dfs.{domain if found else 'core.windows.net'}"

    def identity(self) -> str:
        return described(self._service)

    def _delete(self, blob: Any, **how: Any) -> None:
        with self._faults():
            try:
                self._ask(lambda: blob.delete_blob(**how, **self._asking()))
            except HttpResponseError as error:
                if error.status_code != 404 or _code(error) == "ContainerNotFound":
                    raise

    def _pages(self, listing: Callable[..., Any], prefix: str) -> Iterator[Any]:
        """The items of a listing; a page that fails is asked for again."""
        token: str | None = None
        while True:
            pages = listing(name_starts_with=prefix or None, results_per_page=PAGE, **self._asking())
            pages = pages.by_page(continuation_token=token)
            with self._faults():
                page = self._ask(lambda pages=pages: list(next(pages, ())))
            yield from page
            token = pages.continuation_token
            if not token:
                return

    def _blob(self, key: str, version_id: str | None = None) -> Any:
        version_id = version_id or ""
        which: dict[str, Any] = {}
        if version_id.startswith(_SNAPSHOT):
            which = {"snapshot": version_id.removeprefix(_SNAPSHOT)}
        elif version_id.startswith(_VERSION):
            which = {"version_id": version_id.removeprefix(_VERSION)}
        return self._service.get_blob_client(self._name, key, **which)

    def _asking(self, silence_s: float | None = None) -> dict[str, Any]:
        return {"connection_timeout": self._patience_s * 0.4, "read_timeout": silence_s or self._patience_s * 0.8}

    def _ask(self, request: Callable[[], AnswerT]) -> AnswerT:
        return again(request, self._patience_s, kinds=AzureError, passing=_passing)

    @contextmanager
    def _faults(self, key: str = "") -> Generator[None]:
        """Turns errors of the SDK into StoreError. `key`: of the object that may be missing."""
        try:
            yield
        except HttpResponseError as error:
            code, status = _code(error), error.status_code or 0
            if code == "ContainerNotFound":
                raise faults.bucket_missing(self._where) from error
            if status == 404 and key:
                # The answer to a HEAD has no body, and the code is a header that not every server sends.
                if not code and not self.exists():
                    raise faults.bucket_missing(self._where) from error
                raise faults.object_missing(self._where, key) from error
            if isinstance(error, ClientAuthenticationError) and not code:
                raise refusals.not_logged_in(self._where, _WORDS, error) from error
            raise refusals.refused(self._where, _WORDS, status, code) from error
        except AzureError as error:
            is_tls = isinstance(error.inner_exception, ssl.SSLError) or "CERTIFICATE" in str(error)
            raise refusals.unreachable(self._where, _WORDS, tls=is_tls) from error

    @cached_property
    def _service(self) -> Any:
        return service()

    @cached_property
    def _container(self) -> Any:
        return self._service.get_container_client(self._name)


def _code(error: Any) -> str:
    """Azure's own code of an error, empty where there is none."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _passing(error: AzureError) -> Passing:
    """Returns how often a request that failed so is made again."""
    if isinstance(error, HttpResponseError):
        return Passing.LONG if error.status_code in BUSY else Passing.NEVER
    return Passing.LONG if isinstance(error, ServiceRequestError | ServiceResponseError) else Passing.NEVER
