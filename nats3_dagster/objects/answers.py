"""The answers of a store about its objects."""

from datetime import datetime
from typing import NamedTuple


class ObjectInfo(NamedTuple):
    """The store's metadata of an object."""

    key: str
    size: int  # bytes
    # Without quotes; None where there is none. Of Google's and Azure's clouds the MD5 in hex, if the cloud knows it.
    etag: str | None


class ListedObject(NamedTuple):
    """An object in a listing of a cloud."""

    key: str
    size: int  # bytes
    put_at: datetime


class SignedUrl(NamedTuple):
    """A URL that lets anybody who has it GET one object."""

    url: str
    # When it ends, UTC; None for the URL of a file, which does not end.
    expires_at: datetime | None
    # Whether temporary credentials signed it: it ends with them, if that is earlier.
    is_temporary: bool


class ObjectVersion(NamedTuple):
    """One version of an object, or a delete marker in its place."""

    key: str
    # `null` in S3 for what was put while the bucket kept no versions; None in a store that has no versions at all.
    version_id: str | None
    is_delete_marker: bool
    size: int  # bytes; 0 of a marker
    # Soft delete keeps it: it can be neither read nor deleted before its time.
    is_soft_deleted: bool = False
