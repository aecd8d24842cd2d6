"""The server that a link is connected to, as it describes itself."""

from dataclasses import dataclass

from nats3_dagster.jetstream.codes import version_of
from nats3_dagster.jetstream.link import Link


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the server says of itself."""

    version: tuple[int, int, int]
    id: str  # another one at each start
    address: str  # host:port
    max_payload: int  # bytes of header block and payload of a message together
    jetstream: bool  # whether it has JetStream
    clustered: bool = False  # whether it is one of a cluster


def server_info(link: Link) -> ServerInfo:
    """The server that this link is connected to."""
    info = link.client.info
    return ServerInfo(
        version_of(info), str(info.get("server_id", "")), link.client.address, int(info["max_payload"]),
        bool(info.get("jetstream")), bool(info.get("cluster")),
    )  # fmt: skip
