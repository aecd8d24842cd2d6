"""A bucket of Google Cloud Storage or Azure Blob Storage: its own SDK does the work (clouds/)."""

from collections.abc import Iterator

from nats3_dagster.errors import ObjectMissing
from nats3_dagster.objects import faults, foreign_keys
from nats3_dagster.objects.answers import ListedObject, ObjectInfo, SignedUrl
from nats3_dagster.objects.clouds import CloudBucket


class CloudDriver:
    """A driver of a cloud: see Driver."""

    writes_itself = False

    def __init__(self, cloud: CloudBucket, where: faults.Place) -> None:
        self._cloud, self._where = cloud, where

    def put(self, key: str, data: memoryview, *, is_new: bool) -> bool:
        faults.check_key(key)
        return self._cloud.put(key, data, is_new=is_new)

    def get(self, key: str, most: int | None) -> memoryview:
        faults.check_key(key)
        data = memoryview(self._cloud.get(key) if most is None else self._cloud.get_range(key, 0, most + 1))
        if most is not None and len(data) > most:
            raise faults.too_large(self._where, key, self._cloud.head(key).size, most)
        return data

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        faults.check_key(key)
        return memoryview(self._cloud.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        faults.check_key(key)
        return self._cloud.head(key)

    def is_there(self, key: str) -> bool:
        try:
            return bool(self.head(key))
        except ObjectMissing:
            return False

    def listed(self, prefix: str) -> Iterator[ListedObject]:
        faults.check_key(prefix)
        return self._cloud.list(foreign_keys.folder_prefix(prefix))

    def folders(self, prefix: str) -> list[str]:
        faults.check_key(prefix)
        return [*self._cloud.folders(foreign_keys.folder_prefix(prefix))]

    def delete(self, key: str) -> None:
        faults.check_key(key)
        self._cloud.delete(key)

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        faults.check_key(key)
        return self._cloud.sign(key, expires_s)
