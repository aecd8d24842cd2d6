"""A bucket of an S3 store, by obstore."""

import re
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from nats3_dagster.errors import StoreError
from nats3_dagster.objects import faults, foreign_keys
from nats3_dagster.objects.answers import ObjectInfo, SignedUrl
from nats3_dagster.objects.drivers.obstore_driver import ObstoreDriver
from nats3_dagster.objects.pages import pages
from nats3_dagster.objects.retries import Passing, of_obstore
from nats3_dagster.objects.s3_puts import S3Puts
from nats3_dagster.objects.s3_store import s3_store

if TYPE_CHECKING:
    from nats3_dagster.objects.foreign_keys import Listing

# How long the store may be silent after a request. An upload's silence lasts as long as the upload, for the answer
# comes at its end: 64 MiB at 5 Mbit/s take 107 s.
_SILENCE: Final = 0.8  # of the options' patience
_SILENCE_OF_UPLOADS: Final = 120.0


class S3Driver(ObstoreDriver):
    """A driver of S3: see Driver."""

    writes_itself = False

    def put(self, key: str, data: memoryview, *, is_new: bool) -> bool:
        with self._faults(key):
            try:
                self._puts.put(key, data, is_new=is_new)
            except AlreadyExistsError as error:
                if (
                    not is_new or of_obstore(error) is not Passing.NEVER
                ):  # it conflicts with another request, to the end
                    raise
                return False
            return True

    def folders(self, prefix: str) -> list[str]:
        # obstore's list ends at a page without a token to go on with, and knows no start for folders.
        with self._faults(prefix):
            return foreign_keys.folders(self._options, self._where, prefix)

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        with self._faults(key):
            url = obstore.sign(self._s3, "GET", key, timedelta(seconds=expires_s))
        values = {name.lower(): value for name, value in parse_qsl(urlsplit(url).query)}
        signed_at = datetime.strptime(values["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        expires_at = signed_at + timedelta(seconds=int(values["x-amz-expires"]))
        return SignedUrl(url, expires_at, is_temporary="x-amz-security-token" in values)

    def _foreign(self, prefix: str) -> "Listing":
        return foreign_keys.listing(self._options, self._where, prefix)

    def _info(self, key: str, size: int, etag: str | None) -> ObjectInfo:
        if etag is None:  # a web server, with a page for every address
            raise faults.not_s3(self._where)
        return ObjectInfo(key, size, etag or None)

    def _require(self) -> None:
        # The shortest answer that a bucket which exists can give.
        next(pages(self._store, ".nats3-nothing", self._options.patience_s), None)

    def _explained(self, text: str) -> StoreError:
        if re.search(r"HEAD .* status code: 4", text):
            with self._faults(""):
                self._require()  # the answer to a HEAD gives no reason, that to a listing does
        return super()._explained(text)

    def _open(self) -> S3Store:
        return self._s3

    @cached_property
    def _s3(self) -> S3Store:
        return s3_store(self._options, self._where, _SILENCE * self._options.patience_s)

    @cached_property
    def _puts(self) -> S3Puts:
        return S3Puts(self._options, self._where, _SILENCE_OF_UPLOADS)
