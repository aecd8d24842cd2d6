"""Forgotten replays: a target has marked messages of a replay that the catalog does not know.

After a restore of the catalog the same request would publish the same messages once more. The newest messages of each
target are looked at: a replay publishes in order, so what it published last shows how far it came.
"""

import asyncio
import base64
from collections.abc import Iterator, Sequence

from nats3_dagster.errors import CatalogError
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import Chunk, ReplaySpec, StreamState
from nats3_dagster.replay.status import find
from nats3_dagster.steps import Next
from nats3_dagster.subjects import matches
from nats3_dagster.workspace import Workspace

# The newest messages of a target that are looked at.
LOOK = 200


def forgotten(replay_id: str) -> CatalogError:
    """The error of a replay that was begun, and that the catalog does not have."""
    return CatalogError(
        f"The catalog has forgotten replay {replay_id}, which was begun: Postgres is a restored backup, or a standby "
        "that took over before it had every commit",
        Next.BEGIN_NEW_REPLAY_AFTER_LOOKING(replay=replay_id),
    )


def check_forgotten(
    workspace: Workspace, spec: ReplaySpec, pattern: str, chunks: Sequence[Chunk], targets: Sequence[StreamState]
) -> None:
    """Raises CatalogError if a target has, among its newest messages, one of this selection that was published by a
    replay which the catalog does not know, under the subjects that this one publishes to."""
    # It imports pyarrow, 0.1 s: commands that only list replays do without.
    from nats3_dagster.replay.messages.headers import marked_replay

    known: dict[str, bool] = {}
    for state in targets:
        for subject, block in _newest(workspace.link, state):
            replay_id = marked_replay(block)
            if replay_id is None or not matches(pattern, subject):
                continue
            if replay_id not in known:
                known[replay_id] = find(workspace, replay_id) is not None or workspace.catalog.replays.was_deleted(
                    replay_id
                )
            if not known[replay_id] and _is_selected(spec, chunks, block, replay_id):
                raise forgotten(replay_id)


def _is_selected(spec: ReplaySpec, chunks: Sequence[Chunk], block: bytes, replay_id: str) -> bool:
    """Whether a chunk of the selection has the message that was published with this header block."""
    import pyarrow as pa

    from nats3_dagster.replay.messages.headers import replayed_sequences

    within = spec.selection.sequences
    for token, numbers in replayed_sequences(pa.array([block], pa.binary()), replay_id):
        seq = int(numbers[0])
        if within is not None and not within.first <= seq <= within.last:
            continue
        for chunk in chunks:
            covers = chunk.meta.covers
            if chunk.meta.incarnation.token == token and covers.first <= seq <= covers.last:
                return True
    return False


def _newest(link: Link, state: StreamState) -> Iterator[tuple[str, bytes]]:
    """Subject and header block of the stream's newest messages. Raises SourceError."""
    first = max(state.first_seq, state.last_seq - LOOK + 1, 1)

    async def message(client: Connection, seq: int) -> tuple[str, bytes] | None:
        try:
            answer = await request(client, f"STREAM.MSG.GET.{state.name}", {"seq": seq})
        except Refused as error:
            if error.code == ErrCode.MESSAGE_NOT_FOUND:
                return None
            raise
        found = answer["message"]
        return found["subject"], base64.b64decode(found.get("hdrs") or "")

    async def messages(client: Connection) -> list[tuple[str, bytes] | None]:
        return await asyncio.gather(*(message(client, seq) for seq in range(state.last_seq, first - 1, -1)))

    yield from filter(None, link.call(messages) if state.messages else ())
