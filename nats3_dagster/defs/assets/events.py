"""Events from the catalog: hours, seals and replays as Dagster shows them, for every caller.

Invariant: an event says what the catalog has, so one that is reported again says the same, and has the same version.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterInstance,
    MaterializeResult,
)

from nats3_dagster.archive import status
from nats3_dagster.defs.assets.marks import split
from nats3_dagster.defs.assets.metadata import (
    TABLE_ROWS,
    Metadata,
    export_metadata,
    hour_metadata,
    replay_metadata,
    seal_metadata,
)
from nats3_dagster.defs.assets.versions import EXPORT_CODE, Upstream, replay_version, upstream_events, version_tags
from nats3_dagster.defs.keys import Naming
from nats3_dagster.model import Archive, Replay, ReplayChunk, ReplayHour, Seal
from nats3_dagster.model.export import Export, ExportHour
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# In the marks of events that no run reported.
FROM_CATALOG: Metadata = {"from_catalog": True}
# Rows in the tables of all hours of a replay together: with ten in each, 16,667 hours took 560 MB.
_ALL_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay that has succeeded, as the catalog has it."""

    replay: Replay
    # What it did with each of its hours.
    hours: dict[str, ReplayHour]
    # The results of the last chunks of each hour.
    last: dict[str, list[ReplayChunk]]

    def metadata(self, hour: str | None = None) -> Metadata:
        """Returns the metadata of one hour, or of all."""
        names = [*self.hours] if hour is None else [hour] if hour in self.hours else []
        hours = [self.hours[name] for name in names]
        last = sorted((c for one in hours for c in self.last[one.hour]), key=lambda chunk: chunk.position)
        spec = self.replay.spec
        targets = [t.incarnation.stream for t in self.replay.targets]
        return replay_metadata(hours, last, self.replay.id, targets, f"{spec.read_subject} to {spec.write_subject}")

    def event(
        self, naming: Naming, archive: str, hour: str, *, of: Upstream | None = None, marks: Metadata = FROM_CATALOG
    ) -> AssetMaterialization:
        """Returns the event of an hour; `of`: the hour's chunks as they were when the replay began."""
        upstream = of or Upstream(naming.chunks_key(archive), None)
        version = replay_version(self.replay, self.hours.get(hour))
        return _event(naming.replay_key(archive), hour, self.metadata(hour) | marks, version_tags(version, upstream))

    def preset_event(self, key: AssetKey, hour: str, of: Upstream) -> AssetMaterialization:
        """Returns the event of an hour of a replay by name; `of`: the sealed hour as it was when the replay began."""
        version = replay_version(self.replay, self.hours.get(hour), of.version)
        return _event(key, hour, self.metadata(hour), version_tags(version, of))


def captured_event(key: AssetKey, report: status.HourReport, metadata: Metadata) -> AssetMaterialization:
    """Returns the event of an hour of chunks with this metadata."""
    return _event(key, report.hour, metadata, version_tags(report.content))


def hour_event(naming: Naming, workspace: Workspace, archive: Archive, hour: str) -> AssetMaterialization:
    """Returns the event of an hour of chunks as the catalog has it now, without a run; it takes some milliseconds."""
    report = status.hour(workspace, archive, hour)
    metadata = hour_metadata(report, workspace.settings) | FROM_CATALOG
    return captured_event(naming.chunks_key(archive.name), report, metadata)


def seal_events(
    naming: Naming, workspace: Workspace, instance: DagsterInstance, archive: Archive, seal: Seal, *, asked: bool
) -> Iterator[AssetMaterialization | AssetObservation]:
    """The events that a seal stands for, in a run. Before it come the hour's chunks, where Dagster does not have them
    as they were sealed: of an hour without messages no run reports them. `asked`: the run is not one of the
    seal sensor. Then it is materialized, also where it was sealed before: a backfill counts an hour without an
    event as failed."""
    key, version = naming.sealed_key(archive.name), {seal.hour: seal.content}
    upstream = upstream_events(instance, naming.chunks_key(archive.name), version)[seal.hour]
    if upstream.event is None:
        yield hour_event(naming, workspace, archive, seal.hour)
    total = workspace.catalog.seals.messages(archive)
    event = seal_event(naming, archive, seal, total, workspace.settings, of=upstream, marks={})
    if asked or upstream_events(instance, key, version)[seal.hour].event is None:
        yield event
    else:
        # To materialize it again would ask every asset that depends on it to run once more.
        said = "Sealed again with the same messages, in chunks or an object of another kind"
        yield AssetObservation(key, partition=seal.hour, metadata=event.metadata, description=said)


