"""Plan: what a restore would make, checked before the server is asked for a stream."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa

from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.restore.configuration import restored_configuration
from nats3_dagster.archive.restore.consumers import PlannedConsumer, kept_consumers, planned_consumers
from nats3_dagster.archive.restore.life import SelectedLife, selected_life
from nats3_dagster.archive.selected.removed import Removed, removed
from nats3_dagster.errors import Nats3Error, OperatorError, StoreError, WrongState
from nats3_dagster.jetstream.codes import RESTORE_SINCE
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.restore.sourced import taken_again
from nats3_dagster.jetstream.server import ServerInfo, server_info
from nats3_dagster.jetstream.streams import all_streams, find_stream
from nats3_dagster.model import Archive, Incarnation, Selection, StreamState
from nats3_dagster.model.stream import STREAM_NAME, is_unfinished
from nats3_dagster.subjects import overlap
from nats3_dagster.workspace import Workspace

# The server that a backup is written for: it has each setting, and takes a message of any size that a server can take.
_ANY_SERVER: Final = ServerInfo((*RESTORE_SINCE, 0), "", "", 64 << 20, jetstream=True, clustered=True)


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
    # True to restore the stream without them where they were not kept, or cannot be restored.
    without_consumers: bool = False
    # The token of the incarnation to restore; None where the selection has messages of one only.
    incarnation: str | None = None
    # True to make the stream of that incarnation also where the selection has no message of it.
    empty: bool = False
    # True to give the stream the mirror or the sources that the archived one has.
    origins: bool = False
    # True to write it as a backup: no server is asked for a stream, so that none may stand in the way.
    as_backup: bool = False

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
    # The last sequence that the stream has given.
    last_seq: int
    # What was removed from the archive on purpose.
    removed: tuple[Removed, ...]
    # Durables that come back, by name.
    consumers: tuple[PlannedConsumer, ...] = ()
    # Why the stream comes back without consumers that it had; None where it does not.
    consumers_problem: Nats3Error | None = None

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
    return _left(stream, find_stream(link, stream))


def _left(stream: str, state: StreamState | None) -> StreamState | None:
    if state and not is_unfinished(state.config):
        raise WrongState(f"Stream {stream} exists: a restore makes a new one", "Give another name, or delete it first")
    return state


def plan(workspace: Workspace, spec: RestoreSpec) -> RestorePlan:
    """Everything that can be known before the server is asked for a stream. Raises OperatorError."""
    planned = described(workspace, spec)
    if not spec.as_backup:
        states = {state.name: state for state in all_streams(workspace.link)}
        check_free(states, planned.config)
        check_sourced(states.values(), planned)
    return planned


def check_sourced(states: Iterable[StreamState], planned: RestorePlan) -> None:
    """Raises WrongState if one of the streams that are there would take the restored messages a second time."""
    if planned.messages and (other := taken_again(states, planned.stream, planned.last_seq)):
        raise WrongState(
            f"Stream {other} has {planned.stream} as a source. For its server that is another stream once it is made "
            "again, and all its messages would come a second time",
            f"Take that source from {other}, and give it back with opt_start_seq {planned.last_seq + 1}; or delete "
            f"{other} and restore it too",
        )


def check_free(states: Mapping[str, StreamState], config: Mapping[str, Any]) -> None:
    """Raises WrongState if a stream of this name, or one that takes some of its subjects, is there. `states`: the
    streams that are, by name."""
    _left(config["name"], states.get(config["name"]))
    for subject in config.get("subjects") or ():
        for name, state in states.items():
            if any(overlap(subject, other) for other in state.config.get("subjects") or ()):
                raise WrongState(
                    f"Stream {config['name']} would take {subject}, and stream {name} takes some of that",
                    "A subject is of one stream: change the subjects of that one, or delete it",
                )


def described(workspace: Workspace, spec: RestoreSpec) -> RestorePlan:
    """The same without a look at the streams that are there. Raises OperatorError."""
    archive = workspace.catalog.archives.get(spec.archive)
    server = _ANY_SERVER if spec.as_backup else server_info(workspace.link)
    if not server.restores_streams:
        raise WrongState(
            f"{server.name} cannot restore messages at their sequences and times: servers from 2.15 can",
            "Replay them instead: their times and sequences are then headers",
        )
    if (spec.replicas or 1) > 1 and not server.clustered:
        raise OperatorError(
            f"replicas is {spec.replicas}, and {server.name} is in no cluster", "Leave it out", field="replicas"
        )
    name = spec.name or archive.spec.stream
    life = selected_life(
        workspace,
        archive,
        spec.selection,
        token=spec.incarnation,
        over_gaps=spec.over_gaps,
        empty=spec.empty,
    )
    if life.largest_bytes > server.max_payload:
        raise OperatorError(
            f"A message of archive {archive.name} has {life.largest_bytes:,} bytes, and {server.name} takes "
            f"{server.max_payload:,}",
            "Raise its max_payload, or leave the message out",
        )
    observed = workspace.catalog.coverage.last_state(life.incarnation)
    source = observed.config if observed else {"name": archive.spec.stream, "subjects": [">"]}
    config, left_out = restored_configuration(
        source,
        server,
        name,
        largest_bytes=life.largest_bytes,
        replicas=spec.replicas,
        storage=spec.storage,
        limits=spec.limits,
        origins=spec.origins,
    )
    consumers, problem = _consumers(workspace, archive, life, spec, config)
    return RestorePlan(
        archive,
        spec,
        life.incarnation,
        config,
        left_out,
        life.messages,
        life.payload_bytes,
        life.last_seq,
        removed(workspace, archive, spec.selection),
        consumers,
        problem,
    )


def _consumers(
    workspace: Workspace, archive: Archive, life: SelectedLife, spec: RestoreSpec, config: Mapping[str, Any]
) -> tuple[tuple[PlannedConsumer, ...], Nats3Error | None]:
    """The consumers that come back, and why those that were asked for do not, where that is no error."""
    if not spec.consumers:
        return (), None
    catalog, sequences = workspace.catalog, spec.selection.sequences
    if spec.without_consumers and not catalog.consumers.newest(archive, life.incarnation):
        return (), catalog.consumers.problems().get(archive.id)
    whole = catalog.coverage.of(archive, life.incarnation).last
    at = sequences.last if sequences and sequences.last < whole else None
    try:
        kept, positions = kept_consumers(workspace, archive, life, spec.consumers, at)
        return planned_consumers(workspace, archive, life, kept, positions, life.last_seq, config), None
    except (WrongState, StoreError) as error:
        if not spec.without_consumers:
            raise
        return (), error
