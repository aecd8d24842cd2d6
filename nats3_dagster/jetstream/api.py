"""The JetStream API: one request, one answer, and what a refusal means.

The rule kept here: a request is sent again only while the server is away or electing a leader, never after an answer.
All requests of ours are safe to send twice.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from nats import errors as nats_errors

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.client import Connection

TIMEOUT_S = 5.0
# How long a server may be away (a restart, an election) before a request fails.
PATIENCE_S = 15.0
# "JetStream system temporarily unavailable", "no suitable peers", "stream/consumer is offline": an election, mostly.
_PASSING = (10008, 10005, 10118, 10119)


class Refused(SourceError):
    """The JetStream API answered with an error; `code` is its err_code."""

    def __init__(self, what: str, hint: str = "", code: int = 0) -> None:
        super().__init__(what, hint)
        self.code = code


async def request(
    client: Connection, subject: str, body: Mapping[str, Any] | None = None, patience_s: float = PATIENCE_S
) -> dict[str, Any]:
    """The answer of `$JS.API.<subject>`. Raises Refused for an error in it, SourceError when none comes."""
    payload = json.dumps(body or {}).encode()
    until = time.monotonic() + patience_s
    while True:
        try:
            answer = await _ask(client, f"$JS.API.{subject}", payload)
        except Refused:
            raise
        except SourceError:
            if client.is_closed or time.monotonic() > until:
                raise
        else:
            error = answer.get("error")
            if not error:
                return answer
            if error.get("err_code") not in _PASSING or time.monotonic() > until:
                raise _refused(error)
        await asyncio.sleep(0.2)


async def pages(client: Connection, subject: str, key: str, body: Mapping[str, Any]) -> AsyncIterator[Any]:
    """The items of a listing that comes in pages."""
    offset = 0
    while True:
        answer = await request(client, subject, {**body, "offset": offset})
        items: list[Any] = answer.get(key) or []
        for item in items:
            yield item
        offset += len(items)
        if not items or offset >= answer.get("total", 0):
            return


async def _ask(client: Connection, subject: str, payload: bytes) -> dict[str, Any]:
    address = client.address
    asking = asyncio.ensure_future(client.request(subject, payload, timeout=TIMEOUT_S))
    refusing = asyncio.ensure_future(client.refused(subject))
    try:
        await asyncio.wait((asking, refusing), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise Refused(f"NATS at {address} refused: {refusing.result()}", "Permit this user of the server to do it")
        return json.loads(asking.result().data)
    except nats_errors.NoRespondersError as error:
        if not client.info.get("jetstream"):
            raise Refused(f"NATS at {address} has no JetStream", "Start it with -js, or use one that has it") from error
        what = f"JetStream at {address} does not answer {subject}"
        raise SourceError(what, "Enable JetStream for this account") from error
    except nats_errors.TimeoutError as error:
        raise SourceError(f"NATS at {address} did not answer within {TIMEOUT_S:.0f} s", "Is it overloaded?") from error
    except (nats_errors.Error, OSError) as error:
        raise SourceError(f"The connection to NATS at {address} was lost", "Is the server up?") from error
    except ValueError as error:
        raise SourceError(f"NATS at {address} answered {subject} with something that is no JSON") from error
    finally:
        asking.cancel()
        refusing.cancel()


def _refused(error: Mapping[str, Any]) -> Refused:
    text, code = str(error.get("description", "no reason given")), int(error.get("err_code") or 0)
    hints = {
        10039: "Enable JetStream for this account",
        10076: "Start the server with -js, or use one that has JetStream",
        10047: "Free storage on the server, or raise its JetStream limits",
        10023: "Raise the JetStream limits of the account or server",
    }
    return Refused(f"JetStream refused: {text} ({code})", hints.get(code, ""), code)
