"""Plan: what a replay would publish and into which streams, checked before its first message goes out."""

from dataclasses import dataclass
from itertools import islice

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.chosen import Chosen, choose, choose_next
from nats3_dagster.archive.selected.extent import Extent
from nats3_dagster.archive.selected.removed import removed_notes
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Archive, ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.replay.planning.content import Content
from nats3_dagster.replay.planning.creation import Creation
from nats3_dagster.replay.planning.destinations import check_own_stream, check_subject_sizes, check_takers
from nats3_dagster.replay.planning.exported import checked_deletion
from nats3_dagster.replay.planning.forgotten import check_forgotten
from nats3_dagster.replay.planning.topology import Topology
from nats3_dagster.replay.status import check_forerunner
from nats3_dagster.replay.targets import way_out
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
    transform, selected = spec.transform(), ArchiveSelection(workspace, archive, spec.selection)
    if spec.poll_interval_s is None:
        chosen = choose(selected, over_gaps=spec.over_gaps)
    else:
        chosen = choose_next(selected, over_gaps=spec.over_gaps)
    removed = removed_notes(selected)
    for page in chosen.pages():
        check_objects(workspace, page)
    content = Content(spec, transform, chosen)
    check_subject_sizes(content)
    topology = Topology.of_new(content)
    check_own_stream(content, topology)
    unexported = checked_deletion(content)
    check_takers(content, topology)
    check_forgotten(content, topology)
    load = checked_load(content, topology)
    alone = way_out(spec, topology.takers, topology.server, batched=topology.batched) == "single"
    return ReplayPlan(
        archive,
        spec,
        transform.pattern,
        chosen,
        tuple(target_of(stream) for stream in topology.listening),
        topology.batched,
        topology.creation,
        tuple(sorted(islice(content.subjects(), SAMPLES))),
        (*notes(topology.takers, load, marks=spec.marks, alone=alone, live=spec.live), *unexported, *removed),
    )


def target_of(state: StreamState) -> ReplayTarget:
    """A stream that takes what the replay publishes from now on."""
    return ReplayTarget(state.incarnation, state.last_seq + 1)
