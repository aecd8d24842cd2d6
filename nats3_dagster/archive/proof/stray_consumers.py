"""Stray consumers: objects in the archive's folder that no row has. A capture was killed or came too late, or the
catalog is an older one."""

from collections.abc import Iterator

from nats3_dagster.chunks.consumers import consumers_key
from nats3_dagster.model import Archive
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.workspace import Workspace

_TRUTH = "it may be the truth of a newer catalog"


def stray_consumers(workspace: Workspace, archive: Archive) -> Iterator[tuple[str, str]]:
    """Yields each key, and why the object stays: what was observed after all that is kept of its incarnation may be of
    a newer catalog. Empty where something later is kept. Raises StoreError."""
    spec, catalog = archive.spec, workspace.catalog
    listed = workspace.bucket(spec.bucket).list(archive_prefix(spec.prefix, spec.name))
    keys = [key for key, _ in listed if consumers_key(key)]
    # The catalog is asked after the store: what was kept meanwhile is no stray.
    known = catalog.consumers.known(spec.bucket, keys)
    newest: dict[str, int] = {}
    for incarnation in catalog.coverage.incarnations(archive):
        kept = catalog.consumers.newest(archive, incarnation)
        newest[incarnation.token] = kept.observed_ns if kept else 0
    for key in keys:
        if key not in known and (parts := consumers_key(key)):
            _, token, observed_ns = parts
            yield key, "" if observed_ns < newest.get(token, 0) else _TRUTH
