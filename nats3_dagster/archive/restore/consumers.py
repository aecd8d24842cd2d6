"""The consumers of a restored stream: which were kept, where each stands in the messages that are restored, and how the
server is asked for them."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from nats3_dagster.archive.restore.life import SelectedLife
from nats3_dagster.chunks.consumers import ConsumersDocument, decode_consumers
from nats3_dagster.errors import OperatorError, StoreError, WrongState
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, Incarnation, SeqRange
from nats3_dagster.model.consumer import ConsumerPosition, KeptConsumers
from nats3_dagster.model.stream import MAX_SEQUENCE, own_metadata
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# Stands for all consumers where names are given.
ALL: Final = "all"
# Sequences between two pending messages that are read to find both at once.
_APART = 10_000


@dataclass(frozen=True, slots=True)
class PlannedConsumer:
    """A consumer of the restored stream."""

    # As it was kept.
    kept: ConsumerPosition
    # Where it stands in what is restored.
    position: ConsumerPosition
    # As the server is asked for it.
    config: Mapping[str, Any]
    # Settings that it does not have, or has another value of.
    left_out: tuple[str, ...]
    # When it was kept, in nanoseconds since 1970.
    observed_ns: int

    @property
    def name(self) -> str:
        return self.kept.name

    @property
    def again(self) -> int:
        """The number of messages that its application gets once more: those that it did not acknowledge; at most, where
        only the floor is known."""
        if self.kept.exact:
            return len(self.position.pending)
        return max(0, self.kept.delivered.stream - self.kept.ack_floor.stream)

    def from_first(self, seq: int) -> "PlannedConsumer":
        """The consumer in a stream that begins with this sequence."""
        return replace(self, position=self.position.cut(seq, MAX_SEQUENCE, lambda _: True))


def kept_consumers(
    workspace: Workspace,
    archive: Archive,
    life: SelectedLife,
    names: Sequence[str],
    last_seq: int | None,
) -> tuple[KeptConsumers, tuple[ConsumerPosition, ...]]:
    """The last consumers that were kept up to the restored moment, and those of them that were asked for, by name.
    `last_seq`: of the stream at that moment, where the selection ends before the archive does. Raises OperatorError for
    a name that is not among them, WrongState where nothing was kept up to then; StoreError."""
    to_ns = life.selection.to_ns
    kept = workspace.catalog.consumers.newest(
        archive, life.incarnation, to_ns=None if to_ns is None else to_ns - 1, last_seq=last_seq
    )
    if kept is None:
        raise _nothing_kept(workspace, archive, life.incarnation)
    document = _document(workspace, archive, kept)
    found = {one.name: one for one in document.consumers}
    if unknown := [name for name in names if name not in found and name != ALL]:
        raise OperatorError(
            f"No consumer {', '.join(unknown)} of archive {archive.name} was kept at {format_time(kept.observed_ns)}",
            f"There are {', '.join(found)}" if found else "There was none",
            field="consumers",
        )
    return kept, tuple(one for name, one in found.items() if ALL in names or name in names)


def planned_consumers(
    workspace: Workspace,
    archive: Archive,
    life: SelectedLife,
    kept: KeptConsumers,
    positions: Iterable[ConsumerPosition],
    last_seq: int,
    stream: Mapping[str, Any],
) -> tuple[PlannedConsumer, ...]:
    """The consumers in the stream of this configuration, which ends with `last_seq`. Raises WrongState for a stream in
    which no position means what it did."""
    positions = tuple(positions)
    if positions and stream.get("retention") == "workqueue":
        raise WrongState(
            f"Stream {stream['name']} is a work queue: its consumers have removed what they acknowledged, and all of "
            "it comes back, so that no position of theirs means the same",
            "Restore it without them, and create them again",
        )
    present = _present(workspace, archive, life, {seq for one in positions for seq in one.pending if seq <= last_seq})
    planned: list[PlannedConsumer] = []
    for one in positions:
        config, left_out = _configuration(one, stream)
        position = (one if one.exact else one.at_floor()).cut(1, last_seq, present.__contains__)
        planned.append(PlannedConsumer(one, position, config, left_out, kept.observed_ns))
    return tuple(planned)


def _present(workspace: Workspace, archive: Archive, life: SelectedLife, wanted: set[int]) -> set[int]:
    """Returns those of the sequences that have a message in the selection. Chunks without one of them are not read."""
    present: set[int] = set()
    near: list[SeqRange] = []
    for seq in sorted(wanted):
        if near and seq - near[-1].last <= _APART:
            near[-1] = SeqRange(near[-1].first, seq)
        else:
            near.append(SeqRange(seq, seq))
    for seqs in near:
        for found in life.sequences(workspace, archive, seqs):
            present.update(wanted.intersection(found))
    return present


def _configuration(one: ConsumerPosition, stream: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The configuration that the server is asked for, and what of the kept one it does not have."""
    # Without the server's own notes in its metadata.
    config: dict[str, Any] = {
        **one.config,
        "name": one.name,
        "durable_name": one.name,
        "metadata": own_metadata(one.config),
    }
    left_out: list[str] = []
    if int(config.get("num_replicas") or 0) > int(stream.get("num_replicas") or 1):
        # Those of its stream.
        config["num_replicas"] = 0
        left_out.append("num_replicas")
    if config.pop("inactive_threshold", None):
        # It could end the consumer before its application is there.
        left_out.append("inactive_threshold")
    return config, tuple(left_out)


def _document(workspace: Workspace, archive: Archive, kept: KeptConsumers) -> ConsumersDocument:
    """The document, from the archive's bucket or from the first copy where it is as it was written. Raises StoreError
    for the archive's own."""
    failure: StoreError | None = None
    for name in (kept.bucket, *archive.spec.copies):
        try:
            document = decode_consumers(bytes(workspace.bucket(name).get(kept.key, kept.stored_bytes)), kept.key)
        except StoreError as error:
            failure = failure or error
            continue
        if failure:
            log.warning("%s was read from the copy in the bucket %s: %s", kept.key, name, failure.what)
        return document
    assert failure
    raise failure


def _nothing_kept(workspace: Workspace, archive: Archive, incarnation: Incarnation) -> WrongState:
    if problem := workspace.catalog.consumers.problems().get(archive.id):
        return WrongState(f"The consumers of archive {archive.name} are not kept: {problem.what}", problem.hint)
    if newest := workspace.catalog.consumers.newest(archive, incarnation):
        when = format_time(newest.observed_ns)
        return WrongState(
            f"Archive {archive.name} has no consumers from before the end of this selection: the last that were kept "
            f"are of {when}",
            "Select up to a later time, or create them yourself",
        )
    return WrongState(
        f"Archive {archive.name} has no consumers of this stream",
        "They are kept by the captures of this release; create them yourself",
    )
