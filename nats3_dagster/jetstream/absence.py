"""Proof that a stream holds none of some messages: the word of its leader, not what a read did not see.

A consumer lives on any replica of the stream, also on one that lags behind the leader, and its server may count too few
messages as pending while others are stored and removed at once. So neither proves that a message is absent.
"""

from collections.abc import Sequence

from nats3_dagster.jetstream.admin import next_message, same_stream_info
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.model import Incarnation, SeqRange


async def first_held(
    client: Connection, incarnation: Incarnation, seqs: SeqRange, filters: Sequence[str]
) -> int | None:
    """The first sequence of the range that the leader holds and a filter takes (no filters: any), by the first filter
    that takes one. None proves that the leader held none. One request a filter, and one more for None.

    Raises StreamChanged."""
    for subject in filters or (">",):
        message = await next_message(client, incarnation.stream, seqs.first, subject)
        if message and message[0] <= seqs.last:
            return message[0]
    # Asked last: a stream that was made again meanwhile answered for the one that was asked for.
    await same_stream_info(client, incarnation)
    return None
