"""PUTs of a bucket of S3, with the checksum that the bucket wants.

Invariant: no checksum is sent before the store asks for one. A bucket with Object Lock and a default retention takes
none without (`Content-MD5 OR x-amz-checksum- HTTP header is required`), and other stores refuse such headers.
"""

import base64
import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from nats3_dagster.objects import faults
from nats3_dagster.objects.retries import TRIES_OF_UPLOADS, again
from nats3_dagster.objects.s3_store import s3_store
from nats3_dagster.objects.store_options import StoreOptions

if TYPE_CHECKING:
    from obstore import Attributes

# The next one is tried where the store asks for a checksum, or refuses this one.
_CHECKSUMS: Final = ("none", "SHA256", "MD5")


class S3Puts:
    """Uploads into one bucket. Safe to use from several threads. Raises errors of obstore."""

    def __init__(self, options: StoreOptions, where: faults.Place, silence_s: float) -> None:
        self._options, self._where, self._silence_s = options, where, silence_s
        self._checksum = 0  # of _CHECKSUMS; learned from the store's refusals
        self._store = cache(self._make)

    def put(self, key: str, data: memoryview | bytes, *, is_new: bool) -> None:
        """One object; with `is_new` only where there is none: else it raises AlreadyExistsError."""
        for checksum in range(self._checksum, len(_CHECKSUMS)):
            try:
                again(
                    lambda number=checksum: self._put(_CHECKSUMS[number], key, data, is_new),
                    self._options.patience_s,
                    tries=TRIES_OF_UPLOADS,
                )
            except BaseError as error:
                if checksum + 1 == len(_CHECKSUMS) or not _is_about_checksum(str(error)):
                    raise
            else:
                self._checksum = checksum
                return

    def _put(self, checksum: str, key: str, data: memoryview | bytes, is_new: bool) -> None:
        if checksum == "MD5":  # obstore has no such option: a client for this object alone
            md5 = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
            store = s3_store(self._options, self._where, self._silence_s, headers={"Content-MD5": md5})
        else:
            store = self._store(checksum)
        attributes: Attributes = {"Storage-Class": self._options.storage_class} if self._options.storage_class else {}
        mode = "create" if is_new else "overwrite"
        obstore.put(store, key, data, attributes=attributes, mode=mode, use_multipart=False)

    def _make(self, checksum: str) -> S3Store:
        return s3_store(self._options, self._where, self._silence_s, checksum="" if checksum == "none" else checksum)


def _is_about_checksum(text: str) -> bool:
    """True for a refusal that asks for a checksum, or does not take the one that was sent."""
    return bool(re.search(r"status code: 4\d\d", text) and re.search(r"content-md5|checksum", text, re.IGNORECASE))
