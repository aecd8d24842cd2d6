"""Forgotten replays: a target has marked messages of a replay that the catalog does not know.

After a restore of the catalog the same request would publish the same messages once more. In each target these are
looked at: its newest messages, the newest one under the replay's subjects, and the same number at even distances. So a
forgotten replay is passed over only where others published more than LOOK messages after it under its subjects, and it
has less than one in LOOK of the target's sequences.
"""

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

from nats3_dagster.errors import CatalogError
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import StreamState
from nats3_dagster.replay.planning.content import Content
from nats3_dagster.replay.planning.topology import Topology
from nats3_dagster.replay.status import find
from nats3_dagster.steps import Next
from nats3_dagster.subjects import matches

# The number of a target's newest messages that are looked at, and of those between its first and its last.
LOOK = 200
# The most messages of a target that are looked at: those, and the newest one under the replay's subjects.
SAMPLE = 2 * LOOK + 1


def forgotten(replay_id: str) -> CatalogError:
    """The error of a replay that was begun, and that the catalog does not have."""
    return CatalogError(
        f"The catalog has forgotten replay {replay_id}, which was begun: Postgres is a restored backup, or a standby "
        "that took over before it had every commit",
        Next.BEGIN_NEW_REPLAY_AFTER_LOOKING(replay=replay_id),
    )


def check_forgotten(content: Content, topology: Topology) -> None:
    """Raises CatalogError if a target has, among the messages that are looked at, one of this selection that was
    published by a replay which the catalog does not know, under the subjects that this one publishes to."""
    # It imports pyarrow, 0.1 s: commands that only list replays do without.
    from nats3_dagster.replay.messages.headers import marked_replay

    workspace, pattern, known = content.workspace, content.transform.pattern, dict[str, bool]()
    for state in topology.listening:
        for subject, block in _looked_at(workspace.link, state, pattern):
            replay_id = marked_replay(block)
            if replay_id is None or not matches(pattern, subject):
                continue
            if replay_id not in known:
                known[replay_id] = find(workspace, replay_id) is not None or workspace.catalog.replays.was_deleted(
                    replay_id
                )
            if not known[replay_id] and _is_selected(content, block, replay_id):
                raise forgotten(replay_id)


def _is_selected(content: Content, block: bytes, replay_id: str) -> bool:
    """True if a chunk of the selection has the message that was published with this header block."""
    import pyarrow as pa

    from nats3_dagster.replay.messages.headers import replayed_sequences

    within = content.spec.selection.sequences
    for token, numbers in replayed_sequences(pa.array([block], pa.binary()), replay_id):
        seq = int(numbers[0])
        if (within is None or within.first <= seq <= within.last) and content.chosen.has(token, seq):
            return True
    return False


def _looked_at(link: Link, state: StreamState, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Subject and header block of messages of the stream, each once. Raises SourceError."""
    first, last = max(state.first_seq, 1), state.last_seq
    newest = range(last, max(first, last - LOOK + 1) - 1, -1)
    before = newest[-1] - first if newest else 0
    spaced = sorted({first + before * n // LOOK for n in range(LOOK)}) if before else []
    requests: list[dict[str, Any]] = [{"seq": seq} for seq in newest]
    requests += [{"last_by_subj": pattern}, *({"seq": seq, "next_by_subj": pattern} for seq in spaced)]

    async def message(client: Connection, body: dict[str, Any]) -> dict[str, Any] | None:
        try:
            answer = await request(client, f"STREAM.MSG.GET.{state.name}", body)
        except Refused as error:
            if error.code == ErrCode.MESSAGE_NOT_FOUND:
                return None
            raise
        return answer["message"]

    async def messages(client: Connection) -> list[dict[str, Any] | None]:
        return await asyncio.gather(*(message(client, body) for body in requests))

    held = {item["seq"]: item for item in link.call(messages) if item} if state.messages else {}
    yield from ((item["subject"], base64.b64decode(item.get("hdrs") or "")) for item in held.values())
