"""The methods that a bucket of each cloud has."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

from nats3_dagster.objects.answers import ListedObject, ObjectInfo, ObjectVersion, SignedUrl

# Statuses of HTTP that may be others a moment later.
BUSY: Final = {408, 429, 500, 502, 503, 504}
# Objects of a page of a listing.
PAGE: Final = 1000
# Seconds for which the cloud may be silent: an upload's answer comes at its end.
SILENCE_OF_UPLOADS_S: Final = 120.0


class CloudBucket(Protocol):
    """A bucket or container. Safe to use from several threads. Every method raises StoreError; ObjectMissing where the
    bucket has no such object, AccessRefused where this login may not do it."""

    def put(self, key: str, data: memoryview, *, is_new: bool) -> bool:
        """Store an object, whose bytes the cloud compares with their MD5. `is_new` stores it only if there is none:
        returns False if there is one."""
        ...

    def get(self, key: str, version_id: str | None = None) -> bytes:
        """The whole object, or one of its versions."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start` on, fewer where the object ends before."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Size and MD5."""
        ...

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """The objects whose key begins with these characters, ascending."""
        ...

    def folders(self, prefix: str) -> Iterator[str]:
        """The parts up to the next slash of keys that begin with these characters, without that slash."""
        ...

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there is as good as deleted. The cloud may keep it as a version."""
        ...

    def versions(self, prefix: str) -> Iterator[ObjectVersion]:
        """All that the cloud keeps of objects whose key begins with these characters: versions, snapshots, and what
        soft delete keeps."""
        ...

    def delete_version(self, key: str, version_id: str) -> None:
        """Delete a version; one that is not there is as good as deleted. Soft delete may keep it for its time."""
        ...

    def locked_until(self, key: str, version_id: str) -> datetime | None:
        """Returns the time until which a retention policy, or soft delete, keeps a version; None if the cloud names no
        time."""
        ...

    def exists(self) -> bool:
        """True if there is such a bucket, and this login may list it."""
        ...

    def create(self) -> bool:
        """Create the bucket; False if this account has it."""
        ...

    def sign(self, key: str, expires_s: int) -> SignedUrl:
        """A URL for a GET of the object, valid for this time."""
        ...

    def address(self) -> str:
        """The bucket's address as engines read it, without a slash at its end."""
        ...

    def identity(self) -> str:
        """The login in words, never with a secret."""
        ...
