"""A bucket of a `file://` store: a folder of that folder. Writing is files.py's, the rest is obstore's."""

from pathlib import Path

import obstore
from obstore.store import LocalStore

from nats3_dagster.objects import faults, files
from nats3_dagster.objects.answers import ObjectInfo, SignedUrl
from nats3_dagster.objects.drivers.obstore_driver import ObstoreDriver
from nats3_dagster.objects.store_options import StoreOptions


class FolderDriver(ObstoreDriver):
    """A driver of folders: see Driver. A folder that is gone would look empty: each use asks for it."""

    writes_itself = True

    def __init__(self, options: StoreOptions, where: faults.Place, root: Path) -> None:
        super().__init__(options, where)
        self._root = root

    def put(self, key: str, data: memoryview, *, is_new: bool) -> bool:
        with self._faults(key):
            self._require()
            if is_new:
                return files.create(self._root, key, data)
            files.replace(self._root, key, data)
            return True

    def folders(self, prefix: str) -> list[str]:
        with self._faults(prefix):
            self._require()
            found = self._ask(lambda: obstore.list_with_delimiter(self._store, prefix or None))  # pyright: ignore[reportUnknownMemberType]
            return [folder for folder in found["common_prefixes"] if folder]

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        with self._faults(key):
            return SignedUrl((self._root / key).absolute().as_uri(), None, is_temporary=False)

    def _foreign(self, prefix: str) -> None:
        self._require()

    def _info(self, key: str, size: int, etag: str | None) -> ObjectInfo:
        return ObjectInfo(key, size, etag or None)

    def _require(self) -> None:
        if not self._root.is_dir():
            raise faults.bucket_missing(self._where)

    def _open(self) -> LocalStore:
        self._require()
        return LocalStore(self._root)