def seal_event(
    naming: Naming,
    archive: Archive,
    seal: Seal,
    total: int,
    settings: Settings,
    *,
    of: Upstream | None = None,
    marks: Metadata = FROM_CATALOG,
) -> AssetMaterialization:
    """Returns the event of a seal; `total`: the messages of all sealed hours; `of`: the hour's chunks."""
    upstream = of or Upstream(naming.chunks_key(archive.name), seal.content)
    metadata = seal_metadata(archive, seal, total, settings, upstream.key) | marks
    return _event(naming.sealed_key(archive.name), seal.hour, metadata, version_tags(seal.content, upstream))


def export_event(
    naming: Naming,
    archive: Archive,
    export: Export,
    hour: ExportHour,
    total: int,
    *,
    of: Upstream | None = None,
    marks: Metadata = FROM_CATALOG,
) -> AssetMaterialization:
    """Returns the event of an hour that was exported; `total`: the messages of all exported hours; `of`: the hour as it
    was sealed."""
    assert hour.made is not None
    upstream = of or Upstream(naming.sealed_key(archive.name), None)
    metadata = export_metadata(archive, export, hour, total, upstream.key) | marks
    tags = version_tags(hour.made.content, upstream, EXPORT_CODE)
    return _event(naming.export_key(archive.name, export.name), hour.hour, metadata, tags)


def results_of(
    context: AssetExecutionContext, events: Iterable[AssetMaterialization]
) -> Iterator[MaterializeResult | AssetMaterialization]:
    """The events of a step, an hour of its asset each; before them may come those of other assets. Steps of the run
    that come after this one, as checks do, need an output, and are skipped without. That materializes all hours of the
    run with one version: then the event of each hour follows it, and counts. An error comes after the events before
    it."""
    if is_alone(context):
        yield from events
        return
    done: list[AssetMaterialization] = []
    try:
        for event in events:
            done.append(event)
    except BaseException:
        yield from done
        raise
    own = [event for event in done if event.asset_key == context.asset_key]
    yield from (event for event in done if event.asset_key != context.asset_key)
    single = own[0] if len(own) == 1 else None
    yield MaterializeResult(metadata=single and single.metadata, tags=single and single.tags)
    yield from () if single else own


def is_alone(context: AssetExecutionContext) -> bool:
    """True if no step of its run comes after this one."""
    steps, own = context.job_def.graph.dependency_structure, context.op_execution_context.op_handle.name
    return not any(steps.output_to_downstream_inputs_for_node(own).values())


def chunks_now(
    context: AssetExecutionContext, naming: Naming, settings: Settings, name: str, hours: Sequence[str]
) -> dict[str, Upstream]:
    """Returns the chunks of each hour as they are, for what is made of them."""
    return hours_now(context, naming.chunks_key(name), settings, name, hours)


def hours_now(
    context: AssetExecutionContext, upstream: AssetKey, settings: Settings, name: str, hours: Sequence[str]
) -> dict[str, Upstream]:
    """Returns each hour of the asset upstream, by what the archive has of it now."""
    with Workspace(settings) as workspace:
        versions = status.contents(workspace, workspace.catalog.archives.get(name), hours)
    return upstream_events(context.instance, upstream, versions)


def replayed(workspace: Workspace, replay: Replay) -> Replayed:
    """Returns the catalog's record of a replay."""
    replay_chunks, last = workspace.catalog.replay_chunks, dict[str, list[ReplayChunk]]()
    hours = {hour.hour: hour for hour in replay_chunks.hours(replay.id)}
    for chunk in replay_chunks.last(replay.id, min(TABLE_ROWS, max(1, _ALL_ROWS // max(1, len(hours))))):
        last.setdefault(chunk.hour, []).append(chunk)
    return Replayed(replay, hours, last)


def _event(key: AssetKey, hour: str, metadata: Metadata, versions: Mapping[str, str]) -> AssetMaterialization:
    """The materialization of an hour, with the marks of its metadata as tags."""
    shown, tags = split(metadata)
    return AssetMaterialization(key, partition=hour, metadata=shown, tags={**versions, **tags})
