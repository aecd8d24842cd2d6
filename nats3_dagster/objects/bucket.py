"""One bucket: create-only writes, reads, listings.

Invariant: `put_new` returns only if the store itself reports the object as it was sent, or already has the same bytes.
Anything else is an error with the next step. Waiting is bounded: a dead endpoint is an error after 10 to 16 s.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, S3Store

from nats3_dagster.errors import ChunkError, ObjectMissing, StoreError
from nats3_dagster.objects import faults, files, foreign_keys
from nats3_dagster.objects.answers import ListedObject, ObjectInfo, SignedUrl
from nats3_dagster.objects.clouds import CloudBucket, open_cloud
from nats3_dagster.objects.pages import pages
from nats3_dagster.objects.retries import Passing, again, of_obstore
from nats3_dagster.objects.s3_puts import S3Puts
from nats3_dagster.objects.s3_store import s3_store
from nats3_dagster.objects.store_options import StoreOptions
from nats3_dagster.redaction import learn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ObjectMeta

AnswerT = TypeVar("AnswerT")

# How long the store may be silent after a request. An upload's silence lasts as long as the upload, for the answer
# comes at its end: 64 MiB at 5 Mbit/s take 107 s.
_SILENCE: Final = 0.8  # of the options' patience
_SILENCE_OF_UPLOADS: Final = 120.0


class Bucket:
    """A bucket of a store. Making one costs nothing; connections open with the first use and are kept.

    Safe to use from several threads; not to be carried over a fork. Every method raises StoreError."""

    def __init__(self, options: StoreOptions, name: str) -> None:
        options = options.of(name)
        learn(options.secret_access_key, options.session_token)  # a worker has read no settings
        self.name = name
        self._options = options
        self._where = faults.Place(options.place, name)
        self._root = options.folder / name if options.folder is not None else None
        self._cloud = open_cloud(options.cloud, self._where, options.patience_s) if options.cloud is not None else None

    def put_new(self, key: str, data: bytes | memoryview, sha256: str) -> bool:
        """Store `data`, whose SHA-256 is `sha256`, where nothing is yet. True when this call created the object, False
        when the same bytes were there already: a retry. Other bytes there raise StoreError and stay as they are."""
        view = memoryview(data).cast("B")
        # Asked first, so that a retry uploads nothing, and a store that is down or refuses access says so before an
        # upload.
        if not self._is_there(key):
            if self._create(key, view):
                self._check(key, view, sha256)
                return True
            if not self._is_there(key):
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
        with self._faults(key):
            if self._cloud is not None:
                self._cloud.put(key, view, is_new=False)
            elif self._root is not None:
                self._require()
                files.replace(self._root, key, view)
            else:
                self._puts.put(key, view, is_new=False)
        self._check(key, view, sha256)

    def create(self, key: str, data: bytes | memoryview) -> bool:
        """One create-only PUT. True if the store says that this one created the object. For trying out a store: what is
        to be kept goes through `put_new`."""
        return self._create(key, memoryview(data).cast("B"))

    def get(self, key: str, most: int | None = None) -> memoryview:
        """The whole object. `most`: the bytes that it has at most. Raises ObjectMissing, and ChunkError for an object
        that has more: nothing of it is read."""
        with self._faults(key):
            if self._cloud is not None:
                return self._read_cloud(self._cloud, key, most)
            return self._ask(lambda: self._read(key, most))

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        """`length` bytes from `start` on. Raises ObjectMissing, and StoreError when the object ends before."""
        with self._faults(key):
            try:
                if self._cloud is not None:
                    data = memoryview(self._cloud.get_range(key, start, length))
                else:
                    data = self._ask(
                        lambda: memoryview(obstore.get_range(self._store, key, start=start, length=length))
                    )
            except BaseError as error:
                if "InvalidRange" not in str(error):
                    raise
                data = memoryview(b"")
        if len(data) != length:
            raise StoreError(
                f"{key} ends before the {length} bytes from {start} on that were asked for",
                "The object was cut short; bring it back from a copy of the bucket",
            )
        return data

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        """Returns a URL for a GET of the object, valid for this time, without a login; for a store that is a folder,
        the file's URL. The store is not asked, not even whether there is such an object."""
        with self._faults(key):
            if self._root is not None:
                return SignedUrl((self._root / key).absolute().as_uri(), None, is_temporary=False)
            if self._cloud is not None:
                return self._cloud.sign(key, expires_s)
            url = obstore.sign(self._s3, "GET", key, timedelta(seconds=expires_s))
        values = {name.lower(): value for name, value in parse_qsl(urlsplit(url).query)}
        signed_at = datetime.strptime(values["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        expires_at = signed_at + timedelta(seconds=int(values["x-amz-expires"]))
        return SignedUrl(url, expires_at, is_temporary="x-amz-security-token" in values)

    def head(self, key: str) -> ObjectInfo:
        """Size and ETag. Raises ObjectMissing."""
        with self._faults(key):
            return self._head(key)

    def exists(self, key: str) -> bool:
        """True if the object exists; a missing bucket is an error, not False."""
        try:
            self.head(key)
        except ObjectMissing:
            return False
        return True

    def list(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Key and size of the objects under `prefix` (whole parts of a path), page by page, in the store's order."""
        yield from ((one.key, one.size) for one in self._listed(prefix))

    def put_before(self, prefix: str, moment: datetime) -> Iterator[tuple[str, int]]:
        """As `list`, of the objects that were put before the moment, by the store's clock."""
        yield from ((one.key, one.size) for one in self._listed(prefix) if one.put_at < moment)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The folders directly under `prefix` (whole parts of a path), ascending, without a slash at their end."""
        with self._faults(prefix):
            if self._cloud is not None:
                return tuple(self._cloud.folders(foreign_keys.folder_prefix(prefix)))
            if self._root is None:
                # obstore's list ends at a page without a token to go on with, and knows no start for folders.
                return tuple(sorted(foreign_keys.folders(self._options, self._where, prefix)))
            self._require()
            found = self._ask(lambda: obstore.list_with_delimiter(self._store, prefix or None))  # pyright: ignore[reportUnknownMemberType]
            return tuple(sorted(filter(None, found["common_prefixes"])))

    def delete(self, key: str) -> None:
        """Remove the object; one that is not there is as good as removed."""
        with self._faults(key):
            if self._cloud is not None:
                self._cloud.delete(key)
                return
            try:
                self._ask(lambda: obstore.delete(self._store, key))
            except FileNotFoundError:
                self._require()

    def _listed(self, prefix: str) -> Iterator[ListedObject]:
        if self._cloud is not None:
            faults.check_key(prefix)
            yield from self._cloud.list(foreign_keys.folder_prefix(prefix))
            return
        for page in self._pages(prefix):
            yield from (ListedObject(item["path"], item["size"], item["last_modified"]) for item in page)

    def _pages(self, prefix: str) -> "Iterator[Sequence[ObjectMeta]]":
        with self._faults(prefix):
            if self._root is not None:  # a folder that is gone would look empty
                self._require()
            foreign = foreign_keys.listing(self._options, self._where, prefix) if self._root is None else None
            yield from pages(self._store, prefix, self._options.patience_s, foreign)

    def _read(self, key: str, most: int | None) -> memoryview:
        answer = obstore.get(self._store, key)
        if most is not None and answer.meta["size"] > most:
            raise self._too_large(key, answer.meta["size"], most)
        return memoryview(answer.bytes())

    def _read_cloud(self, cloud: CloudBucket, key: str, most: int | None) -> memoryview:
        data = memoryview(cloud.get(key) if most is None else cloud.get_range(key, 0, most + 1))
        if most is not None and len(data) > most:
            raise self._too_large(key, cloud.head(key).size, most)
        return data

    def _too_large(self, key: str, size: int, most: int) -> ChunkError:
        return ChunkError(
            f"{key} in the bucket {self.name!r} has {size:,} bytes, and {most:,} at most were written there",
            "Bring it back from a copy of the bucket",
        )

    def _is_there(self, key: str) -> bool:
        with self._faults(key):
            try:
                return bool(self._head(key))
            except (FileNotFoundError, ObjectMissing):  # or no bucket, which `_create` finds out
                return False

    def _head(self, key: str) -> ObjectInfo:
        if self._cloud is not None:
            return self._cloud.head(key)
        answer = self._ask(lambda: obstore.head(self._store, key))
        etag = answer["e_tag"]
        if etag is None and self._root is None:  # a web server, with a page for every address
            raise faults.not_s3(self._where)
        return ObjectInfo(key, answer["size"], etag.strip('"') if etag else None)

    def _create(self, key: str, view: memoryview) -> bool:
        with self._faults(key):
            if self._cloud is not None:
                return self._cloud.put(key, view, is_new=True)
            if self._root is not None:
                self._require()
                return files.create(self._root, key, view)
            try:
                self._puts.put(key, view, is_new=True)
            except AlreadyExistsError as error:
                if of_obstore(error) is not Passing.NEVER:  # it conflicts with another request, to the end
                    raise
                return False
            return True

    def _check(self, key: str, view: memoryview, sha256: str) -> None:
        """Raises StoreError unless the store has what was sent under `key`. Stores have lied in size and in content."""
        info = self.head(key)
        if info.size == len(view):
            # Only an ETag that is the MD5 proves the content. Buckets that encrypt with keys of their own, and some
            # stores, have ETags of another kind: then the object is read back. A folder has none: we wrote it.
            if self._root is not None or info.etag == hashlib.md5(view, usedforsecurity=False).hexdigest():
                return
            if self._sha256(key) == sha256:
                return
        raise StoreError(
            f"{self._where.place} took {key} and holds something else: {info.size} bytes of {len(view)}",
            "Nothing was committed; do not trust this store before its fault is found",
        )

    def _sha256(self, key: str) -> str:
        return hashlib.sha256(self.get(key)).hexdigest()

    def _require(self) -> None:
        """Raises StoreError when the bucket does not exist."""
        if self._root is not None:
            if not self._root.is_dir():
                raise faults.bucket_missing(self._where)
            return
        # The shortest answer that a bucket which exists can give.
        next(pages(self._store, ".nats3-nothing", self._options.patience_s), None)

    def _faults(self, key: str) -> AbstractContextManager[None]:
        def missing() -> StoreError:
            with self._faults(key):
                self._require()
            return faults.object_missing(self._where, key)

        return faults.translated(self._where, key, missing=missing, explained=self._explained)

    def _explained(self, text: str) -> StoreError:
        if re.search(r"HEAD .* status code: 4", text):
            with self._faults(""):
                self._require()  # the answer to a HEAD gives no reason, that to a listing does
        return faults.explain(self._where, text)

    def _ask(self, request: Callable[[], AnswerT]) -> AnswerT:
        return again(request, self._options.patience_s)

    @cached_property
    def _store(self) -> LocalStore | S3Store:
        if self._root is not None:
            self._require()
            return LocalStore(self._root)
        return self._s3

    @cached_property
    def _s3(self) -> S3Store:
        return s3_store(self._options, self._where, _SILENCE * self._options.patience_s)

    @cached_property
    def _puts(self) -> S3Puts:
        return S3Puts(self._options, self._where, _SILENCE_OF_UPLOADS)
