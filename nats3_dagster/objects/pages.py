"""Listings, page by page. A page that fails is asked for again, after the last key that was listed."""

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
    """The objects under `prefix` (whole parts of a path), in the store's order. `foreign`: goes on where there are keys
    that obstore does not take. Raises errors of obstore."""
    last: str | None = None
    listing: Iterator[Any] | None = None

    def next_page() -> "Sequence[ObjectMeta] | None":
        nonlocal listing
        if listing is None:
            listing = iter(obstore.list(store, prefix or None, offset=last, chunk_size=_PAGE))  # pyright: ignore[reportUnknownMemberType]
        try:
            return next(listing, None)
        except Exception:
            listing = None  # it does not go on after an error
            raise

    try:
        while page := again(next_page, patience_s):
            last = page[-1]["path"]
            yield page
    except InvalidPathError:
        if foreign is None:
            raise
        yield from foreign(last)
