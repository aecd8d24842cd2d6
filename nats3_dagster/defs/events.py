"""Events from the catalog: what Dagster learns of hours, seals and replays, in a run and once more after its own
storage was lost (`nats3 dev resync`).

Invariant: an event says what the catalog has, so one that is reported again says the same.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from dagster import AssetKey, AssetMaterialization, DagsterInstance

from nats3_dagster.archive import status
from nats3_dagster.archive.status import HourReport
from nats3_dagster.defs.instance import dagster_home
from nats3_dagster.defs.keys import chunks_key, replay_key, sealed_key
from nats3_dagster.defs.metadata import Metadata, hour_metadata, replay_metadata, seal_metadata
from nats3_dagster.model import Archive, Replay, ReplayChunk, Seal
from nats3_dagster.replay.status import chunks_by_hour, replays
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Called with (archive, hours reported, hours at most).
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay that has succeeded, as the catalog has it."""

    replay: Replay
    # Its chunks by hour; `retired` for those that the archive no longer has.
    hours: dict[str, list[ReplayChunk]]

    def metadata(self, hour: str | None = None) -> Metadata:
        """Of one hour, or of all."""
        chunks = self.hours.get(hour, []) if hour else [c for chunks in self.hours.values() for c in chunks]
        spec = self.replay.spec
        targets = [t.incarnation.stream for t in self.replay.targets]
        return replay_metadata(chunks, self.replay.id, targets, f"{spec.read_subject} to {spec.write_subject}")


@dataclass(frozen=True, slots=True)
class Resynced:
    """What was reported of one archive."""

    archive: str
    # Hours of each asset that were reported.
    chunks: int
    sealed: int
    replay: int
    # Hours that Dagster has as captured, and the catalog has not.
    unknown: tuple[str, ...]


def seal_events(archive: Archive, seal: Seal, settings: Settings) -> Iterator[AssetMaterialization]:
    """The materializations that a seal stands for."""
    yield AssetMaterialization(sealed_key(archive.name), partition=seal.hour, metadata=seal_metadata(seal, settings))
    if not seal.chunks:
        # Nothing was stored in this hour, and its partition would look as if it still had to be captured.
        nothing = hour_metadata(HourReport(archive, seal.hour, (), ()), settings)
        yield AssetMaterialization(chunks_key(archive.name), partition=seal.hour, metadata=nothing)


def replayed(workspace: Workspace, replay: Replay) -> Replayed:
    """What the catalog has of a replay."""
    return Replayed(replay, chunks_by_hour(workspace, replay))


def resync(settings: Settings, progress: Progress = lambda archive, done, total: None) -> list[Resynced]:
    """Report materializations of all archives to the instance that DAGSTER_HOME names, or to the one under .nats3.
    Raises CannotLoad or Nats3Error."""
    os.environ.setdefault("DAGSTER_HOME", str(dagster_home()))
    with DagsterInstance.get() as instance, Workspace(settings) as workspace:
        every = [totals.archive for totals in status.archives(workspace)]
        return [resync_archive(instance, workspace, archive, progress) for archive in every]


def resync_archive(
    instance: DagsterInstance, workspace: Workspace, archive: Archive, progress: Progress
) -> Resynced:
    """Report the hours of one archive that the instance does not know, with `resynced` in their metadata."""
    keys = {"chunks": chunks_key(archive.name), "sealed": sealed_key(archive.name), "replay": replay_key(archive.name)}
    known = {key: instance.get_materialized_partitions(key) for key in keys.values()}
    counts = dict.fromkeys(keys, 0)
    hours, seals = status.hours(workspace, archive), status.seals(workspace, archive)
    unknown = known[keys["chunks"]] - {*hours, *(s.hour for s in seals if not s.chunks)}
    missing = _missing_events(workspace, archive, hours, seals, known)
    for done, event in enumerate(missing, 1):
        instance.report_runless_asset_event(event.with_metadata({**event.metadata, "resynced": True}))
        known[event.asset_key].add(str(event.partition))
        counts[event.asset_key.path[-1]] += 1
        progress(archive.name, done, len(hours) + len(seals))
    return Resynced(archive.name, **counts, unknown=tuple(sorted(unknown)))


def _missing_events(
    workspace: Workspace, archive: Archive, hours: Sequence[str], seals: Sequence[Seal],
    known: Mapping[AssetKey, Set[str]],
) -> Iterator[AssetMaterialization]:  # fmt: skip
    """What Dagster does not know, described only when it does not: an hour takes some milliseconds."""
    settings = workspace.settings
    chunks, sealed, replay = chunks_key(archive.name), sealed_key(archive.name), replay_key(archive.name)
    for hour in hours:
        if hour not in known[chunks]:
            report = status.hour(workspace, archive, hour)
            yield AssetMaterialization(chunks, partition=hour, metadata=hour_metadata(report, settings))
    for seal in seals:
        if seal.hour not in known[sealed]:
            yield from (e for e in seal_events(archive, seal, settings) if seal.hour not in known[e.asset_key])
    for one in replays(workspace, archive):
        # Replays of the command line are no materializations.
        missing = [hour for hour in one.spec.selection.hours if hour not in known[replay]]
        if missing and one.state == "succeeded" and one.run_ids:
            done = replayed(workspace, one)
            yield from (AssetMaterialization(replay, partition=h, metadata=done.metadata(h)) for h in missing)
