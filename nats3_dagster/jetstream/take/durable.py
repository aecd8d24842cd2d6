"""Durable consumers: find one, list those of a stream, make one, delete it.

Synchronous functions over a Link, each safe to call again.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS, parse_time
from nats3_dagster.jetstream.api import Refused, leader_of, own_request, pages, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import FLOW_ACKS, SEVERAL_FILTERS, ErrCode, version_of
from nats3_dagster.jetstream.link import Link

ACKS_BY_FLOW = "flow_control"
# What a server wants of a consumer that acknowledges so (nats-server, consumer.go: checkConsumerCfg). Its
# first subject has no listener; a session gives it another one.
_FLOW_CONFIG = {"ack_policy": ACKS_BY_FLOW, "flow_control": True, "idle_heartbeat": SECOND_NS}


@dataclass(frozen=True, slots=True)
class Durable:
    """The state of a consumer from CONSUMER.INFO."""

    stream: str
    name: str
    # Messages that were never delivered; and messages that were delivered and not acknowledged.
    pending: int
    outstanding: int
    # The highest stream sequence that was delivered, and the one up to which everything is acknowledged.
    delivered_seq: int
    floor_seq: int
    # The same by its own count of deliveries, in which those that come again have numbers of their own.
    consumer_seq: int
    floor_consumer_seq: int
    # When the server made it, in nanoseconds since 1970.
    created_ns: int
    # The server's JSON, unchanged.
    config: Mapping[str, Any] = field(repr=False)
    # Whether it delivers nothing until its `pause_until`.
    paused: bool = False
    # The server that it is on, whose copy of the stream it delivers; empty without a cluster.
    server: str = field(default="", compare=False)

    @property
    def filters(self) -> tuple[str, ...]:
        """The subjects that it delivers; empty for all."""
        several = tuple(self.config.get("filter_subjects") or ())
        single = self.config.get("filter_subject") or ""
        return several or ((single,) if single and single != ">" else ())

    @property
    def acks_by_flow(self) -> bool:
        """True if the answers to its flow control acknowledge its messages, up to a sequence (ADR-60)."""
        return self.config.get("ack_policy") == ACKS_BY_FLOW

    @property
    def session(self) -> str:
        """The subject of its session, which no other one has; empty for a durable without sessions."""
        return str(self.config.get("deliver_subject")) if self.acks_by_flow else ""

    @property
    def ack_wait_s(self) -> float:
        return int(self.config.get("ack_wait") or 0) / SECOND_NS

    @property
    def max_ack_pending(self) -> int:
        """The number of messages that may be outstanding; negative for any number."""
        return int(self.config.get("max_ack_pending") or -1)


def find_durable(link: Link, stream: str, name: str) -> Durable | None:
    """Returns the durable; None when the stream, or the consumer, does not exist."""
    return link.call(durable_info, stream, name)


async def durable_info(client: Connection, stream: str, name: str) -> Durable | None:
    """`find_durable` for callers in the loop."""
    try:
        return durable_from(await request(client, f"CONSUMER.INFO.{stream}.{name}"))
    except Refused as error:
        if error.code in (ErrCode.CONSUMER_NOT_FOUND, ErrCode.STREAM_NOT_FOUND):
            return None
        raise


def own_jetstream_has(link: Link, stream: str, name: str) -> bool:
    """True if the connection's own JetStream has a consumer of these names, whatever domain or import the options name;
    False if there is no JetStream, or this user may not ask it. Raises SourceError."""
    return link.call(own_request, f"CONSUMER.INFO.{stream}.{name}") is not None


def consumers_of(link: Link, stream: str) -> list[Durable]:
    """All consumers of the stream, durable or not, by name."""

    async def work(client: Connection) -> list[Durable]:
        return [durable_from(info) async for info in pages(client, f"CONSUMER.LIST.{stream}", "consumers", {})]

    return sorted(link.call(work), key=lambda consumer: consumer.name)


def make_durable(
    link: Link,
    stream: str,
    name: str,
    *,
    filters: Sequence[str],
    max_ack_pending: int,
    ack_wait_s: int,
    first_seq: int | None,
    description: str,
) -> Durable:
    """A consumer of our own. It begins with `first_seq`; None: with the oldest message, as a work queue demands. Its
    max_ack_pending is smaller where the stream or the account limits it.

    Where the server knows it, the answers to its flow control acknowledge its messages; otherwise it is a pull consumer
    with this `ack_wait_s`, whose messages are acknowledged one by one. Raises OperatorError if this server cannot
    filter so, Refused if it refuses for another reason."""
    config: dict[str, Any] = {
        "name": name,
        "durable_name": name,
        "description": description,
        "max_ack_pending": max_ack_pending,
        "max_deliver": -1,
        "deliver_policy": "all",
        "replay_policy": "instant",
    }
    if first_seq is not None:
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": first_seq}
    too_old = OperatorError(
        "This NATS server is too old for a consumer with several subjects", "Use one subject, or update it"
    )
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
    elif filters:
        if version_of(link.client.info) < SEVERAL_FILTERS:
            raise too_old
        config["filter_subjects"] = list(filters)
    durable = _acknowledged_by_flow(link, stream, config)
    if durable is None:
        explicit = {"ack_policy": "explicit", "ack_wait": ack_wait_s * SECOND_NS}
        durable = durable_from(_created(link, stream, config | explicit))
    if len(durable.filters) < len(filters):
        # The stream's server is older than the connection's, as it may be in another domain: it would deliver
        # everything.
        delete_durable(link, stream, name)
        raise too_old
    return durable


def _acknowledged_by_flow(link: Link, stream: str, config: dict[str, Any]) -> Durable | None:
    """The consumer, if its messages can be acknowledged by flow control. What a push consumer delivers, and the answers
    to its flow control, pass neither another account's imports nor, surely, another domain."""
    if not link.client.is_own_jetstream or version_of(link.client.info) < FLOW_ACKS:
        return None
    try:
        created = _created(link, stream, config | _FLOW_CONFIG | {"deliver_subject": link.client.new_inbox()})
    except Refused as error:
        if error.code == ErrCode.INVALID_JSON:  # the stream's own server is older, and does not know the policy
            return None
        raise
    return durable_from(created)


