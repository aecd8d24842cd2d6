"""Listings, page by page. A page that fails is asked for again, after the last key that was listed.

Invariant: a listing of S3 that has an object ends where the store has nothing after its last key. obstore ends one at a
page without a token to go on with, also where the store says that more follow.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import InvalidPathError

from nats3_dagster.objects.retries import again

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ObjectMeta

    from nats3_dagster.objects.foreign_keys import Listing

_PAGE: Final = 1000  # S3's own limit


def pages(
    store: Any, prefix: str, patience_s: float, foreign: "Listing | None" = None
) -> "Iterator[Sequence[ObjectMeta]]":
    """The objects under `prefix` (whole parts of a path), in the store's order. `foreign`: of S3, goes on where there
    are keys that obstore does not take. Raises errors of obstore."""
    last: str | None = None
    # The key after which `listing` began.
    start: str | None = None
    listing: Iterator[Any] | None = None

    def next_page() -> "Sequence[ObjectMeta] | None":
        nonlocal listing, start
        if listing is None:
            start = last
            listing = iter(obstore.list(store, prefix or None, offset=last, chunk_size=_PAGE))  # pyright: ignore[reportUnknownMemberType]
        try:
            return next(listing, None)
        except Exception:
            listing = None  # it does not go on after an error
            raise

    try:
        while True:
            page = again(next_page, patience_s)
            if page and foreign is not None and start is not None:
                page = [item for item in page if item["path"] > start]  # some stores know no start
            if page:
                last = page[-1]["path"]
                yield page
            elif foreign is None or last == start:
                return
            else:
                listing = None
    except InvalidPathError:
        if foreign is None:
            raise
        yield from foreign(last)
