"""Plan: what a restore would make, checked before the server is asked for a stream."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.restore.configuration import restored_configuration
from nats3_dagster.archive.restore.consumers import (
    PlannedConsumer,
    kept_consumers,
    last_sequence,
    planned_consumers,
)
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.chosen import Chosen, choose
from nats3_dagster.archive.selected.removed import Removed, removed
from nats3_dagster.errors import OperatorError, Unknown, WrongState
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.streams import find_stream, streams_listening
from nats3_dagster.model import Archive, Incarnation, Selection, StreamState
from nats3_dagster.model.stream import STREAM_NAME, is_unfinished
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RestoreSpec:
    """A restore as asked for. Raises OperatorError if a field is invalid."""

    archive: str
    # The name of the stream; None for that of the archived one.
    name: str | None = None
    selection: Selection = field(default_factory=Selection)
    # None for those of the archived stream, and 1 on a server alone.
    replicas: int | None = None
    storage: Literal["file", "memory"] | None = None
    # True to give the stream the archived one's limits: they may remove messages at once.
    limits: bool = False
    # True to restore what is archived although messages between were lost.
    over_gaps: bool = False
    # Durables that come back at their position: their names, or `all`.
    consumers: tuple[str, ...] = ()
    # The token of the incarnation to restore; None where the selection has messages of one only.
    incarnation: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            STREAM_NAME.check(self.name, "name")
        if self.selection.hours:
            raise OperatorError("A restore takes no hours", "Give times or sequences", field="hours")
        if self.replicas is not None and not 1 <= self.replicas <= 5:
            raise OperatorError(f"replicas is {self.replicas}", "Use 1 to 5", field="replicas")


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The plan of a restore."""

    archive: Archive
    spec: RestoreSpec
    # The life of the stream that is restored.
    incarnation: Incarnation
    # As the server is asked for.
    config: Mapping[str, Any]
    # Settings of the archived stream that it does not have, or has another value of.
    left_out: tuple[str, ...]
    # Messages at most, and bytes of their subjects, header blocks and payloads.
    messages: int
    payload_bytes: int
    # The last sequence that the stream has given; None where the last message says it.
    last_seq: int | None
    # What was removed from the archive on purpose.
    removed: tuple[Removed, ...]
    # Durables that come back, by name.
    consumers: tuple[PlannedConsumer, ...] = ()

    @property
    def stream(self) -> str:
        return self.config["name"]

    def batches(self, workspace: Workspace) -> Iterator[pa.RecordBatch]:
        """The messages that are restored. Raises WrongState for those of a stream that was made again since the
        plan."""
        cursor = Cursor.begin(workspace, self.archive, self.spec.selection, over_gaps=self.spec.over_gaps)
        start = workspace.catalog.coverage.start(self.archive, self.incarnation)
        cursor.begin_at(self.incarnation, start - 1)
        for batch in cursor.batches():
            if cursor.incarnation != self.incarnation:
                if self.spec.incarnation:
                    return
                raise WrongState("The archived stream was made again since this was planned", "Plan again")
            yield batch


def check_name(link: Link, stream: str) -> StreamState | None:
    """The stream of this name that a restore left when it was cut; None where there is none. Raises WrongState if there
    is another one."""
    state = find_stream(link, stream)
    if state and not is_unfinished(state.config):
        raise WrongState(f"Stream {stream} exists: a restore makes a new one", "Give another name, or delete it first")
    return state


def plan(workspace: Workspace, spec: RestoreSpec) -> RestorePlan:
    """Everything that can be known before the server is asked for a stream. Raises OperatorError."""
    archive = workspace.catalog.archives.get(spec.archive)
    server = server_info(workspace.link)
    if not server.restores_streams:
        raise WrongState(
            f"{server.name} cannot restore messages at their sequences and times: servers from 2.15 can",
            "Replay them instead: their times and sequences are then headers",
        )
    name = spec.name or archive.spec.stream
    check_name(workspace.link, name)
    selected = ArchiveSelection(workspace, archive, spec.selection)
    chosen = choose(selected, over_gaps=spec.over_gaps)
    incarnation, messages, payload_bytes = _one_life(selected, chosen, spec.incarnation)
    chosen = replace(chosen, newest=incarnation)
    if chosen.extent.largest_bytes > server.max_payload:
        raise OperatorError(
            f"A message of archive {archive.name} has {chosen.extent.largest_bytes:,} bytes, and {server.name} takes "
            f"{server.max_payload:,}",
            "Raise its max_payload, or leave the message out",
        )
    observed = workspace.catalog.coverage.last_state(incarnation)
    source = observed.config if observed else {"name": archive.spec.stream, "subjects": [">"]}
    config, left_out = restored_configuration(
        source,
        server,
        name,
        largest_bytes=chosen.extent.largest_bytes,
        replicas=spec.replicas,
        storage=spec.storage,
        limits=spec.limits,
    )
    for subject in config.get("subjects") or ():
        if others := [state.name for state in streams_listening(workspace.link, subject)]:
            raise WrongState(
                f"Stream {name} would take {subject}, and stream {others[0]} takes some of that",
                "A subject is of one stream: change the subjects of that one, or delete it",
            )
    last = None
    if spec.selection.to_ns is None:
        last = workspace.catalog.coverage.of(archive, incarnation).last
        last = min(last, spec.selection.sequences.last) if spec.selection.sequences else last
    consumers: tuple[PlannedConsumer, ...] = ()
    if spec.consumers:
        sequences = spec.selection.sequences
        whole = workspace.catalog.coverage.of(archive, incarnation).last
        at = sequences.last if sequences and sequences.last < whole else None
        kept, positions = kept_consumers(workspace, archive, chosen, spec.consumers, at)
        last = last or last_sequence(workspace, archive, chosen)
        consumers = planned_consumers(workspace, archive, chosen, kept, positions, last, config)
    return RestorePlan(
        archive,
        spec,
        incarnation,
        config,
        left_out,
        messages,
        payload_bytes,
        last,
        removed(workspace, archive, spec.selection),
        consumers,
    )


def _one_life(selected: ArchiveSelection, chosen: Chosen, token: str | None) -> tuple[Incarnation, int, int]:
    """The incarnation to restore, with its messages and their bytes, at most. `token`: of the one that was asked for;
    without it the selection may have messages of one only. Raises WrongState, Unknown."""
    assert chosen.newest is not None
    name, messages, sizes = selected.archive.name, dict[Incarnation, int](), dict[Incarnation, int]()
    for hour in selected.hours():
        messages[hour.incarnation] = messages.get(hour.incarnation, 0) + hour.messages
        sizes[hour.incarnation] = sizes.get(hour.incarnation, 0) + hour.payload_bytes
    lives = [one for one, count in messages.items() if count]
    if token is None and len(lives) < 2:
        return chosen.newest, chosen.extent.messages, chosen.extent.payload_bytes
    listed = ", ".join(f"{one.token} ({messages[one]:,} messages)" for one in lives)
    if token is None:
        raise WrongState(
            f"Stream {selected.archive.spec.stream} was deleted and made again, and archive {name} has messages of "
            f"{len(lives)} incarnations in this selection: {listed}",
            "Say which one is to be restored",
        )
    found = next((one for one in lives if one.token == token), None)
    if found is None:
        raise Unknown(
            f"Archive {name} has no messages of the incarnation {token} in this selection",
            f"There are {listed}",
            field="incarnation",
        )
    return found, messages[found], sizes[found]
