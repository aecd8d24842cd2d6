"""Consumers that were restored: paused until the stream is proven, then as they were."""

from collections.abc import Mapping
from typing import Any

from nats3_dagster.jetstream.api import request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link


def consumer_infos(link: Link, stream: str, names: list[str]) -> dict[str, Mapping[str, Any]]:
    """Returns the CONSUMER.INFO of each. Raises Refused for one that is not there."""

    async def work(client: Connection) -> dict[str, Mapping[str, Any]]:
        return {name: await request(client, f"CONSUMER.INFO.{stream}.{name}") for name in names}

    return link.call(work)


def pause(link: Link, stream: str, name: str, until: str | None) -> None:
    """Let the consumer deliver nothing until this time (RFC 3339); None: let it deliver."""
    link.call(request, f"CONSUMER.PAUSE.{stream}.{name}", {"pause_until": until} if until else {})
