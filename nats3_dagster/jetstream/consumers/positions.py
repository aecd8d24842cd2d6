"""The durables of a stream with their positions, as exactly as the server says them.

A list of consumers has what was delivered and the acknowledgement floor. Where a durable has messages that wait for
their acknowledgement one by one, only the server's backup says which these are (servers from 2.15, without a cluster:
one of a cluster writes the floor there too).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.api import pages
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import version_of
from nats3_dagster.jetstream.consumers.backup import BACKUP_SINCE, consumers_in_backup
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model.consumer import ConsumerPosition, Pair


@dataclass(frozen=True, slots=True)
class Positions:
    """The durables of a stream."""

    # By name.
    consumers: tuple[ConsumerPosition, ...]
    # Why those that are not exact are not; None where all are, or where this server cannot say it.
    problem: SourceError | None = None


def durables_of(link: Link, stream: str, without: Sequence[str] = ()) -> Positions:
    """The durables of the stream, but those of these names. Raises Refused if this user may not list them, SourceError
    if the list cannot be had whole."""

    async def work(client: Connection) -> Positions:
        listed = [
            _listed(info)
            async for info in pages(client, f"CONSUMER.LIST.{stream}", "consumers", {}, all_online=True)
            if is_durable(info["config"]) and info["name"] not in without
        ]
        problem = None
        if not all(one.exact for one in listed) and _has_backups(client):
            try:
                listed = [
                    one
                    for one in await consumers_in_backup(client, stream)
                    if is_durable(one.config) and one.name not in without
                ]
            except SourceError as error:
                problem = error
        return Positions(tuple(sorted(listed, key=lambda one: one.name)), problem)

    return link.call(work)


def is_durable(config: Any) -> bool:
    """True for a consumer that stays without a client. A durable with an `inactive_threshold` counts: its application
    comes back to it within that time."""
    return bool(config.get("durable_name"))


def _has_backups(client: Connection) -> bool:
    # Of another account the parts of a backup do not come here.
    return (
        version_of(client.info)[:2] >= BACKUP_SINCE
        and not client.info.get("cluster")
        and not client.is_imported
        and client.is_own_jetstream
    )


def _listed(info: Any) -> ConsumerPosition:
    """The consumer by what a list says of it: exact if no message waits for an acknowledgement of its own."""
    policy = info["config"].get("ack_policy", "none")
    one = ConsumerPosition(
        info["name"],
        info["config"],
        Pair(info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]),
        Pair(info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]),
    )
    if policy == "none":
        # It acknowledges what it delivers.
        return replace(one, ack_floor=one.delivered)
    if not info["num_ack_pending"]:
        return replace(one, ack_floor=one.delivered)
    return replace(one, exact=False) if policy == "explicit" else one.at_floor()
