"""Listed streams: what many archives wait for, by one listing of the account's streams.

Invariant: only an archive that the listing and the catalog prove to be as it should be has an answer. Each other one is
asked for by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nats3_dagster.archive.source.backlog import Backlog, uncaptured
from nats3_dagster.archive.source.restored import as_archived
from nats3_dagster.archive.source.stream_changes import recreated_error, truncated_error, unfinished_error
from nats3_dagster.jetstream.server import check_version, server_info
from nats3_dagster.jetstream.streams import all_streams
from nats3_dagster.model import Archive, StreamState
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Listed:
    """The streams of the account at one time, compared with archives."""

    # By the name of the stream, as the server has it.
    states: dict[str, StreamState]
    # By archive id: what waits, without hours and ages. Archives that have to be asked for by themselves are left out.
    waiting: dict[int, Backlog]


def list_streams(workspace: Workspace, archives: Sequence[Archive]) -> Listed:
    """Lists the streams, 256 with one request, compares them with the archives in one query, and records those that
    changed in another. Raises SourceError, CatalogError; OperatorError for a server that is too old."""
    check_version(server_info(workspace.link))
    states = {state.name: state for state in all_streams(workspace.link)}
    # A durable is no part of a listing, and a buffer is to be asked before its stream.
    listed = [a for a in archives if a.spec.mode != "consumer" and not a.spec.buffer and a.spec.stream in states]
    comparable = [(a, states[a.spec.stream]) for a in listed]
    contents = workspace.catalog.coverage.now(comparable) if comparable else {}
    waiting: dict[int, Backlog] = {}
    for archive, now in comparable:
        coverages, missing = contents[archive.id].coverages, contents[archive.id].missing
        state = as_archived(now, coverages)
        is_other = (
            unfinished_error(archive, state)
            or recreated_error(archive, coverages, state)
            or truncated_error(archive, coverages, state)
        )
        if missing is not None and not is_other:
            waiting[archive.id] = uncaptured(archive, state, missing)
    # A setting that removes messages counts for what is absent later, also where it was taken back in between.
    workspace.catalog.coverage.observe_all([one.state for one in waiting.values()])
    return Listed(states, waiting)
