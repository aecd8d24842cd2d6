"""Topology: the streams around a replay, read before the first of them is checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.jetstream.server import ServerInfo, check_version, server_info
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.model import StreamState
from nats3_dagster.replay.job import ReplayJob
from nats3_dagster.replay.planning.content import Content
from nats3_dagster.replay.planning.creation import Creation, creation, origins
from nats3_dagster.replay.targets import listening, supports_batches, target_state


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
    # The streams that the replay publishes into.
    takers: tuple[StreamState, ...]
    # Whether the one taker takes fast-ingest batches.
    batched: bool

    @classmethod
    def of_new(cls, content: Content) -> "Topology":
        """Asks catalog and server about a replay that is to begin. Raises SourceError, and OperatorError as `creation`
        and for a server that is too old."""
        link = content.workspace.link
        source, server = _source(content), server_info(link)
        check_version(server)
        made = creation(content.spec, content.transform, source, server)
        streams = tuple(listening(link, made.config["subjects"] if made else [content.transform.pattern]))
        feeding = _feeding(content, source)
        if made is None or streams:
            batched = supports_batches(streams, server)
            return cls(server, source, feeding, streams, None, False, streams, batched)
        taken = find_stream(link, made.name) is not None
        return cls(server, source, feeding, (), made, taken, (made.state,), server.supports_batches)

    @classmethod
    def of_begun(cls, content: Content, job: ReplayJob) -> "Topology":
        """Asks catalog and server about a replay that goes on: it makes no stream, and publishes into the targets that
        it began with. Raises SourceError, StreamChanged, and OperatorError for a server that is too old."""
        link = content.workspace.link
        takers = tuple(target_state(link, target) for target in job.targets)
        source, server = _source(content), server_info(link)
        check_version(server)
        streams = tuple(listening(link, [content.transform.pattern]))
        return cls(server, source, _feeding(content, source), streams, None, False, takers, job.batched)


def _source(content: Content) -> Mapping[str, Any]:
    """The configuration of the archived stream, as it was last observed; of the newest one without chunks."""
    archive, coverage = content.archive, content.workspace.catalog.coverage
    newest = content.chosen.newest or coverage.all(archive)[-1].incarnation
    state = coverage.last_state(newest)
    return state.config if state else {"name": archive.spec.stream}


def _feeding(content: Content, config: Mapping[str, Any]) -> frozenset[str]:
    if content.spec.into_own_stream:
        return frozenset()
    names, waiting = {content.archive.spec.stream}, [config]
    while waiting:
        for origin in origins(waiting.pop()) - names:
            names.add(origin)
            state = find_stream(content.workspace.link, origin)
            waiting += [state.config] if state else []
    return frozenset(names)
