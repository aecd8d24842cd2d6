"""Plan: what a replay would publish and into which streams, checked before its first message goes out."""

from collections.abc import Collection
from dataclasses import dataclass

from nats3_dagster.archive.selected.chosen import Chosen, choose, choose_next, removed_notes
from nats3_dagster.archive.selected.extent import Extent
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Archive, ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.replay.planning.creation import Creation, check_creation
from nats3_dagster.replay.planning.destinations import (
    archived_subjects,
    check_own_stream,
    check_provable,
    check_subject_sizes,
    check_targets,
)
from nats3_dagster.replay.planning.exported import check_exported, check_follows, missing
from nats3_dagster.replay.planning.forgotten import check_forgotten
from nats3_dagster.replay.planning.topology import Topology
from nats3_dagster.replay.status import check_forerunner
from nats3_dagster.replay.targets import goes_one_at_a_time, supports_batches
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace

# Subjects that a plan shows.
SAMPLES = 5


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The plan of a replay."""

    archive: Archive
    spec: ReplaySpec
    # The subjects that it publishes to, as one filter.
    pattern: str
    # The chunks that it takes.
    chosen: Chosen
    # The streams that listen; none if the one to publish into is yet to be created.
    targets: tuple[ReplayTarget, ...]
    # Whether the one target takes fast-ingest batches.
    batched: bool
    # The stream to create; None if there is a target.
    creation: Creation | None = None
    # What becomes of some of the subjects: archived, and published to.
    samples: tuple[tuple[str, str], ...] = ()
    # What the targets will not keep, and what else is to be known.
    notes: tuple[str, ...] = ()

    @property
    def extent(self) -> Extent:
        """The sums of the chunks."""
        return self.chosen.extent

    @property
    def timing_s(self) -> float | None:
        """Seconds that keeping the original timing takes at most; None without a speed. A clock that stepped while the
        messages were stored counts with its step: the publisher waits for as long."""
        if self.spec.pace.speed is None or self.extent.times is None:
            return None
        first_ns, last_ns = self.extent.times
        return (last_ns - first_ns) / SECOND_NS / self.spec.pace.speed

    @property
    def deletes_chunks(self) -> int:
        """The number of chunks that `delete_chunks` deletes after success: those that are, or may be, selected
        whole."""
        return self.extent.whole_chunks if self.spec.delete_chunks else 0


def plan(workspace: Workspace, spec: ReplaySpec) -> ReplayPlan:
    """Everything that can be known before the first message goes out. Nothing is published, created or recorded. Raises
    OperatorError, ObjectMissing or TargetError."""
    # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
    from nats3_dagster.replay.planning.refusals import checked_load, notes

    archive = workspace.catalog.archives.get(spec.archive)
    check_forerunner(workspace, archive, spec)
    transform = spec.transform()
    if spec.poll_interval_s is None:
        chosen = choose(workspace, archive, spec.selection, over_gaps=spec.over_gaps)
    else:
        chosen = choose_next(workspace, archive, spec.selection, over_gaps=spec.over_gaps)
    removed = removed_notes(workspace, archive, spec.selection)
    for page in chosen.pages(workspace):
        check_objects(workspace, page)
    check_subject_sizes(transform, chosen)
    topology = Topology.read(workspace, spec, transform, chosen, begins=True)
    check_own_stream(archive, transform, topology)
    unexported = _check_deletion(workspace, archive, spec, chosen.extent.whole_hours)
    if made := topology.creation:
        check_creation(made, is_name_taken=topology.is_name_taken)
        takers, batched = (made.state,), topology.server.supports_batches
    else:
        takers, batched = topology.listening, supports_batches(topology.listening, topology.server)
        check_targets(workspace, spec, transform, chosen, takers)
    check_provable(spec, takers)
    check_forgotten(workspace, transform.pattern, chosen, topology.listening)
    load = checked_load(workspace, spec, transform, chosen, topology, takers, batched=batched)
    alone = goes_one_at_a_time(spec, takers, topology.server, batched=batched)
    return ReplayPlan(
        archive,
        spec,
        transform.pattern,
        chosen,
        tuple(target_of(stream) for stream in topology.listening),
        batched,
        made,
        _samples(workspace, spec, transform, chosen),
        (*notes(takers, load, marks=spec.marks, alone=alone), *unexported, *removed),
    )


def target_of(state: StreamState) -> ReplayTarget:
    """A stream that takes what the replay publishes from now on."""
    return ReplayTarget(state.incarnation, state.last_seq + 1)


def _check_deletion(
    workspace: Workspace, archive: Archive, spec: ReplaySpec, hours: Collection[str]
) -> tuple[str, ...]:
    """Returns notes on exports that do not have chunks which the replay deletes. Raises WrongState unless it may delete
    them."""
    if not spec.delete_chunks:
        return ()
    if not spec.delete_unexported:
        if spec.poll_interval_s is not None:
            check_follows(workspace, archive)
        check_exported(workspace, archive, hours)
    return tuple(f"Chunks are deleted although {one}" for one in missing(workspace, archive, hours))


def _samples(
    workspace: Workspace, spec: ReplaySpec, transform: Transform, chosen: Chosen
) -> tuple[tuple[str, str], ...]:
    """Some of the subjects, and what they become."""
    pairs: dict[str, str] = {}
    for source in archived_subjects(workspace, chosen, spec):
        if (target := transform(source)) is not None:
            pairs[source] = target
        if len(pairs) == SAMPLES:
            break
    return tuple(sorted(pairs.items()))
