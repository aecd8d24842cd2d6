"""Topology: the streams around a replay, read before the first of them is checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.archive.selected.chosen import Chosen
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.server import ServerInfo, check_version, server_info
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.model import ReplaySpec, StreamState
from nats3_dagster.replay.planning.creation import Creation, creation, origins
from nats3_dagster.replay.targets import listening
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Topology:
    """The server, and the streams that a replay has to do with."""

    server: ServerInfo
    # The configuration of the archived stream.
    source: Mapping[str, Any]
    # The names of the archived stream and of all that fill it, by mirrors and sources of the same account; none where
    # the replay may publish into them.
    feeding: frozenset[str]
    # The streams that take some of the subjects, by name.
    listening: tuple[StreamState, ...]
    # The stream that the replay makes; None if one listens, or if it may make none.
    creation: Creation | None
    # True if there is a stream of its name.
    is_name_taken: bool

    @classmethod
    def read(
        cls, workspace: Workspace, spec: ReplaySpec, transform: Transform, chosen: Chosen, *, begins: bool
    ) -> "Topology":
        """Asks catalog and server. `begins`: the replay may make a stream. Raises SourceError, and OperatorError as
        `creation` and for a server that is too old."""
        source, server = _source(workspace, chosen), server_info(workspace.link)
        check_version(server)
        made = creation(spec, transform, source, server) if begins else None
        streams = listening(workspace.link, made.config["subjects"] if made else [transform.pattern])
        made = None if streams else made
        feeding = frozenset[str]()
        if not spec.into_own_stream:
            feeding = _feeding(workspace.link, chosen.archive.spec.stream, source)
        taken = made is not None and find_stream(workspace.link, made.name) is not None
        return cls(server, source, feeding, tuple(streams), made, taken)


def _source(workspace: Workspace, chosen: Chosen) -> Mapping[str, Any]:
    """The configuration of the archived stream, as it was last observed; of the newest one without chunks."""
    archive = chosen.archive
    newest = chosen.newest or workspace.catalog.coverage.all(archive)[-1].incarnation
    state = workspace.catalog.coverage.last_state(newest)
    return state.config if state else {"name": archive.spec.stream}


def _feeding(link: Link, stream: str, config: Mapping[str, Any]) -> frozenset[str]:
    names, waiting = {stream}, [config]
    while waiting:
        for origin in origins(waiting.pop()) - names:
            names.add(origin)
            state = find_stream(link, origin)
            waiting += [state.config] if state else []
    return frozenset(names)
