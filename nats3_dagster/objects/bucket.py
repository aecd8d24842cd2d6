"""One bucket: create-only writes, reads, listings.

Invariant: `put_new` returns only if the store itself reports the object as it was sent, or already has the same bytes.
Anything else is an error with the next step. Waiting is bounded: a dead endpoint is an error after 10 to 16 s.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime

from nats3_dagster.errors import ObjectMissing, StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.answers import ObjectInfo, SignedUrl
from nats3_dagster.objects.drivers import open_driver
from nats3_dagster.objects.store_options import StoreOptions
from nats3_dagster.redaction import learn


class Bucket:
    """A bucket of a store. Making one costs nothing; connections open with the first use and are kept.

    Safe to use from several threads; not to be carried over a fork. Every method raises StoreError."""

    def __init__(self, options: StoreOptions, name: str) -> None:
        options = options.of(name)
        learn(options.secret_access_key, options.session_token)  # a worker has read no settings
        self.name = name
        self._where = faults.Place(options.place, name)
        self._driver = open_driver(options, self._where)

    def put_new(self, key: str, data: bytes | memoryview, sha256: str) -> bool:
        """Store `data`, whose SHA-256 is `sha256`, where nothing is yet. True when this call created the object, False
        when the same bytes were there already: a retry. Other bytes there raise StoreError and stay as they are."""
        view = memoryview(data).cast("B")
        # Asked first, so that a retry uploads nothing, and a store that is down or refuses access says so before an
        # upload.
        if not self._driver.is_there(key):
            if self._driver.put(key, view, is_new=True):
                self._check(key, view, sha256)
                return True
            if not self._driver.is_there(key):
                raise StoreError(
                    f"{self._where.place} refused to create {key} as if it were there already, and it is not",
                    "Nothing was committed; try again",
                )
        if self._sha256(key) != sha256:
            raise StoreError(
                f"{key} is in the bucket {self.name!r} already, with other bytes than are to be written",
                "Nothing was changed; move that object away, then try again",
            )
        return False

    def put_again(self, key: str, data: bytes | memoryview, sha256: str) -> None:
        """Store `data`, whose SHA-256 is `sha256`, whatever is there: for an object that is not what was written. A
        bucket with versions keeps the bad one as an earlier version."""
        view = memoryview(data).cast("B")
        self._driver.put(key, view, is_new=False)
        self._check(key, view, sha256)

    def create(self, key: str, data: bytes | memoryview) -> bool:
        """One create-only PUT. True if the store says that this one created the object. For trying out a store: what is
        to be kept goes through `put_new`."""
        return self._driver.put(key, memoryview(data).cast("B"), is_new=True)

    def get(self, key: str, most: int | None = None) -> memoryview:
        """The whole object. `most`: the bytes that it has at most. Raises ObjectMissing, and ChunkError for an object
        that has more: nothing of it is read."""
        return self._driver.get(key, most)

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        """`length` bytes from `start` on. Raises ObjectMissing, and StoreError when the object ends before."""
        data = self._driver.get_range(key, start, length)
        if len(data) != length:
            raise StoreError(
                f"{key} ends before the {length} bytes from {start} on that were asked for",
                "The object was cut short; bring it back from a copy of the bucket",
            )
        return data

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        """Returns a URL for a GET of the object, valid for this time, without a login; for a store that is a folder,
        the file's URL. The store is not asked, not even whether there is such an object."""
        return self._driver.sign(key, expires_s)

    def head(self, key: str) -> ObjectInfo:
        """Size and ETag. Raises ObjectMissing."""
        return self._driver.head(key)

    def exists(self, key: str) -> bool:
        """True if the object exists; a missing bucket is an error, not False."""
        try:
            self.head(key)
        except ObjectMissing:
            return False
        return True

    def list(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Key and size of the objects under `prefix` (whole parts of a path), page by page, in the store's order."""
        yield from ((one.key, one.size) for one in self._driver.listed(prefix))

    def put_before(self, prefix: str, moment: datetime) -> Iterator[tuple[str, int]]:
        """Yields what `list` yields, of the objects that were put before the moment, by the store's clock."""
        yield from ((one.key, one.size) for one in self._driver.listed(prefix) if one.put_at < moment)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The folders directly under `prefix` (whole parts of a path), ascending, without a slash at their end."""
        return tuple(sorted(self._driver.folders(prefix)))

    def delete(self, key: str) -> None:
        """Remove the object; one that is not there is as good as removed."""
        self._driver.delete(key)

    def _check(self, key: str, view: memoryview, sha256: str) -> None:
        """Raises StoreError unless the store has what was sent under `key`. Stores have lied in size and in content."""
        info = self.head(key)
        if info.size == len(view):
            # Only an ETag that is the MD5 proves the content. Buckets that encrypt with keys of their own, and some
            # stores, have ETags of another kind: then the object is read back. A folder has none: we wrote it.
            if self._driver.writes_itself or info.etag == hashlib.md5(view, usedforsecurity=False).hexdigest():
                return
            if self._sha256(key) == sha256:
                return
        raise StoreError(
            f"{self._where.place} took {key} and holds something else: {info.size} bytes of {len(view)}",
            "Nothing was committed; do not trust this store before its fault is found",
        )

    def _sha256(self, key: str) -> str:
        return hashlib.sha256(self.get(key)).hexdigest()
