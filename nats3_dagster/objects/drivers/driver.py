"""The methods that a bucket has in each kind of store."""

from collections.abc import Iterator
from typing import Protocol

from nats3_dagster.objects.answers import ListedObject, ObjectInfo, SignedUrl


class Driver(Protocol):
    """A bucket of one kind of store. Safe to use from several threads. Every method raises StoreError; ObjectMissing
    where the bucket has no such object."""

    # True where this process itself writes the bytes: the size proves that they are there.
    writes_itself: bool

    def put(self, key: str, data: memoryview, *, is_new: bool) -> bool:
        """Store an object. `is_new` stores it only if there is none: returns False if there is one."""
        ...

    def get(self, key: str, most: int | None) -> memoryview:
        """The whole object. Raises ChunkError for one of more than `most` bytes."""
        ...

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        """`length` bytes from `start` on, fewer where the object ends before."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Size and ETag."""
        ...

    def is_there(self, key: str) -> bool:
        """True if there is the object. Asks nothing else: False may also be for a missing bucket."""
        ...

    def listed(self, prefix: str) -> Iterator[ListedObject]:
        """The objects under `prefix` (whole parts of a path), in the store's order."""
        ...

    def folders(self, prefix: str) -> list[str]:
        """The folders directly under `prefix` (whole parts of a path), without a slash at their end."""
        ...

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there is as good as deleted."""
        ...

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        """A URL for a GET of the object, valid for this time."""
        ...
