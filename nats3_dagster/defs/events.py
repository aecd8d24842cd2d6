"""Events from the catalog: hours, seals and replays as Dagster shows them, for every caller.

Invariant: an event says what the catalog has, so one that is reported again says the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dagster import AssetKey, AssetMaterialization

from nats3_dagster.archive import status
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.marks import split
from nats3_dagster.defs.metadata import Metadata, export_metadata, hour_metadata, replay_metadata, seal_metadata
from nats3_dagster.model import Archive, Replay, ReplayChunk, Seal
from nats3_dagster.model.export import Export, ExportHour
from nats3_dagster.replay.status import chunks_by_hour
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# In the marks of events that no run reported.
FROM_CATALOG: Metadata = {"from_catalog": True}


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay that has succeeded, as the catalog has it."""

    replay: Replay
    # Its chunks by hour.
    hours: dict[str, list[ReplayChunk]]

    def metadata(self, hour: str | None = None) -> Metadata:
        """Returns the metadata of one hour, or of all."""
        chunks = self.hours.get(hour, []) if hour else [c for chunks in self.hours.values() for c in chunks]
        spec = self.replay.spec
        targets = [t.incarnation.stream for t in self.replay.targets]
        return replay_metadata(chunks, self.replay.id, targets, f"{spec.read_subject} to {spec.write_subject}")

    def event(self, naming: Naming, archive: Archive, hour: str) -> AssetMaterialization:
        """Returns the event of an hour, without a run."""
        return _event(naming.replay_key(archive.name), hour, self.metadata(hour))


def event_of(key: AssetKey, hour: str, metadata: Metadata) -> AssetMaterialization:
    """The materialization of an hour, with the marks of its metadata as tags."""
    shown, tags = split(metadata, hour)
    return AssetMaterialization(key, partition=hour, metadata=shown, tags=tags)


def seal_events(naming: Naming, workspace: Workspace, archive: Archive, seal: Seal) -> Iterator[AssetMaterialization]:
    """The materializations that a seal stands for, in a run."""
    metadata = seal_metadata(archive, seal, workspace.settings)
    yield event_of(naming.sealed_key(archive.name), seal.hour, metadata)
    if not seal.chunks:
        # The archive has nothing of this hour, and its partition would look as if it still had to be captured.
        nothing = hour_metadata(status.hour(workspace, archive, seal.hour), workspace.settings)
        yield event_of(naming.chunks_key(archive.name), seal.hour, nothing)


def seal_event(naming: Naming, archive: Archive, seal: Seal, settings: Settings) -> AssetMaterialization:
    """Returns the event of a seal, without a run."""
    return _event(naming.sealed_key(archive.name), seal.hour, seal_metadata(archive, seal, settings))


def hour_event(naming: Naming, workspace: Workspace, archive: Archive, hour: str) -> AssetMaterialization:
    """Returns the event of an hour of chunks as the catalog has it now, without a run; it takes some milliseconds."""
    report = status.hour(workspace, archive, hour)
    return _event(naming.chunks_key(archive.name), hour, hour_metadata(report, workspace.settings))


def export_event(naming: Naming, archive: Archive, export: Export, hour: ExportHour) -> AssetMaterialization:
    """Returns the event of an hour that was exported, without a run."""
    return _event(naming.export_key(archive.name, export.name), hour.hour, export_metadata(archive, export, hour))


def replayed(workspace: Workspace, replay: Replay) -> Replayed:
    """Returns the catalog's record of a replay."""
    return Replayed(replay, chunks_by_hour(workspace, replay))


def _event(key: AssetKey, hour: str, metadata: Metadata) -> AssetMaterialization:
    return event_of(key, hour, {**metadata, **FROM_CATALOG})
