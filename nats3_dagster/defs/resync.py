"""Resync: tell Dagster once more what the catalog holds, after Dagster's own storage was lost.

The rule kept here: the catalog is the truth. What Dagster knows already is not told again, and what it believes and the
catalog does not have is named.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from dagster import AssetKey, AssetMaterialization, DagsterInstance

from nats3_dagster.defs.captures import describe_hour
from nats3_dagster.defs.instance import dagster_home
from nats3_dagster.defs.replays import replayed
from nats3_dagster.defs.seals import seal_events
from nats3_dagster.model import Archive, Seal
from nats3_dagster.replay.status import replays
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Resynced:
    """Of one archive: how many hours of each asset were told to Dagster, and hours that it has as captured and the
    catalog does not."""

    archive: str
    chunks: int
    sealed: int
    replay: int
    unknown: tuple[str, ...]


def resync(settings: Settings, told: Told = lambda archive, done, total: None) -> list[Resynced]:
    """Report materializations of all archives to the instance that DAGSTER_HOME names, or to the one under .nats3.
    Raises CannotLoad or Nats3Error."""
    os.environ.setdefault("DAGSTER_HOME", str(dagster_home(settings)))
    with DagsterInstance.get() as instance, Workspace(settings) as ws:
        return [resync_archive(instance, ws, archive, told) for archive in ws.catalog.archives.all()]


def resync_archive(
    instance: DagsterInstance, ws: Workspace, archive: Archive, told: Told = lambda archive, done, total: None
) -> Resynced:
    """Report the hours of one archive that the instance does not know, with `resynced` in their metadata."""
    keys = {name: AssetKey([archive.name, name]) for name in ("chunks", "sealed", "replay")}
    known = {key: instance.get_materialized_partitions(key) for key in keys.values()}
    counts = dict.fromkeys(keys, 0)
    hours = [h.hour for h in ws.catalog.hours.select(archive)]
    seals = [s for s in ws.catalog.seals.select(archive) if s.valid]
    believed = known[keys["chunks"]] - {*hours, *(s.hour for s in seals if not s.chunks)}
    lacking = _lacking(ws, archive, hours, seals, known)
    for done, event in enumerate(lacking, 1):
        instance.report_runless_asset_event(event.with_metadata({**event.metadata, "resynced": True}))
        known[event.asset_key].add(str(event.partition))
        counts[event.asset_key.path[-1]] += 1
        told(archive.name, done, len(hours) + len(seals))
    return Resynced(archive.name, **counts, unknown=tuple(sorted(believed)))


def _lacking(
    ws: Workspace, archive: Archive, hours: Sequence[str], seals: Sequence[Seal], known: Mapping[AssetKey, Set[str]]
) -> Iterator[AssetMaterialization]:
    """What Dagster does not know, described only when it does not: an hour takes some milliseconds."""
    catalog, store = ws.catalog, ws.settings.store
    chunks, sealed, replay = known
    for hour in hours:
        if hour not in known[chunks]:
            yield AssetMaterialization(chunks, partition=hour, metadata=describe_hour(catalog, store, archive, hour))
    for seal in seals:
        if seal.hour not in known[sealed]:
            yield from (e for e in seal_events(archive, seal, store) if seal.hour not in known[e.asset_key])
    for record in replays(ws, archive):
        # Those of the command line are no materializations.
        lost = [hour for hour in record.spec.selection.hours if hour not in known[replay]]
        if lost and record.state == "succeeded" and record.run_ids:
            done = replayed(ws, record)
            yield from (AssetMaterialization(replay, partition=h, metadata=done.metadata(h)) for h in lost)
