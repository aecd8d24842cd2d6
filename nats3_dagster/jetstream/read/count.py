"""Count: how many messages a stream has from a sequence on, as a consumer of it is told when it is made."""

import secrets
from collections.abc import Sequence

from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import SEVERAL_FILTERS, version_of
from nats3_dagster.jetstream.read.consumer import delete_consumer

# A consumer whose process died is gone after this.
_INACTIVE_S = 5


async def messages_from(client: Connection, stream: str, seq: int, filters: Sequence[str]) -> int | None:
    """The messages at this sequence or later that a filter takes (no filters: all). None where the stream can have no
    such consumer. Raises SourceError."""
    name = f"nats3-{secrets.token_hex(8)}"
    config: dict[str, object] = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": seq,
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": _INACTIVE_S * SECOND_NS,
    }
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
    elif filters:
        if version_of(client.info) < SEVERAL_FILTERS:
            return None
        config["filter_subjects"] = [*filters]
    try:
        made = await request(
            client, f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config, "action": "create"}
        )
    except Refused:
        return None
    await delete_consumer(client, stream, name)
    return int(made["num_pending"])
