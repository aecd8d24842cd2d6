"""The buckets of an archive and of its exports: there before anything depends on them."""

from collections.abc import Sequence

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.objects import StoreOptions, bucket_exists
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace


def missing_buckets(
    workspace: Workspace, spec: ArchiveSpec, names: Sequence[str], *, create_bucket: bool
) -> tuple[str, ...]:
    """Returns the archive's buckets of `names` that do not exist, and are to be made. Raises OperatorError for them
    unless `create_bucket`, StoreError if the store refuses the answer."""
    store = workspace.settings.store
    missing = tuple(name for name in names if not bucket_exists(store, name))
    if missing and not create_bucket:
        name = missing[0]
        role, field = ("bucket", "bucket") if name == spec.bucket else ("bucket of a copy", "copies")
        raise absent(store, name, role, Next.CREATE_BUCKET(), field)
    return missing


def absent(store: StoreOptions, name: str, role: str, step: Step | str, field: str) -> OperatorError:
    """The OperatorError for a bucket that does not exist. `role`: its noun; `field`: the one that names it."""
    return OperatorError(f"The {role} {name!r} does not exist in {store.of(name).place}", step, field=field)
