"""Objects that no live chunk has any more: delete them from the store.

The rule kept here: the catalog lets go first, then the object goes. Postgres gives out a key only while no live chunk
has it (see catalog.removals), and a process that dies in between leaves an object that the next call finds again.
"""

from collections.abc import Callable

from nats3_dagster.catalog import Catalog
from nats3_dagster.objects import Bucket, StoreOptions

# Claimed, deleted and finished together: Postgres is asked three times for so many objects.
PAGE = 500


def remove_dead(
    catalog: Catalog,
    options: StoreOptions,
    archive_name: str,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Delete the objects of the archive's retired chunks; how many. Raises StoreError; the next call does the rest."""
    # An archive deleted and made again captures the same bytes under the same key: two dead chunks, one object.
    dead = {(d.bucket, d.key): None for d in catalog.removals.dead_objects(archive_name)}
    removed = 0
    for bucket_name in sorted({bucket for bucket, _ in dead}):
        bucket = Bucket(options, bucket_name)
        keys = [key for of, key in dead if of == bucket_name]
        for at in range(0, len(keys), PAGE):
            claimed = catalog.removals.claim(bucket_name, keys[at : at + PAGE])
            gone: list[str] = []
            try:
                for key in claimed:
                    bucket.delete(key)
                    gone.append(key)
                    told(removed + len(gone), len(dead))
            finally:
                catalog.removals.finish(bucket_name, gone)
            removed += len(gone)
    return removed
