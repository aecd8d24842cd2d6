"""The JetStream API: one request, one answer.

A request is sent again only while the server is away or elects a leader. All of our requests are safe to send twice. A
leader that has lost its cluster is not believed.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from nats import errors as nats_errors
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_fixed

from nats3_dagster.errors import SourceError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode, request_passes
from nats3_dagster.jetstream.nats_options import API

TIMEOUT_S = 5.0
# How long a server may be away (a restart, an election) before a request fails.
PATIENCE_S = 15.0
ASK_AGAIN_S = 0.2
# A leader that is cut off from its cluster goes on answering for ten seconds. A follower waits for four before it asks
# for votes (nats-server, raft.go: minElectionTimeoutDefault), and hears from its leader every second. So a leader that
# a majority has answered within three is the only one. Seen idle, on 2.9.10 and 2.15.1: at most 1.05 s.
HEARD_S = 3.0
_FOREIGN_HINT = (
    "Check NATS3_NATS_DOMAIN, NATS3_NATS_API_PREFIX, the connection of the leaf node, and what the account imports"
)


class Refused(SourceError):
    """The JetStream API answered with an error; `code` is its err_code, 0 if the server itself refused."""

    def __init__(self, what: str, hint: str = "", code: int = 0) -> None:
        super().__init__(what, hint)
        self.code = code


async def request(
    client: Connection,
    subject: str,
    body: Mapping[str, Any] | None = None,
    patience_s: float = PATIENCE_S,
    api: str | None = None,
) -> dict[str, Any]:
    """The answer of the API's `<subject>`. For `patience_s` it is asked for again while a leader is elected or the
    server is away. `api`: another API than the connection's.

    Raises Refused for an error in the answer, SourceError if none comes."""

    def may_pass(error: BaseException) -> bool:
        if isinstance(error, Refused):
            return request_passes(error.code)
        return isinstance(error, SourceError) and not client.is_closed

    retrying = AsyncRetrying(
        retry=retry_if_exception(may_pass),
        stop=stop_after_delay(patience_s),
        wait=wait_fixed(ASK_AGAIN_S),
        reraise=True,
    )
    return await retrying(_ask, client, f"{api or client.api}.{subject}", json.dumps(body or {}).encode())


async def own_request(client: Connection, subject: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The answer of the connection's own JetStream, whatever domain or import the options name. None where there is
    none, it does not have what is asked for, or this user may not ask it. Raises SourceError if it may have."""
    try:
        return await request(client, subject, body, 0.0, API)
    except Refused:
        return None
    except SourceError as error:
        if isinstance(error.__cause__, nats_errors.NoRespondersError):
            return None
        raise


async def pages(
    client: Connection, subject: str, key: str, body: Mapping[str, Any], *, all_online: bool = False
) -> AsyncIterator[Any]:
    """The items of a listing that comes in pages; `key` is their name in each page. A page without the streams whose
    leader did not answer is asked for again. `all_online`: none may be left out because its server is too old for it.
    Raises SourceError when some go on missing."""
    offset = 0
    while True:
        answer = await _whole_page(client, subject, {**body, "offset": offset})
        if all_online and (offline := answer.get("offline")):
            raise SourceError(f"{', '.join(offline)} is offline, and its state unknown", "Update the servers")
        items: list[Any] = answer.get(key) or []
        for item in items:
            yield item
        offset += len(items)
        if not items or offset >= answer.get("total", 0):
            return


def leader_of(info: Mapping[str, Any]) -> str:
    """The server that leads the stream or consumer of this answer; empty where the answer does not say it."""
    cluster: dict[str, Any] = info.get("cluster") or {}
    return str(cluster.get("leader") or "")


async def _whole_page(client: Connection, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE_S
    while True:
        answer = await request(client, subject, body)
        missing: list[str] = answer.get("missing") or []
        if not missing:
            return answer
        if time.monotonic() > until:
            raise SourceError(f"The state of stream {', '.join(missing)} cannot be known now", "Has it a leader?")
        await asyncio.sleep(ASK_AGAIN_S)


async def _ask(client: Connection, subject: str, payload: bytes) -> dict[str, Any]:
    """One request. Raises Refused or SourceError."""
    answer = await _answer(client, subject, payload)
    if error := answer.get("error"):
        raise _refused(error)
    if not _is_led(answer):
        raise SourceError(
            f"{leader_of(answer) or 'A server without a leader'} answers {subject}, and has not heard from a majority "
            f"of its cluster for {HEARD_S:.0f} s",
            "Another server may lead by now: are the servers of the cluster up, and their routes?",
        )
    return answer


def _is_led(answer: Mapping[str, Any]) -> bool:
    """True if the server that gave this state of a stream or consumer certainly leads it."""
    cluster: dict[str, Any] = answer.get("cluster") or {}
    replicas: list[dict[str, Any]] = cluster.get("replicas") or []
    heard = [r for r in replicas if not r.get("offline") and r.get("active", 0) < HEARD_S * SECOND_NS]
    return not replicas or 2 * (1 + len(heard)) > 1 + len(replicas)


async def _answer(client: Connection, subject: str, payload: bytes) -> dict[str, Any]:
    address = client.address
    asking = asyncio.ensure_future(client.request(subject, payload, timeout=TIMEOUT_S))
    refusing = asyncio.ensure_future(client.refused(subject))
    try:
        await asyncio.wait((asking, refusing), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise Refused(f"NATS at {address} refused: {refusing.result()}", "Permit this user of the server to do it")
        return json.loads(asking.result().data)
    except nats_errors.NoRespondersError as error:
        if not client.is_own_jetstream:
            raise SourceError(f"No JetStream answers {subject} at NATS {address}", _FOREIGN_HINT) from error
        if not client.info.get("jetstream"):
            hint = "Enable it there (nats-server -js), or use another server"
            raise Refused(f"NATS at {address} has no JetStream", hint) from error
        what = f"JetStream at {address} does not answer {subject}"
        raise SourceError(what, "Enable JetStream for this account") from error
    except nats_errors.TimeoutError as error:
        late = SourceError(f"NATS at {address} did not answer within {TIMEOUT_S:.0f} s", "Is it overloaded?")
        raise client.login_error or late from error
    except (nats_errors.Error, OSError) as error:
        lost = SourceError(f"The connection to NATS at {address} was lost", "Is the server up?")
        raise client.login_error or lost from error
    except ValueError as error:
        raise SourceError(f"NATS at {address} answered {subject} with something that is no JSON") from error
    finally:
        asking.cancel()
        refusing.cancel()


def _refused(error: Mapping[str, Any]) -> Refused:
    text, code = str(error.get("description", "no reason given")), int(error.get("err_code") or 0)
    hints: dict[int, str] = {
        ErrCode.NOT_ENABLED_FOR_ACCOUNT: "Enable JetStream for this account",
        ErrCode.NOT_ENABLED: "Enable it on the server (nats-server -js), or use another one",
        ErrCode.MAX_CONSUMERS: "Delete unused consumers, or raise max_consumers of the stream or account",
        ErrCode.MAX_ACK_PENDING: "Raise max_ack_pending of the stream's consumer_limits, or of the account",
        ErrCode.INACTIVE_THRESHOLD: "Raise inactive_threshold of the stream's consumer_limits",
        ErrCode.NO_STORAGE: "Free storage on the server, or raise its JetStream limits",
        ErrCode.NO_RESOURCES: "Raise the JetStream limits of the account or server",
    }
    return Refused(f"JetStream refused: {text} ({code})", hints.get(code, ""), code)
