"""Plan: what a replay would publish and into which streams, checked before its first message goes out."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.archive.selected.chosen import Chosen, choose, choose_next, removed_notes
from nats3_dagster.archive.selected.extent import Extent
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import Archive, ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.replay.planning.creation import Creation, check_creation, creation
from nats3_dagster.replay.planning.destinations import (
    archived_subjects,
    check_own_stream,
    check_provable,
    check_subject_sizes,
    check_targets,
)
from nats3_dagster.replay.planning.exported import check_exported, check_follows, missing
from nats3_dagster.replay.planning.forgotten import check_forgotten
from nats3_dagster.replay.status import check_forerunner
from nats3_dagster.replay.targets import goes_one_at_a_time, listening, takes_batches
from nats3_dagster.subjects import Transform, overlap
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
        """How many chunks `delete_chunks` deletes after success: those that are, or may be, selected whole."""
        return self.extent.whole_chunks if self.spec.delete_chunks else 0


def plan(workspace: Workspace, spec: ReplaySpec) -> ReplayPlan:
    """Everything that can be known before the first message goes out. Nothing is published, created or recorded. Raises
    OperatorError, ObjectMissing or TargetError."""
    # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
    from nats3_dagster.replay.planning.refusals import check_load, check_takes, load_of, notes

    archive = workspace.catalog.archives.get(spec.archive)
    check_forerunner(workspace, archive, spec)
    transform = spec.transform()
    if spec.poll_interval_s is None:
        chosen = choose(workspace, archive, spec.selection, over_gaps=spec.over_gaps)
    else:
        check_no_loop(spec, transform)
        chosen = choose_next(workspace, archive, spec.selection, over_gaps=spec.over_gaps)
    for page in chosen.pages(workspace):
        check_objects(workspace, page)
    check_subject_sizes(transform, chosen)
    server, source = server_info(workspace.link), source_of(workspace, chosen)
    made = creation(spec, transform, source, server)
    streams = listening(workspace.link, made.config["subjects"] if made else [transform.pattern])
    check_own_stream(workspace.link, archive, source, spec, transform, streams)
    unexported = _check_deletion(workspace, archive, spec, chosen.extent.whole_hours)
    if made and not streams:
        check_creation(workspace.link, made)
        takers, targets = [made.state], ()
        batched = server.takes_batches
    else:
        check_targets(workspace, spec, transform, chosen, streams)
        takers, targets, made = streams, tuple(target_of(s) for s in streams), None
        batched = takes_batches(streams, server)
    check_provable(spec, takers)
    check_forgotten(workspace, transform.pattern, chosen, streams)
    load = load_of(workspace, spec, transform, chosen, takers, server.max_payload, with_ids=not batched)
    check_load(load, server.max_payload)
    for taker in takers:
        check_takes(spec, source, taker, load)
    return ReplayPlan(
        archive,
        spec,
        transform.pattern,
        chosen,
        targets,
        batched,
        made,
        _samples(workspace, spec, transform, chosen),
        tuple(notes(takers, load, marks=spec.marks, alone=goes_one_at_a_time(spec, takers, server, batched=batched)))
        + unexported
        + removed_notes(workspace, archive, spec.selection),
    )


def target_of(state: StreamState) -> ReplayTarget:
    """A stream that takes what the replay publishes from now on."""
    return ReplayTarget(state.incarnation, state.last_seq + 1)


def check_no_loop(spec: ReplaySpec, transform: Transform) -> None:
    """Raises OperatorError if a replay that follows its archive would take again what it published."""
    if spec.into_own_stream and overlap(transform.pattern, spec.read_subject):
        raise OperatorError(
            f"What is published to {transform.pattern} is archived again, and the replay takes {spec.read_subject}: it "
            "would follow itself without end",
            "Choose a read subject that does not take what it publishes, or leave out the poll interval",
        )


def source_of(workspace: Workspace, chosen: Chosen) -> Mapping[str, Any]:
    """The configuration of the archived stream, as it was last observed; of the newest one without chunks."""
    archive = chosen.archive
    newest = chosen.newest or workspace.catalog.coverage.all(archive)[-1].incarnation
    state = workspace.catalog.coverage.last_state(newest)
    return state.config if state else {"name": archive.spec.stream}


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
