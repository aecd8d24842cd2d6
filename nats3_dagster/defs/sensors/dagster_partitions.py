"""Dagster's partitions of an asset, their newest events, and how to wipe them; and the exports of the catalog by the
keys of their assets.

Nothing here is decided: see reconcile.py.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster import AssetCheckEvaluation, AssetKey, AssetRecordsFilter, DagsterEventType, DagsterInstance

from nats3_dagster.defs.assets.marks import marks_of
from nats3_dagster.defs.keys import CHECKS, Naming
from nats3_dagster.model import Archive, ArchiveVersion
from nats3_dagster.model.export import Export
from nats3_dagster.workspace import Workspace

# Events that are read by one query, of 1,000 that Dagster gives at most; and partitions that one query names.
PAGE = 500
# Events of an asset that are compared at once, in some 2 s.
COMPARED = 5000
_MATERIALIZED = DagsterEventType.ASSET_MATERIALIZATION


@dataclass(frozen=True, slots=True)
class Newest:
    """Dagster's newest events of some partitions of an asset."""

    # The metadata and marks of the newest event of each.
    metadata: Mapping[str, Mapping[str, Any]]
    # Those among them that were not expected.
    extra: set[str]
    # The storage id up to which all events of the asset are among them, or were compared before.
    reached: int

    def says(self, partition: str, name: str) -> tuple[Any, Any]:
        """Returns the id of the archive of the newest event, and one value of it; None for what it does not have."""
        event = self.metadata.get(partition, {})
        return event.get("archive_id"), event.get(name)

    def is_foreign(self, archive_id: str) -> bool:
        """True if an event is of another archive, an earlier one of this name."""
        return any(event.get("archive_id", archive_id) != archive_id for event in self.metadata.values())


def newest_events(instance: DagsterInstance, keys: Iterable[AssetKey]) -> dict[AssetKey, int]:
    """The storage id of the newest materialization of each asset that Dagster lists; 0 where it has none. An asset that
    was wiped, and had no event since, is not listed. One query; some 0.4 ms for each asset."""
    entries = (record.asset_entry for record in instance.get_asset_records(list(keys)))
    return {entry.asset_key: entry.last_materialization_storage_id or 0 for entry in entries}


def newest_of(
    instance: DagsterInstance,
    key: AssetKey,
    begin: int,
    end: int,
    known: Collection[str],
    expected: Collection[str],
    changed: Iterable[str],
) -> Newest:
    """Returns Dagster's newest events of the `known` partitions that are not `expected`, that `changed`, or that have
    an event after `begin`: none if that is the `end`, the newest event of the asset. COMPARED of each, the oldest
    events first."""
    ids: Mapping[str, int] = {}
    if begin != end:
        # An event may become visible after a later one: then the newest one goes back.
        ids = instance.get_latest_storage_id_by_partition(key, _MATERIALIZED, after_cursor=min(begin, end) - 1)
    page = sorted(ids, key=ids.__getitem__)[:COMPARED]
    extra = set(sorted({*known}.difference(expected))[:COMPARED])
    metadata = _metadata(instance, key, {*page, *extra, *changed}.intersection(known))
    return Newest(metadata, extra, end if len(page) == len(ids) else ids[page[-1]])


def forget(instance: DagsterInstance, naming: Naming, archive: str, key: AssetKey, *, keep_checks: bool) -> None:
    """Wipe the asset: Dagster cannot wipe single partitions. The results of its checks go with it; with `keep_checks`
    the newest of each is reported once more, for it is of the archive as a whole, and an alarm must not be lost."""
    evaluations = _evaluations(instance, naming, archive) if keep_checks and key == naming.chunks_key(archive) else []
    instance.wipe_assets([key])
    for evaluation in evaluations:
        instance.report_runless_asset_event(evaluation)


def _evaluations(instance: DagsterInstance, naming: Naming, archive: str) -> list[AssetCheckEvaluation]:
    found: list[AssetCheckEvaluation] = []
    for check in CHECKS:
        record = instance.get_latest_asset_check_evaluation_record(naming.check_key(archive, check))
        event = record.event.dagster_event if record and record.event else None
        if event is not None and isinstance(event.event_specific_data, AssetCheckEvaluation):
            found.append(event.event_specific_data)
    return found


def _metadata(instance: DagsterInstance, key: AssetKey, partitions: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """The metadata and marks of the newest event of each partition that has one; some 0.5 ms for each."""
    if not partitions:
        return {}
    named = set(partitions) if len(partitions) <= PAGE else None
    ids = instance.get_latest_storage_id_by_partition(key, _MATERIALIZED, named)
    wanted = [ids[partition] for partition in partitions if partition in ids]
    metadata: dict[str, Mapping[str, Any]] = {}
    for at in range(0, len(wanted), PAGE):
        chosen = AssetRecordsFilter(asset_key=key, storage_ids=wanted[at : at + PAGE])
        for record in instance.fetch_materializations(chosen, limit=PAGE).records:
            event = record.asset_materialization
            assert event is not None
            hour = str(event.partition)
            shown = {name: value.value for name, value in event.metadata.items()}
            metadata[hour] = shown | marks_of(event.tags or {})
    return metadata


@dataclass(frozen=True, slots=True)
class Exports:
    """The exports of all archives."""

    naming: Naming
    # By archive id.
    live: Mapping[int, Sequence[Export]]

    @classmethod
    def read(cls, workspace: Workspace, naming: Naming) -> "Exports":
        live: dict[int, list[Export]] = {}
        for export in workspace.catalog.exports.all():
            live.setdefault(export.archive_id, []).append(export)
        return cls(naming, live)

    def of(self, archive: Archive | ArchiveVersion) -> Sequence[Export]:
        return self.live.get(archive.id, ())

    def keys(self, archive: Archive | ArchiveVersion) -> list[AssetKey]:
        return [self.naming.export_key(archive.name, export.name) for export in self.of(archive)]


def gone_exports(workspace: Workspace, naming: Naming) -> list[AssetKey]:
    """The keys of exports that were deleted, also of those that there are again."""
    return [naming.export_key(archive, name) for archive, name in sorted(workspace.catalog.exports.deleted_names())]
