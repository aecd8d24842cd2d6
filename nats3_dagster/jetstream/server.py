"""The server that a link is connected to, as it describes itself."""

from contextlib import suppress
from dataclasses import dataclass

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.codes import FAST_INGEST, OLDEST_SERVER, restores, version_of
from nats3_dagster.jetstream.link import Link


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server's own description."""

    version: tuple[int, int, int]
    id: str  # another one at each start
    address: str  # host:port
    max_payload: int  # bytes of header block and payload of a message together
    jetstream: bool  # whether it has JetStream
    clustered: bool = False  # whether it is one of a cluster
    domain: str = ""  # its own JetStream domain; empty where it has none
    imported: bool = False  # whether the streams are another account's, whose JetStream API is imported

    @property
    def name(self) -> str:
        """The server with its version and address, for people."""
        return f"nats-server {'.'.join(map(str, self.version))} at {self.address}"

    @property
    def supports_batches(self) -> bool:
        """True if fast-ingest batches can go through it. An import keeps about 800 bytes for each message without an
        answer of its own, which is nearly each of a batch."""
        return self.version >= FAST_INGEST and not self.imported

    @property
    def restores_streams(self) -> bool:
        """True if it restores messages at their sequences and times."""
        return restores(self.version)


def server_info(link: Link) -> ServerInfo:
    """The server that this link is connected to."""
    info = link.client.info
    return ServerInfo(
        version_of(info),
        str(info.get("server_id", "")),
        link.client.address,
        int(info["max_payload"]),
        bool(info.get("jetstream")),
        bool(info.get("cluster")),
        str(info.get("domain") or ""),
        link.client.is_imported,
    )


def check_version(server: ServerInfo) -> None:
    """Raises OperatorError for a server that acts on headers of other names than its own: what it stored before an
    archive, or stores of a replay, is not what was sent. One that does not tell its version counts as new."""
    if (0, 0, 0) < server.version < OLDEST_SERVER:
        raise OperatorError(
            f"{server.name} is older than {'.'.join(map(str, OLDEST_SERVER))}: it acts on each header whose name ends "
            "with the name of one of its own",
            "Update it",
        )


def check_jetstream(link: Link) -> None:
    """Raises SourceError if no JetStream answers at the connection's API; a refusal is an answer."""
    with suppress(Refused):
        link.call(request, "STREAM.NAMES", None, 0.0)
