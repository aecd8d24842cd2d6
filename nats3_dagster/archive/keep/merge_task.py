"""The merging of an hour as a task: its input, its work, its outcome. A worker of Spark imports it, and no catalog.

Invariant: a foreseen failure of an hour is in its outcome, so that it does not stop the other hours. What the task put
into the store is in the outcome too, whether the hour failed or not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nats3_dagster.archive.keep.merge import Merged, merge
from nats3_dagster.archive.keep.runs import Run
from nats3_dagster.archive.stored.erasure_record import list_records
from nats3_dagster.errors import Conflict, Nats3Error
from nats3_dagster.model import ArchiveSpec, ChunkMeta
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.objects import Bucket, StoreOptions, delete_versions
from nats3_dagster.steps import Next


@dataclass(frozen=True, slots=True)
class MergeTask:
    """The chunks of an hour that are to be merged. It pickles."""

    spec: ArchiveSpec
    store: StoreOptions
    hour: str
    runs: tuple[Run, ...]
    # The erasures that were known when it was planned, by the SHA-256 of their records.
    records: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HourMerged:
    """The outcome of an hour. It pickles."""

    hour: str
    merged: tuple[Merged, ...]
    # Those of the new objects that were not in the store before.
    put: tuple[ChunkMeta, ...]
    # The JSON of the error of an hour that failed; None of one that did not.
    error: str | None = None


# Merges the hours of these tasks: the outcomes, and what ended the others, if anything did.
Perform = Callable[[Sequence[MergeTask]], tuple[Sequence[HourMerged], Nats3Error | None]]


def merge_hour(task: MergeTask, bucket_of: Callable[[str], Bucket] | None = None) -> HourMerged:
    """Merge the runs of an hour. `bucket_of`: the bucket of a name; without it one of the task's store."""
    buckets: dict[str, Bucket] = {}

    def opened(name: str) -> Bucket:
        return buckets.setdefault(name, Bucket(task.store, name))

    put: list[ChunkMeta] = []
    merged: list[Merged] = []
    try:
        for run in task.runs:
            merged += merge(bucket_of or opened, task.spec, run, put)
            _check_records(task, bucket_of or opened, put)
    except Nats3Error as error:
        return HourMerged(task.hour, (), tuple(put), error.to_json())
    return HourMerged(task.hour, tuple(merged), tuple(put))


def _check_records(task: MergeTask, bucket_of: Callable[[str], Bucket], put: Sequence[ChunkMeta]) -> None:
    """Raises Conflict if messages of the archive were erased meanwhile: the driver, which keeps erasures waiting, may
    be gone. What was put is removed before that, with its versions."""
    spec = task.spec
    there = list_records(bucket_of(spec.bucket), archive_prefix(spec.prefix, spec.name))
    if tuple(sorted(there)) != task.records:
        for meta in put:
            delete_versions(task.store, meta.bucket, meta.key)
        raise Conflict(f"Messages of archive {spec.name} were erased meanwhile", Next.COMPACT(archive=spec.name))
