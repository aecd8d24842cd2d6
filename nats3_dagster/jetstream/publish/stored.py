"""Stored: single messages of a stream by their sequences, as the stream's leader has them.

No consumer is made, so this also reads streams that allow none without acknowledgements (work queues).
"""

import asyncio
import base64
from collections.abc import Iterable

from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.link import Link


def header_blocks(link: Link, stream: str, seqs: Iterable[int]) -> list[bytes | None]:
    """The header block of the message at each sequence, empty for a message without headers; None where the stream has
    no message. All are asked for at once. Raises SourceError."""

    async def work(client: Connection) -> list[bytes | None]:
        return await asyncio.gather(*(_header_block(client, stream, seq) for seq in seqs))

    return link.call(work)


async def _header_block(client: Connection, stream: str, seq: int) -> bytes | None:
    try:
        answer = await request(client, f"STREAM.MSG.GET.{stream}", {"seq": seq})
    except Refused as error:
        if error.code == ErrCode.MESSAGE_NOT_FOUND:
            return None
        raise
    return base64.b64decode(answer["message"].get("hdrs", ""))