def _created(link: Link, stream: str, config: dict[str, Any]) -> dict[str, Any]:
    path = f"CONSUMER.CREATE.{stream}.{config['name']}"
    try:
        return link.call(request, path, {"stream_name": stream, "config": config})
    except Refused as error:
        # The limit may be of the server, the account or the stream: the refusal alone says which.
        limit = re.search(r"limit of (\d+)", error.what) if error.code == ErrCode.MAX_ACK_PENDING else None
        if limit is None:
            raise
        limited = config | {"max_ack_pending": int(limit[1])}
        return link.call(request, path, {"stream_name": stream, "config": limited})


def delete_durable(link: Link, stream: str, name: str) -> bool:
    """Deletes a consumer; True if there was one."""
    try:
        link.call(request, f"CONSUMER.DELETE.{stream}.{name}")
    except Refused as error:
        if error.code in (ErrCode.CONSUMER_NOT_FOUND, ErrCode.STREAM_NOT_FOUND):
            return False
        raise
    return True


def durable_from(info: Mapping[str, Any]) -> Durable:
    """Returns the consumer of an answer of CONSUMER.INFO, CREATE or RESET."""
    return Durable(
        info["stream_name"],
        info["name"],
        pending=info["num_pending"],
        outstanding=info["num_ack_pending"],
        delivered_seq=info["delivered"]["stream_seq"],
        floor_seq=info["ack_floor"]["stream_seq"],
        consumer_seq=info["delivered"]["consumer_seq"],
        floor_consumer_seq=info["ack_floor"]["consumer_seq"],
        created_ns=parse_time(info["created"]),
        config=info["config"],
        paused=bool(info.get("paused")),
        server=leader_of(info),
    )
