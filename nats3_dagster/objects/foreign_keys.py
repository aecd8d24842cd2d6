"""Listings of a bucket of S3 where another program has keys that obstore does not take: with an empty part, `.`, `..`,
or a control character. And the folders of any bucket of S3.

Invariant: exactly these are left out. nats3 writes no key of this kind.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from nats3_dagster.errors import StoreError
from nats3_dagster.objects.faults import Place
from nats3_dagster.objects.sdk_calls import Request, send
from nats3_dagster.objects.store_options import StoreOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ObjectMeta

    # The pages of a listing after a key.
    Listing = Callable[[str | None], Iterator[Sequence[ObjectMeta]]]

PAGE = 1000  # S3's own limit
_FOREIGN: Final = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f]")


def listing(options: StoreOptions, where: Place, prefix: str) -> "Listing":
    """The objects under `prefix` (whole parts of a path), in the store's order. Raises StoreError."""

    def after(key: str | None) -> "Iterator[Sequence[ObjectMeta]]":
        start = {"StartAfter": key} if key else {}
        for answer in _answers(options, where, Prefix=folder_prefix(prefix), **start):
            if page := [_meta(one) for one in answer.get("Contents", ()) if not _FOREIGN.search(one["Key"])]:
                yield page

    return after


def folders(options: StoreOptions, where: Place, prefix: str) -> list[str]:
    """The folders directly under `prefix` (whole parts of a path), without a slash at their end. Raises StoreError."""
    answers = _answers(options, where, Prefix=folder_prefix(prefix), Delimiter="/")
    found = [one["Prefix"].removesuffix("/") for answer in answers for one in answer.get("CommonPrefixes", ())]
    return [folder for folder in found if not _FOREIGN.search(folder)]


def _answers(options: StoreOptions, where: Place, **arguments: Any) -> Iterator[Any]:
    token: dict[str, str] = {}
    while True:
        answer = send(options, where, Request.LIST, MaxKeys=PAGE, **arguments, **token)
        yield answer
        if not answer.get("IsTruncated"):
            return
        following = answer.get("NextContinuationToken")
        if not following or following == token.get("ContinuationToken"):
            raise StoreError(f"{where.place} does not go on with its list of objects", "Look at the store's own log")
        token = {"ContinuationToken": following}


def folder_prefix(prefix: str) -> str:
    """The characters that the keys under `prefix` (whole parts of a path) begin with."""
    return f"{prefix.rstrip('/')}/" if prefix else ""


def _meta(one: Any) -> "ObjectMeta":
    return {
        "path": one["Key"],
        "last_modified": one["LastModified"],
        "size": one["Size"],
        "e_tag": one.get("ETag"),
        "version": None,
    }
